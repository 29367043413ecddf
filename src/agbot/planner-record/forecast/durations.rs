//! The belief about the time until a new instance is seen running, and draws from it.
//!
//! The logarithm of the time is normally distributed; the belief about its mean and variance is a normal-inverse-gamma distribution, which
//! measured steps update in closed form. Nothing measured leaves a wide belief, a few steps a narrow one. Steps of earlier rollouts count,
//! together, as no more than some steps of this one: another version may start faster or slower.

use std::f64::consts::TAU;

use rand::Rng;

use super::MeasuredSteps;

/// Believed before anything was measured, as the median of the time, in seconds.
const USUAL_SECS: f64 = 20.0;
/// Number of steps as which the steps of earlier rollouts count at most.
const EARLIER_WEIGHT: f64 = 6.0;
/// Shorter times are not distinguished: reports arrive with such a delay.
const SHORTEST_SECS: f64 = 0.2;
/// Draws until one that is longer than what has passed is given up.
const ATTEMPTS: usize = 16;

/// A belief about the mean and the variance of the logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Belief {
    mean: f64,
    /// Number of observations that the mean is worth.
    weight: f64,
    /// Half the number of observations that the variance is worth.
    shape: f64,
    /// Half the sum of their squared deviations.
    scale: f64,
}

/// A distribution of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Distribution {
    mean: f64,
    deviation: f64,
}

impl Belief {
    /// Returns the belief after the measured steps.
    pub fn of(measured: &MeasuredSteps) -> Self {
        let nothing = Self { mean: USUAL_SECS.ln(), weight: 0.2, shape: 1.0, scale: 0.15 };
        let share = EARLIER_WEIGHT / measured.earlier.len().max(1) as f64;
        nothing.after(&measured.earlier, share.min(1.0)).after(&measured.own, 1.0)
    }

    /// Returns the belief after further steps, each of which counts as `share` of one.
    fn after(self, secs: &[f64], share: f64) -> Self {
        if secs.is_empty() {
            return self;
        }
        let logarithms = || secs.iter().map(|secs| secs.max(SHORTEST_SECS).ln());
        let count = secs.len() as f64;
        let mean = logarithms().sum::<f64>() / count;
        let squares: f64 = logarithms().map(|one| (one - mean).powi(2)).sum();
        let counted = count * share;
        let weight = self.weight + counted;
        let distance = (mean - self.mean).powi(2);
        Self {
            mean: (self.weight * self.mean + counted * mean) / weight,
            weight,
            shape: self.shape + counted / 2.0,
            scale: self.scale + squares * share / 2.0 + self.weight * counted * distance / (2.0 * weight),
        }
    }

    /// Draws a distribution.
    pub fn draw(&self, random: &mut impl Rng) -> Distribution {
        let variance = self.scale / gamma(self.shape, random);
        let mean = self.mean + (variance / self.weight).sqrt() * normal(random);
        Distribution { mean, deviation: variance.sqrt() }
    }
}

impl Distribution {
    /// Draws a time that is longer than what has passed already; if that is improbable, the step ends about now.
    pub fn draw_longer_than(&self, secs: f64, random: &mut impl Rng) -> f64 {
        let mut draws = (0..ATTEMPTS).map(|_| (self.mean + self.deviation * normal(random)).exp());
        draws.find(|drawn| *drawn >= secs).unwrap_or(secs)
    }
}

/// Draws a number above 0, up to 1.
fn uniform(random: &mut impl Rng) -> f64 {
    1.0 - random.random::<f64>()
}

/// Draws from the standard normal distribution, by the method of Box and Muller.
fn normal(random: &mut impl Rng) -> f64 {
    (-2.0 * uniform(random).ln()).sqrt() * (TAU * uniform(random)).cos()
}

/// Draws from the gamma distribution with a shape of at least 1, by the method of Marsaglia and Tsang.
fn gamma(shape: f64, random: &mut impl Rng) -> f64 {
    let center = shape - 1.0 / 3.0;
    let spread = 1.0 / (9.0 * center).sqrt();
    loop {
        let drawn = normal(random);
        let cube = (1.0 + spread * drawn).powi(3);
        let limit = drawn * drawn / 2.0 + center - center * cube + center * cube.max(f64::MIN_POSITIVE).ln();
        if cube > 0.0 && uniform(random).ln() < limit {
            return center * cube;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn mean(mut draw: impl FnMut() -> f64) -> f64 {
        (0..20_000).map(|_| draw()).sum::<f64>() / 20_000.0
    }

    #[test]
    fn draws_have_the_means_of_their_distributions() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        assert!(mean(|| normal(&mut random)).abs() < 0.03);
        assert!((mean(|| normal(&mut random).powi(2)) - 1.0).abs() < 0.05);
        for shape in [1.0, 2.5, 40.0] {
            assert!((mean(|| gamma(shape, &mut random)) / shape - 1.0).abs() < 0.05, "{shape}");
        }
    }

    #[test]
    fn belief_follows_what_was_measured_and_own_steps_outweigh_earlier_ones() {
        let belief = |own: &[f64], earlier: &[f64]| {
            let found = Belief::of(&MeasuredSteps { own: own.to_vec(), earlier: earlier.to_vec() });
            found.mean.exp()
        };
        assert!((belief(&[], &[]) - USUAL_SECS).abs() < 1e-9);
        assert!((belief(&[60.0; 30], &[]) - 60.0).abs() < 1.0);
        assert!((belief(&[], &[60.0; 30]) - 60.0).abs() < 3.0);
        let both = belief(&[60.0; 30], &[5.0; 1_000]);
        assert!(both > 35.0, "{both}");
    }

    #[test]
    fn time_is_never_shorter_than_what_has_passed() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        let distribution = Distribution { mean: 2.0, deviation: 0.3 };
        for elapsed in [0.0, 5.0, 9.0, 5_000.0] {
            assert!(distribution.draw_longer_than(elapsed, &mut random) >= elapsed);
        }
    }
}
