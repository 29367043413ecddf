//! Removes from a reason or a rollout everything about nodes that the caller may not read: neither their
//! names nor their numbers remain.
//!
//! Source: exchange-api 3.2, 6; orchestration 1.5 (`"node":"?"`).

use std::collections::BTreeMap;

use evenkeel_ids::NodeId;
use evenkeel_planner_record::report::{Blocked, HoldReason, Placement};
use evenkeel_planner_record::rollout::{Rollout, RolloutState};
use evenkeel_wire::agbot::rollout;
use serde_json::Value;

use super::SeenNodes;
use super::shape;

/// State of a pair, as the caller may see it.
pub(crate) fn placement(placement: Placement, seen: &SeenNodes) -> Placement {
    match placement {
        Placement::Waiting { agreement, blocked } => {
            Placement::Waiting { agreement, blocked: reason(blocked, seen) }
        }
        Placement::NotPlaced { blocked } => Placement::NotPlaced { blocked: reason(blocked, seen) },
        Placement::Placed { .. } | Placement::Acting { .. } => placement,
    }
}

/// A text that may name any node.
fn text(text: String, seen: &SeenNodes) -> String {
    if matches!(seen, SeenNodes::All) { text } else { String::new() }
}

/// A reason as the caller may see it. Every reason that names another node has its arm here.
#[expect(
    clippy::too_many_lines,
    reason = "the match is exhaustive: the compiler requires every reason here, whether it names a node"
)]
pub(crate) fn reason(blocked: Blocked, seen: &SeenNodes) -> Blocked {
    match blocked {
        Blocked::HaMinimum { group, service, wanted, running, missing } => Blocked::HaMinimum {
            running: nodes(running, seen),
            missing: members(missing, seen),
            group,
            service,
            wanted,
        },
        Blocked::HaLock { group, holder, scope, is_drain, since, deadline } => {
            Blocked::HaLock { holder: node(holder, seen), group, scope, is_drain, since, deadline }
        }
        Blocked::InstanceElsewhere { node: peer } => Blocked::InstanceElsewhere { node: node(peer, seen) },
        Blocked::PeerFirst { node: peer } => Blocked::PeerFirst { node: node(peer, seen) },
        Blocked::UpdateParallelism { limit, groups } => {
            // Whether the caller may read a member of these groups is not known here.
            let groups = if matches!(seen, SeenNodes::All) { groups } else { Vec::new() };
            Blocked::UpdateParallelism { limit, groups }
        }
        Blocked::AgentPeer { node: peer, state } => Blocked::AgentPeer { node: node(peer, seen), state },
        Blocked::AgentTurn { node: peer, until } => Blocked::AgentTurn { node: node(peer, seen), until },
        Blocked::RolloutHeld { hold: why, since } => Blocked::RolloutHeld { hold: hold(why, seen), since },
        Blocked::TaskStopping { task, node: peer, since, agreement } => {
            Blocked::TaskStopping { task, node: node(peer, seen), since, agreement }
        }
        Blocked::UnwantedNeighbor { partner, node: peer } => {
            Blocked::UnwantedNeighbor { partner, node: node(peer, seen) }
        }
        Blocked::NodeDeparting { node: peer, since, until } => {
            Blocked::NodeDeparting { node: node(peer, seen), since, until }
        }
        Blocked::FencePending { node: peer, until } => {
            Blocked::FencePending { node: node(peer, seen), until }
        }
        Blocked::NoRoom { node: peer, detail } => {
            Blocked::NoRoom { node: node(peer, seen), detail: text(detail, seen) }
        }
        Blocked::ReturnPending { origin } => Blocked::ReturnPending { origin: node(origin, seen) },
        Blocked::CommonCause { failing, running, cause } => {
            Blocked::CommonCause { failing, running, cause: text(cause, seen) }
        }
        Blocked::FenceFailed { node: peer, cause } => Blocked::FenceFailed { node: node(peer, seen), cause },
        // The message names the node that failed, and the error may be one of a node's instance.
        Blocked::UpdatePaused { message } => Blocked::UpdatePaused { message: text(message, seen) },
        Blocked::Unhealthy { domain, error, until } => {
            Blocked::Unhealthy { domain, error: text(error, seen), until }
        }
        Blocked::DomainOrder { .. }
        | Blocked::RecoveryBudget { .. }
        | Blocked::NodeUnknown
        | Blocked::PolicyUnknown
        | Blocked::OrgNotServed { .. }
        | Blocked::LeftToAgbot { .. }
        | Blocked::OtherAgbot { .. }
        | Blocked::UsesPattern { .. }
        | Blocked::OfPattern { .. }
        | Blocked::NeedsPrivileges { .. }
        | Blocked::OutsideScope { .. }
        | Blocked::NoNodePolicy
        | Blocked::NeverHeard
        | Blocked::NoPublicKey
        | Blocked::NodeDown { .. }
        | Blocked::NodeAway { .. }
        | Blocked::IncompatibleVersions { .. }
        | Blocked::NodePaused
        | Blocked::NodeDraining
        | Blocked::GroupGone { .. }
        | Blocked::NoCandidate { .. }
        | Blocked::WrongArch { .. }
        | Blocked::NoDeployment { .. }
        | Blocked::WrongNamespace { .. }
        | Blocked::ServiceMissing { .. }
        | Blocked::DependencyMissing { .. }
        | Blocked::Suspended { .. }
        | Blocked::Constraints { .. }
        | Blocked::UserInput { .. }
        | Blocked::Unreadable { .. }
        | Blocked::BuiltInsMissing { .. }
        | Blocked::BackingOff { .. }
        | Blocked::OldInstanceStopping { .. }
        | Blocked::WaitingForReply { .. }
        | Blocked::NotSeenRunning { .. }
        | Blocked::UpdateUnanswered { .. }
        | Blocked::BeingWatched { .. }
        | Blocked::JustStarted { .. }
        | Blocked::ClaimRequested
        | Blocked::Delay { .. }
        | Blocked::NotAMember { .. }
        | Blocked::Frozen { .. }
        | Blocked::Blocklisted { .. }
        | Blocked::Unplaced { .. }
        | Blocked::UpdateBudget { .. }
        | Blocked::StartDelayed { .. }
        | Blocked::AffinityWait { .. }
        | Blocked::PartnerInUpgrade
        | Blocked::ParentNotUp { .. }
        | Blocked::ChildUp { .. }
        | Blocked::NoTask
        | Blocked::TaskChanged { .. }
        | Blocked::ClaimReleased { .. } => blocked,
    }
}

/// A rollout as the caller may see it; `members` are those of its group. `None` when the caller may read none of them.
///
/// # Shape
/// With some members hidden the numbers of slots are left out, because they count hidden nodes.
pub(crate) fn rollout(rollout: &Rollout, members: &[NodeId], seen: &SeenNodes) -> Option<rollout::Rollout> {
    if matches!(seen, SeenNodes::All) || (!members.is_empty() && members.iter().all(|node| seen.shows(node)))
    {
        return Some(shape::rollout(rollout));
    }
    if !members.iter().any(|node| seen.shows(node)) {
        return None;
    }
    let mut part = rollout.clone();
    part.failed = nodes(part.failed, seen);
    part.last_node = part.last_node.filter(|node| seen.shows(node));
    if let RolloutState::Held { hold: why, .. } = &mut part.state {
        **why = hold((**why).clone(), seen);
    }
    if let Some(back) = &mut part.rollback {
        back.why = hold(back.why.clone(), seen);
    }
    let mut shown = shape::rollout(&part);
    (shown.total, shown.done, shown.revision) = (None, None, None);
    shown.text = part.text_without_numbers();
    if let Some(back) = &mut shown.rollback {
        back.slots = None;
    }
    Some(shown)
}

/// Details of an event as the caller may see them.
pub(crate) fn detail(mut detail: Value, seen: &SeenNodes) -> Value {
    if let (false, Some(members)) = (seen.is_all(), detail.as_object_mut()) {
        for number in ["total", "done"] {
            members.remove(number);
        }
    }
    if let Some(running) = detail.get_mut("seenRunning").and_then(Value::as_array_mut) {
        running.retain(|node| node.as_str().is_some_and(|node| seen.shows(&NodeId::from_text(node))));
    }
    detail
}

fn hold(why: HoldReason, seen: &SeenNodes) -> HoldReason {
    match why {
        HoldReason::StepFailed { node: member, version, reason, detail } => {
            let detail = detail.filter(|_| seen.shows(&member));
            HoldReason::StepFailed { node: node(member, seen), version, reason, detail }
        }
        HoldReason::StepStalled { node: member, version, missing } => {
            let missing = match (reason(*missing, seen), seen.shows(&member)) {
                (Blocked::NotSeenRunning { agreement, since, .. }, false) => {
                    Blocked::NotSeenRunning { agreement, since, why: None }
                }
                (missing, _) => missing,
            };
            HoldReason::StepStalled { node: node(member, seen), version, missing: Box::new(missing) }
        }
        HoldReason::Paused { .. } | HoldReason::Aborted { .. } | HoldReason::RollbackRequested { .. } => why,
    }
}

/// A node, without its name if the caller may not read it.
pub(crate) fn node(node: NodeId, seen: &SeenNodes) -> NodeId {
    if seen.shows(&node) { node } else { NodeId::new(node.org(), "?") }
}

/// Hidden nodes become one, however many they are.
fn nodes(all: Vec<NodeId>, seen: &SeenNodes) -> Vec<NodeId> {
    let mut shown: Vec<NodeId> = all.into_iter().map(|one| node(one, seen)).collect();
    shown.sort();
    shown.dedup();
    shown
}

fn members(all: BTreeMap<NodeId, String>, seen: &SeenNodes) -> BTreeMap<NodeId, String> {
    all.into_iter()
        .map(
            |(one, why)| {
                if seen.shows(&one) { (one, why) } else { (node(one, seen), "not shown".to_owned()) }
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use evenkeel_ids::{GroupId, ServiceKey};
    use serde_json::json;

    use super::*;

    fn id(name: &str) -> NodeId {
        NodeId::new("o", name)
    }

    fn own() -> SeenNodes {
        SeenNodes::Only(BTreeSet::from([id("mine")]))
    }

    fn minimum(hidden: &[&str]) -> Blocked {
        Blocked::HaMinimum {
            group: GroupId::new("o", "g"),
            service: ServiceKey::from_text("o/s"),
            wanted: 1,
            running: hidden.iter().map(|name| id(name)).chain([id("mine")]).collect(),
            missing: hidden.iter().map(|name| (id(&format!("{name}-down")), "secret".to_owned())).collect(),
        }
    }

    #[test]
    fn reason_holds_neither_names_nor_number_of_hidden_nodes() {
        let one = reason(minimum(&["a"]), &own());
        let three = reason(minimum(&["a", "b", "c"]), &own());
        assert_eq!(one, three);
        let text = format!("{one} {}", json!(one));
        assert!(text.contains("o/mine") && !text.contains("secret") && !text.contains("o/a"), "{text}");
        assert_eq!(reason(minimum(&["a"]), &SeenNodes::All), minimum(&["a"]));
    }

    #[test]
    fn rollout_of_a_group_without_own_members_is_hidden_and_numbers_are_for_whoever_sees_all() {
        let whole = Rollout {
            group: GroupId::new("o", "g"),
            policy: evenkeel_ids::PolicyId::new("o", "p"),
            target: "s 2".into(),
            target_digest: 1,
            started_at: jiff::Timestamp::UNIX_EPOCH,
            total: 3,
            done: 1,
            failed: vec![id("a"), id("mine")],
            last_step_at: None,
            last_node: Some(id("a")),
            previous_version: None,
            previous_overrides: evenkeel_planner_record::facts::DeploymentOverrides::default(),
            durations: evenkeel_planner_record::rollout::StepDurations::default(),
            rollback: None,
            revision: 7,
            state: RolloutState::Updating,
        };
        assert_eq!(rollout(&whole, &[id("a")], &own()), None);
        assert_eq!(rollout(&whole, &[], &own()), None);
        let part = rollout(&whole, &[id("a"), id("mine")], &own()).expect("an own member");
        let part = json!(part);
        assert!(part.get("total").is_none() && part.get("done").is_none());
        assert_eq!(part["text"], "updating");
        assert!(part.get("last_node").is_none());
        assert_eq!(part["failed"], json!(["o/?", "o/mine"]));
        assert!(!part.to_string().contains("o/a"), "{part}");
        assert_eq!(rollout(&whole, &[id("mine")], &own()).expect("own").total, Some(3));
        let all = json!(rollout(&whole, &[], &SeenNodes::All).expect("all"));
        let stored = json!(whole);
        let members = all.as_object().expect("an object").iter().filter(|(name, _)| *name != "text");
        assert!(members.eq(stored.as_object().expect("an object")), "{all} as it is stored: {stored}");
    }
}
