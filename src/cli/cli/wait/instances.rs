//! Counts the instances of a policy from its runtime status: a node may run several of them.

use evenkeel_wire::agbot::orchestration::{StatusQuery, WorkloadStatus, WorkloadUnit};

use crate::context::{Context, Exchange};
use crate::exit::Outcome;

/// Nodes of each workload unit that are read: those with tasks are listed first.
const LIMIT: u16 = 1000;

/// Start of the warning about slots without an instance because of the restart policy or a failed start.
const GIVEN_UP: &str = " given up: ";
/// Start of the warning about a policy that a user has stopped.
const STOPPED: &str = "stopped by a user";

/// The instances of a policy that run, and those that are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceCount {
    /// Those that run, healthy or not.
    pub running: u64,
    /// Those that the hub keeps running.
    pub wanted: u64,
    /// Description of the difference; none when every workload unit has the wanted number.
    pub difference: Option<String>,
    /// True if missing instances are not started again until a user acts.
    pub is_given_up: bool,
    /// True if a user has stopped the policy, so that nothing starts until a user starts it.
    pub is_stopped: bool,
}

impl InstanceCount {
    /// Reads the count of a policy, `org/policy`; none when the agbot does not count its instances.
    ///
    /// # Errors
    /// With status 5 when the agbot does not respond.
    pub async fn read(context: &Context, exchange: &Exchange, policy: &str) -> Outcome<Option<Self>> {
        let (org, name) = exchange.split(policy);
        let agbot = context.agbot(exchange)?;
        let doing = format!("reading the orchestration status of {org}/{name}");
        let query = StatusQuery { limit: Some(LIMIT), ..StatusQuery::default() };
        let found = agbot.client.orchestration_record(&org, &name, &query);
        let Some(found) = agbot.call(&doing, found).await? else { return Ok(None) };
        Ok(Self::of(&agbot.read(&doing, &found)?))
    }

    /// Counts the instances in a status; none when it has no workload unit.
    ///
    /// Surplus instances are no difference while a freeze or incompatible agents keep the hub from stopping them.
    fn of(status: &WorkloadStatus) -> Option<Self> {
        let parts = &status.workload_units;
        if parts.is_empty() {
            return None;
        }
        let stops_surplus = status.frozen == "thawed" && status.compat == "ok";
        let numbers = |unit: &WorkloadUnit| (running(unit), u64::from(unit.target));
        let is_different = |unit: &&WorkloadUnit| {
            let (running, wanted) = numbers(unit);
            running < wanted || running > wanted && stops_surplus
        };
        let total = parts.iter().map(numbers).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let difference = parts.iter().find(is_different).map(|unit| match parts.len() {
            1 => text(total),
            _ => format!("{}; {}: {}", text(total), unit.workload_unit, text(numbers(unit))),
        });
        // It states why the others do not run.
        let why = status.warnings.first().map(|warning| format!("; {warning}")).unwrap_or_default();
        let difference = difference.map(|difference| format!("{difference}{why}"));
        let is_starting = |unit: &WorkloadUnit| unit.instances.iter().any(|one| one.monitor_state != "idle");
        let has_given_up = status.warnings.iter().any(|warning| warning.contains(GIVEN_UP));
        let is_given_up = has_given_up && !parts.iter().any(is_starting);
        let is_stopped = is_stopped(status);
        Some(Self { running: total.0, wanted: total.1, difference, is_given_up, is_stopped })
    }

    /// Returns the numbers in words.
    pub fn text(&self) -> String {
        text((self.running, self.wanted))
    }
}

/// Returns the number of instances that run. Unhealthy instances run, too, but are not counted as up.
fn running(unit: &WorkloadUnit) -> u64 {
    let unhealthy = unit.instances.iter().filter(|one| one.avail == "warn");
    u64::from(unit.up) + unhealthy.map(|one| one.slots.len().max(1) as u64).sum::<u64>()
}

/// Returns whether a user has stopped the policy. An agbot that does not warn of that shows it as frozen, with no instance wanted.
fn is_stopped(status: &WorkloadStatus) -> bool {
    let is_empty = |unit: &WorkloadUnit| unit.target == 0;
    let has_node = |unit: &WorkloadUnit| unit.instance_count > 0;
    let parts = &status.workload_units;
    let is_warned = status.warnings.iter().any(|warning| warning.starts_with(STOPPED));
    is_warned || status.frozen == "frozen" && parts.iter().all(is_empty) && parts.iter().any(has_node)
}

fn text((running, wanted): (u64, u64)) -> String {
    if running > wanted {
        return format!("{running} instances run, {wanted} wanted");
    }
    format!("{running} of {wanted} instances run")
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::agbot::orchestration::{Instance, SlotName};

    use super::*;

    fn status(parts: &[(&str, u32, u32)]) -> WorkloadStatus {
        let unit = |(name, up, target): &(&str, u32, u32)| WorkloadUnit {
            workload_unit: (*name).to_owned(),
            up: *up,
            target: *target,
            ..WorkloadUnit::default()
        };
        WorkloadStatus {
            frozen: "thawed".to_owned(),
            compat: "ok".to_owned(),
            workload_units: parts.iter().map(unit).collect(),
            ..WorkloadStatus::default()
        }
    }

    fn difference(status: &WorkloadStatus) -> Option<String> {
        InstanceCount::of(status).and_then(|count| count.difference)
    }

    #[test]
    fn instances_are_counted_and_not_nodes() {
        let count = InstanceCount::of(&status(&[("all", 5, 5)])).unwrap();
        assert_eq!((count.running, count.wanted, count.difference), (5, 5, None));
        assert_eq!(difference(&status(&[("all", 3, 5)])).as_deref(), Some("3 of 5 instances run"));
        assert_eq!(InstanceCount::of(&status(&[])), None, "the agbot does not serve the policy");
    }

    #[test]
    fn every_group_needs_its_own_instances() {
        let found = difference(&status(&[("g1", 4, 2), ("g2", 0, 2)]));
        assert_eq!(found.as_deref(), Some("4 of 4 instances run; g1: 4 instances run, 2 wanted"));
        let found = difference(&status(&[("g1", 2, 2), ("g2", 1, 2)]));
        assert_eq!(found.as_deref(), Some("3 of 4 instances run; g2: 1 of 2 instances run"));
    }

    #[test]
    fn surplus_instances_are_waited_for_unless_nothing_stops_them() {
        let mut surplus = status(&[("all", 5, 2)]);
        assert_eq!(difference(&surplus).as_deref(), Some("5 instances run, 2 wanted"));
        surplus.frozen = "frozen".to_owned();
        assert_eq!(difference(&surplus), None);
    }

    #[test]
    fn policy_that_a_user_stopped_is_not_one_that_is_frozen() {
        let is_stopped =
            |status: &WorkloadStatus| InstanceCount::of(status).is_some_and(|count| count.is_stopped);
        let mut found = status(&[("g1", 0, 0), ("g2", 0, 0)]);
        assert!(!is_stopped(&found));
        found.frozen = "frozen".to_owned();
        assert!(!is_stopped(&found), "no instance is wanted where there is no node");
        found.workload_units[0].instance_count = 2;
        assert!(is_stopped(&found));
        found.workload_units[1].target = 1;
        assert!(!is_stopped(&found));
        found.warnings = vec!["stopped by a user: o/ann".to_owned()];
        assert!(is_stopped(&found));
    }

    #[test]
    fn unhealthy_instance_runs() {
        let mut found = status(&[("all", 1, 3)]);
        let unhealthy = Instance {
            avail: "warn".to_owned(),
            slots: vec![SlotName::Number(2), SlotName::Number(3)],
            ..Instance::default()
        };
        found.workload_units[0].instances = vec![unhealthy, Instance::default()];
        assert_eq!(difference(&found), None);
    }
}
