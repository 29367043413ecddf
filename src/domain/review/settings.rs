//! `orchestration` of a deployment policy.

use super::{Finding, check_expression};
use crate::orchestration::{Orchestration, Restart, RestartCondition};

/// Checks settings that were read.
pub fn orchestration(settings: &Orchestration) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Err(error) = check_expression(&settings.placement.expression) {
        found.push(Finding::error("orchestration.placement.expression", error.to_string()));
    }
    found.extend(restart(&settings.restart));
    found
}

/// Restarts that wait so long that the window never holds as many as end the attempts.
fn restart(restart: &Restart) -> Option<Finding> {
    let Restart { condition, delay_seconds: delay, max_attempts: most, window_seconds: window, .. } =
        *restart;
    let spread = delay.saturating_mul(u64::from(most));
    if condition == RestartCondition::None || most == 0 || window == 0 || spread < window {
        return None;
    }
    let rule = format!(
        "of {most} is never reached: with delaySeconds {delay} that many restarts take at least {spread} s, and windowSeconds is {window}"
    );
    Some(Finding::warning("orchestration.restart.maxAttempts", rule))
}
