//! What an action would do now, as far as the API knows it.

use evenkeel_ids::NodeId;
use evenkeel_wire::agbot::orchestration::StatusQuery;

use super::catalog::{Action, Subject, Target};
use crate::failure::Failure;
use crate::layout::bare_name;
use crate::plan_token::token_of;
use crate::reads;
use crate::session::Reader;

/// Instances that a plan names.
const NAMED: usize = 50;

/// Rollouts that a plan compares, those in progress first.
const ROLLOUTS: u16 = 1000;

/// Effects of an action, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Plan {
    /// What the action is about, as it is now.
    pub(crate) state: String,
    /// What it concerns: name and state of each.
    pub(crate) concerned: Vec<(String, String)>,
    /// Number of those that are not named.
    pub(crate) others: usize,
}

impl Plan {
    /// Plans an action.
    ///
    /// # Errors
    /// When the reader may not read its object, or there is none.
    pub(super) async fn of(reader: &Reader, action: &Action, target: &Target) -> Result<Self, Failure> {
        match action.subject {
            Subject::Node => of_node(reader, target).await,
            Subject::Policy | Subject::Move => of_policy(reader, target).await,
            Subject::Rollout => of_rollout(reader, target).await,
            Subject::Claim => of_claim(reader, target).await,
        }
    }

    /// Returns a text that differs when the plan, the action or its object does.
    pub(super) fn token(&self, action: &Action, target: &Target) -> String {
        token_of(&(self, action.name, target))
    }

    fn new(state: String, mut concerned: Vec<(String, String)>) -> Self {
        let others = concerned.len().saturating_sub(NAMED);
        concerned.truncate(NAMED);
        Self { state, concerned, others }
    }
}

async fn of_node(reader: &Reader, target: &Target) -> Result<Plan, Failure> {
    let node = NodeId::new(&target.org, target.node());
    let record = reader.client.node_orchestration_record(&node).await?;
    let record = record.ok_or_else(|| Failure::Missing(format!("the node {node} does not exist")))?;
    let spec = &record.as_value()["spec"];
    let frozen = if spec["frozen"] == true { ", frozen" } else { "" };
    let availability = spec["availability"].as_str().unwrap_or("active");
    let reasons = reads::reasons(reader, &node).await?;
    let placed = reasons.into_iter().filter(|reason| reason.placement().placement != "not-placed");
    let concerned = placed.map(|one| (bare_name(&target.org, one.policy.as_str()).to_owned(), one.text));
    Ok(Plan::new(format!("{availability}{frozen}"), concerned.collect()))
}

async fn of_policy(reader: &Reader, target: &Target) -> Result<Plan, Failure> {
    let query = StatusQuery { limit: Some(1000), ..StatusQuery::default() };
    let status = reads::status(reader, (&target.org, target.policy()), &query).await?;
    let with_tasks = status.workload_units.iter().flat_map(|unit| &unit.instances);
    let with_tasks =
        with_tasks.filter(|instance| instance.task_id.is_some() || instance.agreement_id.is_some());
    let concerned = with_tasks.map(|one| (one.node.clone(), format!("{}, {}", one.avail, one.monitor_state)));
    let state = format!("{}, {}, update {}", status.avail, status.frozen, status.update.state);
    Ok(Plan::new(state, concerned.collect()))
}

async fn of_rollout(reader: &Reader, target: &Target) -> Result<Plan, Failure> {
    let found = reads::rollouts(reader, (&target.org, Some(target.policy())), ROLLOUTS).await?;
    let id = format!("{}/{}", target.org, target.policy());
    let of_groups = found.rollouts.into_iter().map(|rollout| (rollout.group.name().to_owned(), rollout.text));
    let updates = found.workloads.into_iter().map(|update| ("all".to_owned(), update.text));
    let concerned: Vec<_> = of_groups.chain(updates).collect();
    if concerned.is_empty() {
        return Err(Failure::Missing(format!("there is no rollout of {id}")));
    }
    Ok(Plan::new(format!("{} rollouts", concerned.len()), concerned))
}

async fn of_claim(reader: &Reader, target: &Target) -> Result<Plan, Failure> {
    let found = reads::claims(reader, &target.org, target.group()).await?;
    let node = NodeId::new(&target.org, target.node());
    let held = found.agent.iter().chain(&found.workloads).filter(|held| held.claim.node == node);
    let concerned: Vec<_> = held
        .map(|held| {
            let subject = held.policy.as_ref().map_or_else(|| "agent".to_owned(), ToString::to_string);
            (subject, format!("{} since {}", held.claim.phase, held.claim.since))
        })
        .collect();
    if concerned.is_empty() {
        return Err(Failure::Missing(format!("{node} holds no claim of {}", target.group())));
    }
    Ok(Plan::new(format!("{} claims", concerned.len()), concerned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_changes_with_the_plan_the_action_and_its_object() {
        let plan =
            |state: &str| Plan::new(state.to_owned(), vec![("camera".into(), "runs version 1.0.0".into())]);
        let action = |name| Action::find(name).expect("an action");
        let target =
            |node: &str| Target { org: "o".into(), node: Some(node.to_owned()), ..Target::default() };
        let token = |state, name, node| plan(state).token(action(name), &target(node));
        let one = token("active", "node-drain", "n1");
        assert_eq!(one, token("active", "node-drain", "n1"));
        for other in [
            token("drain", "node-drain", "n1"),
            token("active", "node-freeze", "n1"),
            token("active", "node-drain", "n2"),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn long_plan_names_some_and_counts_the_others() {
        let plan =
            Plan::new(String::new(), (0..53).map(|number| (number.to_string(), String::new())).collect());
        assert_eq!((plan.concerned.len(), plan.others), (NAMED, 3));
    }
}
