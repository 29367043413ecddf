//! The HA group of a node as to one service: the minimum available, and one disruption at a time.
//!
//! Source: orchestration E3, E4, E5.4.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{NodeId, ServiceKey};
use evenkeel_planner_record::{claims::Claim, facts::HaGroupFacts, report::Blocked};

/// An HA group as to one service.
///
/// # Shape
/// `running` and `missing` together are the intended members: those that a policy selects for the service. Members that do not
/// count under the policy's rule for offline peers are in neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupState {
    /// The group.
    pub facts: HaGroupFacts,
    /// The service.
    pub service: ServiceKey,
    /// Intended members that are seen running it.
    pub running: BTreeSet<NodeId>,
    /// Those of them whose instances all fail the health policy of their workload.
    pub failing: BTreeSet<NodeId>,
    /// The other intended members, each with the reason.
    pub missing: BTreeMap<NodeId, String>,
    /// Those of them that are down: what they ran may run on.
    pub down: BTreeSet<NodeId>,
    /// The claims of the group, whatever their subject.
    pub claims: Vec<Claim>,
}

/// The other intended members: those on which the service can be relied, and what keeps the rest from counting.
struct Others {
    running: Vec<NodeId>,
    missing: BTreeMap<NodeId, String>,
}

impl GroupState {
    /// A member that is being disrupted does not count as running; `counts_failing`: one that fails its checks does.
    fn others(&self, node: &NodeId, counts_failing: bool) -> Others {
        let claim_on = |member: &NodeId| self.claims.iter().find(|claim| claim.node == *member);
        let missing = self.missing.iter().filter(|(member, _)| *member != node);
        let mut others = Others {
            running: Vec::new(),
            missing: missing.map(|(member, why)| (member.clone(), why.clone())).collect(),
        };
        for member in self.running.iter().filter(|member| *member != node) {
            match claim_on(member) {
                Some(claim) => {
                    others.missing.insert(member.clone(), claim.disruption());
                }
                None if !counts_failing && self.failing.contains(member) => {
                    others.missing.insert(member.clone(), "fails its health check".to_owned());
                }
                None => others.running.push(member.clone()),
            }
        }
        others
    }

    fn below_minimum(&self, wanted: usize, others: Others) -> Blocked {
        Blocked::HaMinimum {
            group: self.facts.id.clone(),
            service: self.service.clone(),
            wanted: u32::try_from(wanted).unwrap_or(u32::MAX),
            running: others.running,
            missing: others.missing,
        }
    }

    /// Returns the wait for members that are to run the service, while too few others than `node` run it that
    /// will continue.
    ///
    /// # Shape
    /// `is_selected`: whether a member keeps the service, or is to get it.
    /// # Source
    /// Orchestration E4.7.
    pub fn missing_successor(
        &self,
        (node, min_running): (&NodeId, u32),
        is_selected: impl Fn(&NodeId) -> bool,
    ) -> Option<Blocked> {
        let others = self.others(node, self.failing.contains(node));
        let running = others.running.iter().filter(|member| is_selected(member)).count();
        let expected = others.missing.keys().filter(|member| is_selected(member)).count();
        let minimum = (min_running as usize).min(running + expected);
        (running < minimum).then(|| self.below_minimum(minimum, others))
    }
}

/// Returns the other members that keep the service up while the one on `node` is stopped.
///
/// A healthy instance is not stopped for the sake of one that fails its checks. Between instances that all fail them nothing is known to be
/// better, and a check may be wrong: they count as what they are.
/// # Shape
/// `is_recovery`: the one on `node` is stopped because it has failed.
/// # Errors
/// [`Blocked::HaMinimum`] when there are fewer than `min_running`, limited to the number of other intended members.
pub fn may_stop(
    group: &GroupState,
    node: &NodeId,
    (min_running, is_recovery): (u32, bool),
) -> Result<Vec<NodeId>, Blocked> {
    let others = group.others(node, is_recovery || group.failing.contains(node));
    let minimum = (min_running as usize).min(others.running.len() + others.missing.len());
    if others.running.len() >= minimum {
        return Ok(others.running);
    }
    Err(group.below_minimum(minimum, others))
}
