//! Chooses the service version for one (node, policy), or explains why there is none.

use evenkeel_domain::policy::PropertyList;
use evenkeel_ids::{ServiceId, ServiceKey};
use evenkeel_planner_record::{
    agreement::Agreement,
    facts::{DeploymentOverrides, DeploymentPolicyFacts, NodeType, VersionChoice},
    node_record::NodeRecord,
    report::{Blocked, Side},
    usage::{WorkloadUsage, best_version, choose_version},
};
use jiff::Timestamp;

use super::{Consumer, Consumers, evaluate::FailedTerms};

/// The service version that a node is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The definition.
    pub service: ServiceId,
    /// Its key.
    pub key: ServiceKey,
    /// Its version.
    pub version: String,
    /// Priority of the version; 0 means none.
    pub priority: u32,
    /// The policy's best version.
    pub best_version: String,
    /// Digest of the terms.
    pub terms_digest: u64,
    /// The deployment overrides.
    pub overrides: DeploymentOverrides,
}

/// Versions of a version list that were tried on a node, and a predicate for entries that give way to lower
/// ones.
pub type TriedVersions<'t> = (Option<&'t WorkloadUsage>, &'t dyn Fn(&VersionChoice) -> bool);

/// A policy with the versions that it wants on a node.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The policy.
    pub policy: &'a DeploymentPolicyFacts,
    /// The versions, in any order.
    pub versions: &'a [VersionChoice],
    /// The policy and its versions as constraints see them.
    pub consumers: &'a Consumers,
}

/// Chooses the best version of a list that was not tried too often and that fits a node, or a lower one.
///
/// # Errors
/// The reason why the best candidate does not fit.
pub fn choose(
    record: &NodeRecord,
    wanted: Wanted<'_>,
    (usage, is_skipped): TriedVersions<'_>,
    now: Timestamp,
) -> Result<Choice, Blocked> {
    let first = choose_version(wanted.versions, usage, now)
        .ok_or_else(|| Blocked::Unreadable { detail: "the version list is empty".to_owned() })?;
    let tested = test_version(record, wanted, first);
    if tested.is_ok() && !is_skipped(first) {
        return tested;
    }
    let mut lower: Vec<&VersionChoice> =
        wanted.versions.iter().filter(|entry| entry.priority > first.priority).collect();
    lower.sort_by_key(|entry| entry.priority);
    let fitting =
        || lower.iter().filter_map(|entry| Some((entry, test_version(record, wanted, entry).ok()?)));
    let next = fitting().find(|(entry, _)| !is_skipped(entry)).map(|(_, choice)| choice);
    // Where all give way, the first one is as good as any.
    next.map_or_else(|| tested.or_else(|blocked| fitting().next().map(|(_, one)| one).ok_or(blocked)), Ok)
}

/// The relation of an existing agreement to its policy.
#[derive(Debug, Clone, PartialEq)]
pub enum Fit {
    /// It has what the policy wants; the choice carries the terms it should have.
    Clean(Choice),
    /// The policy wants another version or service on the node.
    Outdated(Choice),
    /// The policy no longer selects the node.
    Lost(Blocked),
    /// Not decidable now; the running service continues.
    Unclear(Blocked),
    /// The policy wants it, and the node is being drained or left to another agbot.
    Leaving,
}

/// Returns the relation of an agreement to the versions that are wanted on its node.
///
/// An agreement with a lower priority (a rollback) stays as long as its entry and the policy's best entry are those it
/// was made with, and the overrides of its entry are the same. The group property counts as it is now *or* as it was when the
/// agreement was made: leaving a group ends nothing.
/// # Source
/// Agbot 2.2, 6.5; orchestration E2.4.
pub fn fit_wanted(record: &NodeRecord, agreement: &Agreement, wanted: Wanted<'_>, now: Timestamp) -> Fit {
    let Wanted { policy, versions, .. } = wanted;
    let entry = versions.iter().find(|entry| entry.version == agreement.version);
    let best = best_version(versions).map(|best| best.version.as_str());
    let is_current = policy.service == agreement.service_key
        && entry.is_none_or(|entry| entry.overrides.is_same_environment(&agreement.overrides))
        && (best == Some(&agreement.version) || best == Some(&agreement.best_version));
    let own = entry.filter(|_| is_current).map(|entry| test_agreement(record, wanted, agreement, entry));
    let blocked = match own {
        Some(Ok(choice)) => return Fit::Clean(choice),
        Some(Err(blocked)) if !blocked.is_incompatibility() => return Fit::Unclear(blocked),
        Some(Err(blocked)) => Some(blocked),
        None => None,
    };
    match choose(record, wanted, (None, &|_| false), now) {
        Ok(choice)
            if choice.version != agreement.version
                || choice.key != agreement.service_key
                || !choice.overrides.is_same_environment(&agreement.overrides) =>
        {
            Fit::Outdated(choice)
        }
        Ok(choice) => Fit::Clean(choice),
        Err(chosen) => lost_or_unclear(blocked.unwrap_or(chosen)),
    }
}

/// Returns the relation of an agreement to a policy that cannot be had on the node: only policies that do not fit end it.
pub fn lost_or_unclear(blocked: Blocked) -> Fit {
    if blocked.is_incompatibility() { Fit::Lost(blocked) } else { Fit::Unclear(blocked) }
}

fn test_agreement(
    record: &NodeRecord,
    wanted: Wanted<'_>,
    agreement: &Agreement,
    entry: &VersionChoice,
) -> Result<Choice, Blocked> {
    test_version(record, wanted, entry).or_else(|blocked| {
        if record.group() == agreement.ha_group.as_deref() {
            return Err(blocked);
        }
        let then = record.with_group(agreement.ha_group.as_deref());
        test_version(&then, wanted, entry).map_err(|_| blocked)
    })
}

fn test_version(
    record: &NodeRecord,
    Wanted { policy, versions, consumers }: Wanted<'_>,
    entry: &VersionChoice,
) -> Result<Choice, Blocked> {
    let arch = node_arch(record);
    let wanted = canonical_arch(&policy.arch);
    if !wanted.is_empty() && wanted != "*" && !arch.is_empty() && wanted != arch {
        return Err(Blocked::WrongArch { wanted: wanted.to_owned(), actual: arch.to_owned() });
    }
    let key = (entry.version.clone(), arch.to_owned());
    let consumer = consumers.get(&key).ok_or_else(|| Blocked::ServiceMissing {
        service: policy.service.clone(),
        version: entry.version.clone(),
        arch: arch.to_owned(),
    })?;
    let consumer = consumer.as_ref().map_err(Clone::clone)?;
    test_node(record, policy, consumer)?;
    Ok(Choice {
        service: consumer.service.clone(),
        key: policy.service.clone(),
        version: entry.version.clone(),
        priority: entry.priority,
        best_version: best_version(versions).map(|best| best.version.clone()).unwrap_or_default(),
        terms_digest: consumer.terms_digest,
        overrides: entry.overrides.clone(),
    })
}

fn test_node(
    record: &NodeRecord,
    policy: &DeploymentPolicyFacts,
    consumer: &Consumer,
) -> Result<(), Blocked> {
    let is_cluster = record.facts.node_type == NodeType::Cluster;
    if !(if is_cluster { consumer.fits_clusters } else { consumer.fits_devices }) {
        return Err(Blocked::NoDeployment { service: consumer.service.clone(), is_cluster });
    }
    let suspended = record.facts.registered_services.iter().any(|one| {
        one.is_suspended
            && one.service == policy.service
            && (one.version.is_empty() || one.version == consumer.version)
    });
    if suspended {
        return Err(Blocked::Suspended { service: policy.service.clone() });
    }
    let scope = &policy.orchestration.scope;
    if !scope.holds(&record.facts.id, record.group()) {
        return Err(Blocked::OutsideScope { scope: scope.clone() });
    }
    if policy.pattern.is_none() {
        test_constraints(record, consumer)?;
    } else if consumer.needs_privileges && !record.properties().is_some_and(PropertyList::allows_privileged) {
        return Err(Blocked::NeedsPrivileges { service: consumer.service.clone() });
    }
    if is_cluster {
        return test_namespace(record, policy);
    }
    consumer.inputs.test(record)
}

fn test_constraints(record: &NodeRecord, consumer: &Consumer) -> Result<(), Blocked> {
    let (Some(properties), Some(constraints)) = (record.properties(), record.constraints()) else {
        return Err(Blocked::NoNodePolicy);
    };
    let mut failed = FailedTerms::default();
    for constraint in &consumer.constraints {
        failed.collect(constraint.side, &constraint.text, &constraint.tree, properties);
    }
    match record.constraint_tree() {
        Some(Err(detail)) => return Err(Blocked::Unreadable { detail: format!("node policy: {detail}") }),
        Some(Ok(tree)) if !tree.is_satisfied_by(&consumer.properties) => {
            let text = constraints.join(" AND ");
            failed.collect(Side::Node, &text, tree, &consumer.properties);
        }
        _ => {}
    }
    failed.into_result()
}

/// Namespace rule for clusters (agreement protocol 3.8); a pattern's namespace has no default.
fn test_namespace(record: &NodeRecord, policy: &DeploymentPolicyFacts) -> Result<(), Blocked> {
    let (wanted, actual) = (&policy.cluster_namespace, &record.facts.cluster_namespace);
    let actual = if actual.is_empty() { "openhorizon-agent" } else { actual };
    let fits = match (record.facts.is_namespace_scoped, policy.pattern.is_none()) {
        (true, true) => wanted.is_empty() || wanted == actual,
        (true, false) => wanted == actual,
        (false, true) => true,
        (false, false) => wanted.is_empty(),
    };
    if !fits {
        return Err(Blocked::WrongNamespace { wanted: wanted.clone(), actual: actual.to_owned() });
    }
    Ok(())
}

fn node_arch(record: &NodeRecord) -> &str {
    canonical_arch(&record.facts.arch)
}

/// Maps the synonyms of architectures to one name (agreement protocol 3.8).
pub fn canonical_arch(arch: &str) -> &str {
    match arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "armhf" => "arm",
        other => other,
    }
}
