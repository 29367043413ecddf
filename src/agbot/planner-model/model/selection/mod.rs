//! Selection: which nodes a policy selects, which version each is to run, and whether an agreement still fits.
//!
//! Queries for the pairs of nodes and policies, by what [`evenkeel_placement::matching`] finds about a node and a version list. For policies with tasks the
//! task decides (`task`), during the rollback of a group the version that it returns to (`rollback`). Source: agreement-protocol 3.7 to 3.9;
//! orchestration B9, B11.7, E3.

mod rollback;
mod task;

pub use rollback::{rollback_of, wanted_versions};
pub use task::{cancel_reason, choose, has_versions_left, startable, tried};

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_placement::matching::{self, Choice, Consumers, Fit, TriedVersions, Wanted};
use evenkeel_planner_record::{
    agreement::Agreement,
    facts::{Availability, DeploymentPolicyFacts, VersionChoice},
    node_record::NodeRecord,
    report::Blocked,
};
use jiff::Timestamp;

use super::Model;

/// Chooses the version for a pair by priority and rollback state, and tests everything but liveness.
///
/// With several versions the next lower one is tried when one does not fit.
/// # Errors
/// The reason why the best candidate does not fit.
/// # Source
/// Agreement-protocol 3.7 to 3.9; agbot 1.5.
pub fn select(model: &Model, node: &NodeId, policy: &PolicyId, now: Timestamp) -> Result<Choice, Blocked> {
    let (record, policy) = both(model, node, policy)?;
    let usage = model.usage.get(&(node.clone(), policy.id.clone()));
    let versions = wanted_versions(model, policy, model.group_of.get(node));
    matching::choose(record, wanted(model, policy, &versions), (usage, &|_| false), now)
}

/// Chooses the version of one task spec for a node, as [`select`] does.
///
/// # Shape
/// `policy`: with the service of the task spec; `consumers`: prepared for that. `is_skipped`: entries that
/// give way to lower ones.
/// # Errors
/// The reason why the best candidate does not fit.
pub(crate) fn select_spec(
    model: &Model,
    node: &NodeId,
    policy: &DeploymentPolicyFacts,
    consumers: &Consumers,
    tried: TriedVersions<'_>,
    now: Timestamp,
) -> Result<Choice, Blocked> {
    let (record, _) = both(model, node, &policy.id)?;
    matching::choose(record, Wanted { policy, versions: &policy.versions, consumers }, tried, now)
}

/// Returns the relation of an agreement to the task spec that it carries out, as [`fit`] does for a policy.
pub(crate) fn fit_spec(
    model: &Model,
    agreement: &Agreement,
    policy: &DeploymentPolicyFacts,
    consumers: &Consumers,
    now: Timestamp,
) -> Fit {
    match both(model, &agreement.node, &policy.id) {
        Ok((record, _)) => matching::fit_wanted(
            record,
            agreement,
            Wanted { policy, versions: &policy.versions, consumers },
            now,
        ),
        Err(blocked) => matching::lost_or_unclear(blocked),
    }
}

/// Returns the relation of an agreement to its policy, to other agbots and to the availability of its node.
///
/// # Source
/// Orchestration B9.
pub fn fit(model: &Model, agreement: &Agreement, now: Timestamp) -> Fit {
    if let Some(fit) = task::fit(model, agreement, now) {
        return fit;
    }
    let fit = fit_of_policies(model, agreement, now);
    let is_left_to_another = model.other_agbot_of(&agreement.node, &agreement.policy).is_some();
    match (model.availability(&agreement.node), fit) {
        (Availability::Drain, Fit::Clean(_) | Fit::Outdated(_) | Fit::Unclear(_)) => Fit::Leaving,
        (_, Fit::Clean(_) | Fit::Outdated(_) | Fit::Unclear(_)) if is_left_to_another => Fit::Leaving,
        (Availability::Pause, Fit::Outdated(_)) => Fit::Unclear(model.paused_by(&agreement.node)),
        (_, fit) => fit,
    }
}

fn fit_of_policies(model: &Model, agreement: &Agreement, now: Timestamp) -> Fit {
    let (record, policy) = match both(model, &agreement.node, &agreement.policy) {
        Ok(both) => both,
        Err(blocked) => return matching::lost_or_unclear(blocked),
    };
    let missing = matching::missing_built_ins(record);
    // A pattern requires no properties.
    if policy.pattern.is_none() && !missing.is_empty() {
        return Fit::Unclear(Blocked::BuiltInsMissing { names: missing });
    }
    let versions = wanted_versions(model, policy, model.group_of.get(&agreement.node));
    matching::fit_wanted(record, agreement, wanted(model, policy, &versions), now)
}

/// Returns whether a service policy and a deployment policy select a node, whatever its health, and an instance is intended for it.
///
/// # Source
/// Orchestration E3.
pub fn is_intended(model: &Model, node: &NodeId, policy: &PolicyId, now: Timestamp) -> bool {
    task::is_intended(model, node, policy, now).unwrap_or_else(|| select(model, node, policy, now).is_ok())
}

/// Returns a policy with the versions that it wants on a node.
fn wanted<'a>(
    model: &'a Model,
    policy: &'a DeploymentPolicyFacts,
    versions: &'a [VersionChoice],
) -> Wanted<'a> {
    static NONE: Consumers = Consumers::new();
    Wanted { policy, versions, consumers: model.consumers.get(&policy.id).unwrap_or(&NONE) }
}

fn both<'a>(
    model: &'a Model,
    node: &NodeId,
    policy: &PolicyId,
) -> Result<(&'a NodeRecord, &'a DeploymentPolicyFacts), Blocked> {
    let record = model.node(node).ok_or(Blocked::NodeUnknown)?;
    let policy = model.policy(policy).ok_or(Blocked::PolicyUnknown)?;
    if !policy.node_orgs.contains(node.org()) {
        return Err(Blocked::OrgNotServed { org: node.org().to_owned() });
    }
    match (&record.facts.pattern, &policy.pattern) {
        (used, wanted) if used == wanted => Ok((record, policy)),
        (Some(pattern), _) => Err(Blocked::UsesPattern { pattern: pattern.clone() }),
        (None, Some(pattern)) => Err(Blocked::OfPattern { pattern: pattern.clone() }),
        (None, None) => Ok((record, policy)),
    }
}
