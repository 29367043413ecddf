//! Time between recoveries that do not help.

use evenkeel_domain::orchestration::health_policy::Detection;

/// Longest pause in seconds, unless the detection itself is slower.
const LONGEST_PAUSE: u64 = 3_600;

/// Returns the seconds until a recovery may begin again, after `failures` in a row that did not help.
///
/// A check that fails whatever is done, or a service that takes longer to start than its policy allows, would otherwise take the instance
/// away again and again.
///
/// # Source
/// Orchestration C6.
pub fn retry_pause(detection: &Detection, failures: u32) -> u64 {
    let shortest = detection.interval.max(detection.node_update_timeout);
    let doubled = shortest.saturating_mul(1 << failures.saturating_sub(1).min(12));
    doubled.min(LONGEST_PAUSE.max(shortest))
}

#[cfg(test)]
mod tests {
    use evenkeel_domain::orchestration::health_policy::RecoveryConditional;

    use super::*;

    #[test]
    fn pause_doubles_up_to_an_hour() {
        let quick = Detection {
            interval: 2,
            node_update_timeout: 30,
            recovery_conditional: RecoveryConditional::default(),
            detection_modes: Vec::new(),
        };
        let pauses = [1, 2, 3, 7, 8, 100].map(|failures| retry_pause(&quick, failures));
        assert_eq!(pauses, [30, 60, 120, 1_920, 3_600, 3_600]);
        let slow = Detection { interval: 7_200, ..quick };
        assert_eq!(retry_pause(&slow, 5), 7_200);
    }
}
