//! A part of a whole.

use serde::{Serialize, Serializer};

const WHOLE: u32 = 1_000_000;

/// A part of a whole, from 0 to 1, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(u32);

impl Ratio {
    /// One half.
    pub const HALF: Self = Self(WHOLE / 2);

    /// Returns the ratio nearest to a number.
    #[must_use]
    pub fn nearest(number: f64) -> Self {
        let millionths = (number.clamp(0.0, 1.0) * f64::from(WHOLE)).round();
        // From 0 to a million.
        Self(millionths as u32)
    }

    /// Returns whether `part` is more than this part of `whole`.
    #[must_use]
    pub fn is_exceeded(self, part: usize, whole: usize) -> bool {
        part as u128 * u128::from(WHOLE) > whole as u128 * u128::from(self.0)
    }
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from(self.0) / f64::from(WHOLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_exceeded_by_more_than_half() {
        assert!(!Ratio::HALF.is_exceeded(2, 4) && Ratio::HALF.is_exceeded(3, 4));
        assert!(Ratio::nearest(0.0).is_exceeded(1, 100) && !Ratio::nearest(1.0).is_exceeded(4, 4));
        assert_eq!(serde_json::to_string(&Ratio::nearest(0.25)).unwrap(), "0.25");
    }
}
