//! `orchestration` of a deployment policy.

use evenkeel_ids::PolicyId;

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

/// Returns the policies of the same organization that settings name, each with the member that names it.
pub fn named_policies(id: &PolicyId, settings: &Orchestration) -> Vec<(String, PolicyId)> {
    let affinity = &settings.placement.affinity;
    let lists = [
        ("hard", &affinity.hard),
        ("hardAnti", &affinity.hard_anti),
        ("soft", &affinity.soft),
        ("softAnti", &affinity.soft_anti),
    ];
    let neighbors = lists.into_iter().flat_map(|(list, named)| {
        named.iter().map(move |workload| (format!("placement.affinity.{list}"), workload))
    });
    let relations = [("parents", &settings.parents), ("children", &settings.children)];
    let related = relations
        .into_iter()
        .flat_map(|(list, named)| named.iter().map(move |instance| (list.to_owned(), &instance.workload)));
    let named = neighbors.chain(related).filter_map(|(list, workload)| {
        let policy = workload.policy(id.org())?;
        (policy.org() == id.org()).then(|| (format!("orchestration.{list}"), policy))
    });
    named.collect()
}

/// Returns the finding about a policy that a member names and that does not exist.
pub fn missing_policy(member: &str, policy: &PolicyId) -> Finding {
    Finding::warning(member, format!("names deployment policy {policy}, which does not exist"))
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
