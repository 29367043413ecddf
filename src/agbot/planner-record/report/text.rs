//! The sentences for every reason in [`Blocked`], apart from the enum so that it can be read as a list.

use std::collections::BTreeMap;
use std::fmt;

use evenkeel_domain::policy::terms::write_more;
use evenkeel_ids::{GroupId, NodeId, ServiceId};
use jiff::Timestamp;

use super::{Blocked, FrozenLevel, NoLease};
use crate::{claims, facts::NodeMonitorState, goal::Avail};

/// Writes the sentence for a reason.
pub(super) fn write_blocked(blocked: &Blocked, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match blocked {
        Blocked::NodeUnknown => out.write_str("the node does not exist"),
        Blocked::PolicyUnknown => out.write_str("the deployment policy does not exist or is not served"),
        Blocked::OrgNotServed { org } => write!(out, "nodes of {org} are not served with this policy"),
        Blocked::LeftToAgbot { agbot } => {
            write!(out, "the agbot {agbot} is configured to serve this policy for the node's organization")
        }
        Blocked::OtherAgbot { partition } => write!(out, "partition {partition} belongs to another agbot"),
        Blocked::UsesPattern { pattern } => write!(out, "the node works by the pattern {pattern}"),
        Blocked::NeedsPrivileges { service } => write_needs_privileges(service, out),
        Blocked::OfPattern { pattern } => write!(out, "only nodes of the pattern {pattern} get it"),
        Blocked::OutsideScope { scope } => write!(out, "the policy is for {scope} only"),
        Blocked::NoNodePolicy => out.write_str("the node has no policy"),
        Blocked::NeverHeard => out.write_str("no heartbeat of the node was ever seen"),
        Blocked::NoPublicKey => out.write_str("the node has published no key"),
        Blocked::NodeDown { since } => write!(out, "the node is down; last heard {since}"),
        Blocked::NodeAway { monitor_state, since } => write_away(*monitor_state, since, out),
        Blocked::NodePaused => out.write_str("the node is paused; nothing is placed or updated on it"),
        Blocked::NodeDraining => out.write_str("the node is being drained"),
        Blocked::WrongArch { wanted, actual } => {
            write!(out, "the policy wants architecture {wanted}, the node is {actual}")
        }
        Blocked::NoDeployment { service, is_cluster } => write_no_deployment(service, *is_cluster, out),
        Blocked::WrongNamespace { wanted, actual } => {
            write!(out, "the policy wants namespace {wanted}, the node's is {actual}")
        }
        Blocked::ServiceMissing { service, version, arch } => {
            write!(out, "there is no service {service} {version} for {arch}")
        }
        Blocked::DependencyMissing { service } => write!(out, "the needed service {service} does not exist"),
        Blocked::Suspended { service } => write!(out, "{service} is suspended on the node"),
        Blocked::Constraints { clauses, more } => write_clauses(clauses, *more, out),
        Blocked::UserInput { detail } => write!(out, "user input is missing: {detail}"),
        Blocked::Unreadable { detail } => write!(out, "a policy cannot be read: {detail}"),
        Blocked::BuiltInsMissing { names } => {
            write!(out, "the node has not published {} yet", names.join(", "))
        }
        Blocked::BackingOff { until, failure_count, reason } => {
            write!(out, "{failure_count} attempts failed ({}); next at {until}", reason.text())
        }
        Blocked::OldInstanceStopping { until, .. } => {
            write!(out, "the node still reports the ended agreement; waiting until {until}")
        }
        Blocked::WaitingForReply { until, .. } => write!(out, "waiting for the node's reply until {until}"),
        Blocked::NotSeenRunning { since, why, .. } => write_not_seen_running(since, why.as_deref(), out),
        Blocked::BeingWatched { until } => write!(out, "the service runs and is watched until {until}"),
        Blocked::HaLock { group, holder, scope, is_drain, since, deadline } => {
            let task = claims::task(scope, *is_drain);
            write!(out, "{group} is busy with the {task} on {holder} since {since}, at most until {deadline}")
        }
        Blocked::JustStarted { until } => write!(out, "the agbot has just started; waiting until {until}"),
        Blocked::ClaimRequested => out.write_str("requesting the group's claim"),
        Blocked::InstanceElsewhere { node } => write!(out, "the single instance is on {node}"),
        Blocked::PeerFirst { node } => write!(out, "{node} is first"),
        Blocked::UpdateParallelism { limit, groups } => write_parallelism(*limit, groups, out),
        Blocked::Delay { until } => write!(out, "pause between two members until {until}"),
        Blocked::RolloutHeld { hold, since } => write!(out, "the rollout is paused since {since}: {hold}"),
        Blocked::NotAMember { group } => write!(out, "the node is not a member of {group}"),
        Blocked::AgentPeer { node, state } => write!(out, "the agent of {node} is {state}"),
        Blocked::AgentTurn { node, until } => write_agent_turn(node, until, out),
        Blocked::HaMinimum { .. }
        | Blocked::Frozen { .. }
        | Blocked::GroupGone { .. }
        | Blocked::NodeDeparting { .. }
        | Blocked::NoCandidate { .. }
        | Blocked::NoRoom { .. }
        | Blocked::ClaimReleased { .. }
        | Blocked::UpdateUnanswered { .. }
        | Blocked::IncompatibleVersions { .. }
        | Blocked::Blocklisted { .. }
        | Blocked::DomainOrder { .. }
        | Blocked::Unhealthy { .. }
        | Blocked::TaskStopping { .. }
        | Blocked::Unplaced { .. }
        | Blocked::UpdateBudget { .. }
        | Blocked::UpdatePaused { .. }
        | Blocked::StartDelayed { .. }
        | Blocked::AffinityWait { .. }
        | Blocked::ReturnPending { .. }
        | Blocked::PartnerInUpgrade
        | Blocked::UnwantedNeighbor { .. }
        | Blocked::ParentNotUp { .. }
        | Blocked::ChildUp { .. }
        | Blocked::FencePending { .. }
        | Blocked::FenceFailed { .. }
        | Blocked::CommonCause { .. }
        | Blocked::RecoveryBudget { .. }
        | Blocked::NoTask
        | Blocked::TaskChanged { .. } => write_step_blocked(blocked, out),
    }
}

fn write_needs_privileges(service: &ServiceId, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(out, "{service} needs privileges, and openhorizon.allowPrivileged is not true")
}

fn write_away(state: NodeMonitorState, since: &Timestamp, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match state {
        NodeMonitorState::Upgrade => write!(out, "the agent of the node is being upgraded since {since}"),
        NodeMonitorState::Maintenance => write!(out, "the node is in maintenance since {since}"),
        NodeMonitorState::Init => {
            write!(out, "the agent of the node started {since} and has not yet reported what runs")
        }
        // Its agent announced nothing.
        NodeMonitorState::Idle => {
            write!(out, "the node was last heard {since}, before the hub lost contact with all nodes")
        }
        NodeMonitorState::Shutting => write!(out, "the agent of the node is stopping since {since}"),
    }
}

fn write_no_room(node: &NodeId, detail: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(out, "{node} has too little left for the new version: {detail}")
}

/// A reason that names no node: its readers may not know the other nodes of a policy.
pub struct WithoutNodes<'a>(pub &'a Blocked);

impl fmt::Display for WithoutNodes<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Blocked::HaMinimum { group, .. } => {
                write!(out, "too few other members of HA group {group} run it")
            }
            Blocked::HaLock { .. } => out.write_str("another member of its HA group is being changed"),
            Blocked::FencePending { until, .. } => write_fence_pending(&"another node", until, out),
            Blocked::FenceFailed { cause, .. } => write_fence_failed(&"another node", *cause, out),
            Blocked::NodeDeparting { since, until, .. } => {
                write_departing((&"another node", "NODE"), since, until.as_ref(), out)
            }
            other => write_blocked(other, out),
        }
    }
}

fn write_fence_pending(
    node: &dyn fmt::Display,
    until: &Timestamp,
    out: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(out, "the instance on {node}, which is down, may run until its lease ends at {until}")
}

fn write_fence_failed(node: &dyn fmt::Display, cause: NoLease, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        out,
        "{node} is down and its instance cannot be fenced: {}; if you made sure that it does not run, confirm that with \
         \"hzn exchange node orchestration fence-confirm\"",
        cause.text()
    )
}

/// Writes the sentence for a reason that blocks a recovery, or a start that waits for one.
fn write_recovery_blocked(blocked: &Blocked, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match blocked {
        Blocked::FencePending { node, until } => write_fence_pending(node, until, out),
        Blocked::FenceFailed { node, cause } => write_fence_failed(node, *cause, out),
        Blocked::CommonCause { failing, running, cause } => write!(
            out,
            "{failing} of {running} running instances fail at once, {cause}: a check that is wrong, or something that all of them need, is the \
             likely cause, so nothing that runs is recovered; correct that, or raise recovery.maxUnhealthyRatio"
        ),
        Blocked::RecoveryBudget { limit } => {
            write!(
                out,
                "as many running instances are being recovered as recovery.parallelism allows: {limit}"
            )
        }
        _ => Ok(()),
    }
}

/// Writes the sentence for a reason that blocks a step of the engine.
fn write_step_blocked(blocked: &Blocked, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match blocked {
        Blocked::Frozen { level } => out.write_str(match level {
            FrozenLevel::Instance => "the instance is frozen",
            FrozenLevel::Workload => "the workload is frozen",
            FrozenLevel::Node => "the node is frozen",
        }),
        Blocked::NodeDeparting { node, since, until } => {
            write_departing((node, node.name()), since, until.as_ref(), out)
        }
        Blocked::GroupGone { group } => {
            write!(out, "HA group {group} does not exist: what runs there stays, and nothing new starts")
        }
        Blocked::NoCandidate { group } => {
            write!(out, "no other member of {group} can take over the instance now")
        }
        Blocked::UpdateUnanswered { since } => {
            write!(out, "the node has not replied to the update of the terms sent {since}")
        }
        Blocked::ClaimReleased { why } => write!(out, "the claim was released: {why}"),
        Blocked::NoRoom { node, detail } => write_no_room(node, detail, out),
        Blocked::Blocklisted { service, version, until, failure } => {
            let until = format!("{until:.0}");
            write!(
                out,
                "{service} {version} keeps failing on the node and is blocked until {until}: {failure}"
            )
        }
        Blocked::FencePending { .. }
        | Blocked::FenceFailed { .. }
        | Blocked::CommonCause { .. }
        | Blocked::RecoveryBudget { .. } => write_recovery_blocked(blocked, out),
        Blocked::HaMinimum { group, service, wanted, running, missing } => {
            write!(out, "HA minimum of {group}: {wanted} other running {service} needed; ")?;
            write_members(running, missing, out)
        }
        Blocked::TaskStopping { task, node, since, agreement } => {
            write!(out, "task {task} was stopped at {since}, and {node} has not confirmed it")?;
            let Some(agreement) = agreement else { return Ok(()) };
            write!(
                out,
                "; confirm it with \"hzn agbot agreement confirmstop {agreement}\" if you made sure that it does not run"
            )
        }
        Blocked::Unplaced { wanted, placed, summary } => {
            write!(out, "no node for {} of {wanted}: {summary}", wanted.saturating_sub(*placed))
        }
        Blocked::DomainOrder { domain, earlier } => {
            write!(out, "upgrade domain {domain} is updated after {earlier}")
        }
        Blocked::Unhealthy { domain, error, until } => {
            write!(out, "upgrade domain {domain} waits until {until:.0} for the end of an error: {error}")
        }
        Blocked::IncompatibleVersions { versions } => write_incompatible(versions, out),
        Blocked::UpdateBudget { limit } => {
            write!(out, "as many slots are being replaced as may be at once: {limit}")
        }
        Blocked::UpdatePaused { message } => write!(out, "the update is paused: {message}"),
        Blocked::StartDelayed { until } => write!(out, "the start is delayed until {until}"),
        Blocked::AffinityWait { workloads, until } => {
            write!(
                out,
                "{} starts or stops; the instance is placed after that, or at {until}",
                list(workloads)
            )
        }
        Blocked::ReturnPending { origin } => {
            write!(out, "the instance returns to {origin} after the upgrade")
        }
        Blocked::PartnerInUpgrade => {
            out.write_str("a workload that must or must not share the node is being upgraded")
        }
        Blocked::ParentNotUp { parent, avail: None } => write!(out, "parent {parent} is missing"),
        Blocked::ParentNotUp { parent, avail: Some(Avail::Up) } => {
            write!(out, "an instance of parent {parent} starts or stops")
        }
        Blocked::ParentNotUp { parent, avail: Some(avail) } => {
            write!(out, "parent {parent} is {}, and must be up first", avail.word())
        }
        Blocked::ChildUp { child } => {
            write!(out, "child {child} is up, and must be down first: stop it, or use force")
        }
        Blocked::UnwantedNeighbor { partner, node } => {
            write!(out, "{partner} has an instance on {node} and must not share the node")
        }
        Blocked::NoTask => out.write_str("not chosen: no instance of the policy is to run on the node"),
        Blocked::TaskChanged { task } => write!(out, "task {task} has changed meanwhile"),
        _ => Ok(()),
    }
}

fn write_departing(
    (node, name): (&dyn fmt::Display, &str),
    since: &Timestamp,
    until: Option<&Timestamp>,
    out: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(out, "{node} was removed {since}, and its instance may still run; ")?;
    match until {
        Some(until) => write!(out, "its agent is to confirm the stop, at most until {until}"),
        None => write!(
            out,
            "its agent has not confirmed the stop; when you know that nothing runs there: hzn exchange node remove {name} --force"
        ),
    }
}

fn write_incompatible(versions: &[i64], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let versions: Vec<String> = versions.iter().map(i64::to_string).collect();
    write!(
        out,
        "members run incompatible versions ({}): nothing is started or stopped automatically",
        versions.join(", ")
    )
}

fn write_no_deployment(service: &ServiceId, is_cluster: bool, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let kind = if is_cluster { "clusters" } else { "devices" };
    write!(out, "{service} has no deployment for {kind}")
}

fn write_not_seen_running(since: &Timestamp, why: Option<&str>, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let why: String = why.iter().map(|why| format!(": {why}")).collect();
    write!(out, "the agreement is final since {since}, the service has not been seen running{why}")
}

fn write_agent_turn(node: &NodeId, until: &Timestamp, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(out, "{node} requested its upgrade earlier and is preferred until {until}")
}

fn write_parallelism(limit: u32, groups: &[GroupId], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(out, "other groups are being updated; update.parallelism is {limit}")?;
    if groups.is_empty() { Ok(()) } else { write!(out, "; in progress: {}", list(groups)) }
}

fn write_clauses(clauses: &[super::FailedClause], more: usize, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (number, clause) in clauses.iter().enumerate() {
        let separator = if number == 0 { "" } else { "; " };
        write!(out, "{separator}{clause}")?;
    }
    write_more(more, out)
}

fn write_members(
    running: &[NodeId],
    missing: &BTreeMap<NodeId, String>,
    out: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let missing: Vec<String> = missing.iter().map(|(node, why)| format!("{node}: {why}")).collect();
    write!(out, "running: {}; not: {}", list(running), list(&missing))
}

fn list<'a>(items: impl IntoIterator<Item = &'a (impl ToString + 'a)>) -> String {
    let items: Vec<String> = items.into_iter().map(ToString::to_string).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}
