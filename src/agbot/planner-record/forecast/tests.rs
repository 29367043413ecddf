use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn pacing(parallelism: u32, watched_secs: u64, delay_secs: u64) -> Pacing {
    Pacing { parallelism, watched_secs, delay_secs, settling_secs: 0, start_timeout_secs: 600 }
}

fn independent(steps: u32) -> RemainingSteps {
    RemainingSteps { stages: vec![Stage { independent: steps, queues: Vec::new() }] }
}

fn queues(steps: &[u32]) -> RemainingSteps {
    let queues = steps.iter().map(|steps| Queue { steps: *steps, in_work: None }).collect();
    RemainingSteps { stages: vec![Stage { independent: 0, queues }] }
}

fn minimum(remaining: &RemainingSteps, pacing: &Pacing) -> u64 {
    forecast(remaining, pacing, &MeasuredSteps::default(), 1).expect("steps remain").minimum_secs
}

#[test]
fn minimum_is_what_the_settings_say() {
    assert_eq!(minimum(&independent(5), &pacing(1, 10, 2)), 5 * 10 + 4 * 2);
    assert_eq!(minimum(&independent(5), &pacing(2, 10, 2)), 3 * 10 + 2 * 2);
    assert_eq!(minimum(&independent(5), &pacing(0, 10, 2)), 10);
    assert_eq!(minimum(&queues(&[3, 1]), &pacing(0, 10, 0)), 30, "one after the other in a group");
    assert_eq!(minimum(&queues(&[2, 2]), &pacing(1, 10, 0)), 40, "one group at a time");
    let settling = Pacing { settling_secs: 7, ..pacing(0, 10, 0) };
    assert_eq!(minimum(&independent(5), &settling), 17);
    let [first, second] = [independent(2), independent(1)].map(|one| one.stages[0].clone());
    assert_eq!(minimum(&RemainingSteps { stages: vec![first, second] }, &pacing(0, 10, 0)), 20);
}

#[test]
fn step_in_work_takes_what_is_left_of_it() {
    let step = |elapsed_secs, running_secs| {
        let in_work = Some(StepInWork { elapsed_secs, running_secs });
        let queues = vec![Queue { steps: 0, in_work }];
        RemainingSteps { stages: vec![Stage { independent: 0, queues }] }
    };
    assert_eq!(minimum(&step(30, Some(4)), &pacing(1, 10, 0)), 6);
    assert_eq!(minimum(&step(30, Some(40)), &pacing(1, 10, 0)), 0);
    let measured = MeasuredSteps { own: vec![60.0; 20], earlier: Vec::new() };
    let found = forecast(&step(50, None), &pacing(1, 10, 0), &measured, 1).expect("a step remains");
    assert!((15..=30).contains(&found.secs), "{found:?}");
    let late = forecast(&step(590, None), &pacing(1, 10, 0), &measured, 1).expect("a step remains");
    assert!(late.secs <= 20, "it ends at the timeout: {late:?}");
}

#[test]
fn forecast_is_repeatable_and_says_what_it_is_based_on() {
    let of = |own: usize, earlier: usize| {
        let measured = MeasuredSteps { own: vec![9.0; own], earlier: vec![9.0; earlier] };
        forecast(&independent(10), &pacing(2, 5, 0), &measured, 3).expect("steps remain")
    };
    assert_eq!(of(4, 4), of(4, 4));
    let words = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(own, earlier)| of(own, earlier).basis.word());
    assert_eq!(words, ["settings", "earlier", "own", "own-and-earlier"]);
    let width = |found: Forecast| found.latest_secs - found.earliest_secs;
    assert!(width(of(30, 0)) < width(of(3, 0)) && width(of(3, 0)) < width(of(0, 0)));
    assert!(forecast(&independent(0), &pacing(1, 5, 0), &MeasuredSteps::default(), 1).is_none());
}

#[test]
fn long_rollout_is_forecast_by_a_short_one() {
    let measured =
        MeasuredSteps { own: (0..64).map(|one| 15.0 + f64::from(one % 10)).collect(), earlier: Vec::new() };
    for (remaining, parallelism, expected) in [
        // Rounds of about 19.5 + 10 seconds each, in which nothing is idle.
        (independent(100_000), 100, 1_000.0 * 29.5),
        (independent(5_000), 1, 5_000.0 * 29.5),
        (queues(&vec![2; 10_000]), 200, 100.0 * 29.5),
        (queues(&[500]), 0, 500.0 * 29.5),
    ] {
        let found = forecast(&remaining, &pacing(parallelism, 10, 0), &measured, 5).expect("steps remain");
        let ratio = found.secs as f64 / expected;
        assert!((0.9..1.2).contains(&ratio), "{parallelism}: {found:?}, expected {expected}");
        assert!(found.earliest_secs as f64 <= expected && expected * 0.99 <= found.latest_secs as f64 * 1.05);
    }
}

/// Draws a duration, whose logarithm is the sum of twelve uniform numbers: not the method of the forecast.
fn drawn(mean: f64, deviation: f64, random: &mut impl Rng) -> f64 {
    let normal = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
    (mean + deviation * normal).exp()
}

/// Carries out steps, of which each begins when the one that was finished first has made room.
fn carried_out(durations: &[f64], parallelism: usize, pacing: &Pacing) -> f64 {
    let (watched, delay) = (pacing.watched_secs as f64, pacing.delay_secs as f64);
    let mut free_at = vec![0.0; parallelism];
    let mut end: f64 = 0.0;
    for duration in durations {
        let first =
            free_at.iter_mut().min_by(|one: &&mut f64, other| one.total_cmp(other)).expect("a permit");
        let finished = *first + duration + watched;
        end = end.max(finished);
        *first = finished + delay;
    }
    end
}

/// The interval is one of 80 %: of many random rollouts, about that many end in it.
#[test]
fn four_of_five_rollouts_end_in_the_interval() {
    const ROLLOUTS: u64 = 400;
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut inside = 0;
    for seed in 0..ROLLOUTS {
        let (mean, deviation) = (random.random_range(1.5..4.5), random.random_range(0.15..0.8));
        let parallelism = random.random_range(1..6);
        let pacing = pacing(parallelism, random.random_range(0..20), random.random_range(0..5));
        let (measured, remaining) = (random.random_range(2..20), random.random_range(1..60));
        let mut steps =
            |count: u32| (0..count).map(|_| drawn(mean, deviation, &mut random)).collect::<Vec<f64>>();
        let measured = MeasuredSteps { own: steps(measured), earlier: Vec::new() };
        let found = forecast(&independent(remaining), &pacing, &measured, seed).expect("steps remain");
        let real = carried_out(&steps(remaining), parallelism as usize, &pacing);
        // Results are whole seconds.
        inside +=
            u64::from((found.earliest_secs as f64 - 0.5..=found.latest_secs as f64 + 0.5).contains(&real));
    }
    let percent = inside * 100 / ROLLOUTS;
    assert!((73..=88).contains(&percent), "{percent} %");
}

/// Before the first step of a rollout is finished, earlier ones stand in for it.
#[test]
fn rollouts_without_measured_steps_end_in_the_interval_of_earlier_ones() {
    const ROLLOUTS: u64 = 400;
    let mut random = ChaCha8Rng::seed_from_u64(12);
    let mut inside = 0;
    for seed in 0..ROLLOUTS {
        let (usual, deviation) = (random.random_range(2.0..4.0), random.random_range(0.3..0.8));
        // Each rollout has a mean of its own near the usual one.
        let own = usual + 0.5 * deviation * (random.random::<f64>() - 0.5);
        let pacing = pacing(2, 5, 0);
        let earlier = (0..40).map(|_| drawn(usual, deviation, &mut random)).collect();
        let measured = MeasuredSteps { own: Vec::new(), earlier };
        let found = forecast(&independent(12), &pacing, &measured, seed).expect("steps remain");
        let steps: Vec<f64> = (0..12).map(|_| drawn(own, deviation, &mut random)).collect();
        let real = carried_out(&steps, 2, &pacing);
        inside += u64::from((found.earliest_secs as f64..=found.latest_secs as f64).contains(&real));
    }
    let percent = inside * 100 / ROLLOUTS;
    assert!((70..=98).contains(&percent), "{percent} %");
}
