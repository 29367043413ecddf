//! Reading `orchestration` of a deployment policy, with every rule that does not depend on other documents.
//!
//! Source: orchestration 1.2 (the right-hand column of the table).

use std::collections::BTreeSet;

use evenkeel_ids::PolicyId;
use serde_json::Value;

use super::capacity::take_amounts;
use super::placement::{Affinity, Domains, OnViolation, Placement, PlacementPolicy};
use super::policy::{CompatGate, Flex, Ha, Mode, OfflinePeerPolicy, Orchestrate, Orchestration, Timers};
use super::priorities::take_priorities;
use super::scope::{EVERY_GROUP, MAX_NAMES, Scope, qualified};
use super::supervisor::{FailureAction, OnExhausted, Order, Pace, Restart, RestartCondition, Update};
use super::{HealthPolicy, InstanceReference, WorkloadReference, health_policy::Target};
use crate::object::{Members, MembersError, Object};
use crate::policy::expression::{Expression, limits};

/// Longest time that a member may name, in seconds.
const MAX_SECONDS: u64 = 604_800;
/// Largest number of instances that a member may name.
const MAX_INSTANCES: u64 = 100_000;

const ROOT: Members = Members {
    known: &[
        "version",
        "mode",
        "orchestrate",
        "scope",
        "replicas",
        "flex",
        "maxPerNode",
        "placement",
        "parents",
        "children",
        "loads",
        "restart",
        "update",
        "rollback",
        "ha",
        "compatGate",
        "healthPolicy",
        "timers",
        "priority",
    ],
    unsupported: &[],
};
const SCOPE: Members = members(&["type", "nodes", "haGroups"]);
const FLEX: Members = members(&["min", "max", "target"]);
const PLACEMENT: Members = members(&[
    "policy",
    "nodesOrder",
    "shift",
    "expression",
    "affinity",
    "onViolation",
    "domains",
    "constraintPriorities",
    "rebalance",
]);
const AFFINITY: Members = members(&["hard", "hardAnti", "soft", "softAnti"]);
const DOMAINS: Members = members(&["requireDomainDistribution", "preferredDomain"]);
const RESTART: Members =
    members(&["condition", "delaySeconds", "maxAttempts", "windowSeconds", "onExhausted"]);
const UPDATE: Members = members(&[
    "parallelism",
    "delaySeconds",
    "order",
    "pace",
    "monitorSeconds",
    "maxFailureRatio",
    "failureAction",
    "startTimeoutSeconds",
]);
const HA: Members = members(&["minRunning", "offlinePeerPolicy"]);
const TIMERS: Members = members(&["readyPeriodSeconds", "stopTimeoutSeconds", "affinityWaitSeconds"]);

const MODES: [(&str, Option<Mode>); 4] = [
    ("global", Some(Mode::Global)),
    ("replicated", Some(Mode::Replicated)),
    ("failover", Some(Mode::Failover)),
    ("flex", Some(Mode::Flex)),
];
const PLACEMENT_POLICIES: [(&str, Option<PlacementPolicy>); 8] = [
    ("nodes-order", Some(PlacementPolicy::NodesOrder)),
    ("load-avg", Some(PlacementPolicy::LoadAvg)),
    ("spread", Some(PlacementPolicy::Spread)),
    ("score", Some(PlacementPolicy::Score)),
    ("last-start", Some(PlacementPolicy::LastStart)),
    ("shift", Some(PlacementPolicy::Shift)),
    ("least-instances", Some(PlacementPolicy::LeastInstances)),
    ("none", Some(PlacementPolicy::None)),
];

const fn members(known: &'static [&'static str]) -> Members {
    Members { known, unsupported: &[] }
}

type Read<T> = Result<T, MembersError>;

impl TryFrom<Value> for Orchestration {
    type Error = MembersError;

    /// Reads a document.
    ///
    /// # Errors
    /// The first member that breaks a rule, with its path.
    fn try_from(value: Value) -> Read<Self> {
        let mut root = Object::open("orchestration".to_owned(), value, &ROOT)?;
        let mode = root.word("mode", &MODES)?.unwrap_or_default();
        let read = Self {
            version: root.number("version", 1..=1)?.unwrap_or(1),
            orchestrate: orchestrate(&mut root, mode)?,
            scope: root.object("scope", &SCOPE)?.map_or(Ok(Scope::Eligible), scope)?,
            replicas: replicas(&mut root, mode)?,
            flex: flex(&mut root, mode)?,
            max_per_node: max_per_node(&mut root, mode)?,
            placement: match root.object("placement", &PLACEMENT)? {
                Some(placement) => read_placement(placement, mode)?,
                None => Placement::of_mode(mode),
            },
            parents: references(&mut root, "parents", InstanceReference::parse)?,
            children: references(&mut root, "children", InstanceReference::parse)?,
            loads: take_amounts(&mut root, "loads")?.unwrap_or_default(),
            restart: match root.object("restart", &RESTART)? {
                Some(restart) => read_restart(restart, mode)?,
                None => Restart::of_mode(mode),
            },
            update: update(&mut root, "update", mode)?,
            rollback: update(&mut root, "rollback", mode)?,
            ha: root.object("ha", &HA)?.map_or_else(|| Ok(Ha::default()), ha)?,
            health_policy: root
                .take("healthPolicy")
                .map(|document| HealthPolicy::read("orchestration.healthPolicy", document, Target::Workload))
                .transpose()?,
            compat_gate: root
                .word("compatGate", &[("unit", Some(CompatGate::Members)), ("off", Some(CompatGate::Off))])?
                .unwrap_or(Self::of_mode(mode).compat_gate),
            timers: match root.object("timers", &TIMERS)? {
                Some(timers) => read_timers(timers, mode)?,
                None => Timers::of_mode(mode),
            },
            priority: root.number("priority", 0..=100)?.unwrap_or(50),
            mode,
        };
        read.check_peers()?;
        Ok(read)
    }
}

impl Orchestration {
    /// Reads the document of a policy, with the rules on references that need its name.
    ///
    /// # Errors
    /// The first member that breaks a rule, with its path.
    ///
    /// # Source
    /// Orchestration 1.2 ("References").
    pub fn of_policy(policy: &PolicyId, document: Value) -> Read<Self> {
        let read = Self::try_from(document)?;
        let no_names = Vec::new();
        let (nodes, ha_groups) = match &read.scope {
            Scope::Nodes { nodes } => (nodes, &no_names),
            Scope::HaGroups { ha_groups } => (&no_names, ha_groups),
            Scope::Eligible => (&no_names, &no_names),
        };
        let order = &read.placement.nodes_order;
        for (path, names) in
            [("scope.nodes", nodes), ("scope.haGroups", ha_groups), ("placement.nodesOrder", order)]
        {
            check_unique(path, names, policy.org())?;
        }
        for (name, list) in read.placement.affinity.lists() {
            let path = format!("orchestration.placement.affinity.{name}");
            list.iter().try_for_each(|reference| check_reference(&path, reference, policy, false))?;
        }
        check_hard_affinity(&read.placement.affinity, policy)?;
        for (name, list) in [("parents", &read.parents), ("children", &read.children)] {
            let path = format!("orchestration.{name}");
            list.iter()
                .try_for_each(|reference| check_reference(&path, &reference.workload, policy, true))?;
        }
        Ok(read)
    }
}

/// Names with and without the organization are equal.
fn check_unique(path: &str, names: &[String], org: &str) -> Read<()> {
    let mut known = BTreeSet::new();
    match names.iter().all(|name| known.insert(qualified(org, name))) {
        true => Ok(()),
        false => Err(MembersError {
            path: format!("orchestration.{path}"),
            rule: "must not hold a name twice".to_owned(),
        }),
    }
}

/// A policy of another organization is refused; so is the policy itself, which in `parents` or `children` is a cycle.
fn check_reference(
    path: &str,
    reference: &WorkloadReference,
    policy: &PolicyId,
    is_relation: bool,
) -> Read<()> {
    let broken = |rule: String| Err(MembersError { path: path.to_owned(), rule });
    match reference.policy(policy.org()) {
        Some(named) if named.org() != policy.org() => {
            broken(format!("must name policies of the organization {}, not {named}", policy.org()))
        }
        Some(named) if named == *policy && is_relation => {
            broken(format!("has the cycle {0}, {0}", policy.name()))
        }
        Some(named) if named == *policy => broken("must not name the policy itself".to_owned()),
        _ => Ok(()),
    }
}

/// A workload must not be both required and forbidden.
fn check_hard_affinity(affinity: &Affinity, policy: &PolicyId) -> Read<()> {
    let is_same = |one: &WorkloadReference, other: &WorkloadReference| match one.policy(policy.org()) {
        Some(named) => other.policy(policy.org()) == Some(named),
        None => one == other,
    };
    let is_required =
        |forbidden: &&WorkloadReference| affinity.hard.iter().any(|one| is_same(one, forbidden));
    match affinity.hard_anti.iter().find(is_required) {
        None => Ok(()),
        Some(both) => Err(MembersError {
            path: "orchestration.placement.affinity.hardAnti".to_owned(),
            rule: format!("must not hold {both}, which is in hard"),
        }),
    }
}

fn orchestrate(root: &mut Object, mode: Mode) -> Read<Orchestrate> {
    let words =
        [("no", Some(Orchestrate::No)), ("start", Some(Orchestrate::Start)), ("ha", Some(Orchestrate::Ha))];
    match root.word("orchestrate", &words)? {
        Some(Orchestrate::Start) if !mode.is_topology() => {
            Err(root.broken("orchestrate", "start needs the mode failover or flex"))
        }
        Some(orchestrate) => Ok(orchestrate),
        None => Ok(Orchestration::of_mode(mode).orchestrate),
    }
}

fn scope(mut scope: Object) -> Read<Scope> {
    let kind = scope.word(
        "type",
        &[("eligible", Some("eligible")), ("nodes", Some("nodes")), ("hagroups", Some("hagroups"))],
    )?;
    let kind = kind.unwrap_or("eligible");
    for (member, needed) in [("nodes", "nodes"), ("haGroups", "hagroups")] {
        if scope.has(member) && kind != needed {
            return Err(scope.broken(member, &format!("needs the type {needed}")));
        }
    }
    let required = |scope: &mut Object, member: &str, of: &str| {
        let names = scope.names(member, 1..=MAX_NAMES, of)?;
        names.ok_or_else(|| scope.broken(member, &format!("must be a list of names of {of}")))
    };
    match kind {
        "nodes" => Ok(Scope::Nodes { nodes: required(&mut scope, "nodes", "nodes")? }),
        "hagroups" => {
            let ha_groups = required(&mut scope, "haGroups", "HA groups")?;
            if ha_groups.len() > 1 && ha_groups.iter().any(|name| name == EVERY_GROUP) {
                return Err(scope.broken("haGroups", "must hold * alone"));
            }
            Ok(Scope::HaGroups { ha_groups })
        }
        _ => Ok(Scope::Eligible),
    }
}

fn replicas(root: &mut Object, mode: Mode) -> Read<Option<u32>> {
    let replicas = root.number("replicas", 0..=MAX_INSTANCES)?;
    if replicas.is_some() && mode != Mode::Replicated {
        return Err(root.broken("replicas", "needs the mode replicated"));
    }
    Ok(replicas.or(Orchestration::of_mode(mode).replicas))
}

fn flex(root: &mut Object, mode: Mode) -> Read<Option<Flex>> {
    let Some(mut flex) = root.object("flex", &FLEX)? else { return Ok(Orchestration::of_mode(mode).flex) };
    if mode != Mode::Flex {
        return Err(root.broken("flex", "needs the mode flex"));
    }
    let min = flex.number("min", 0..=MAX_INSTANCES)?.unwrap_or(1);
    let max: Option<u32> = flex.number("max", 0..=MAX_INSTANCES)?;
    let target = flex.number("target", 0..=MAX_INSTANCES)?;
    let most = max.filter(|max| *max > 0).unwrap_or(u32::MAX);
    if min > most {
        return Err(flex.broken("min", &format!("must not be greater than max, {most}")));
    }
    match target {
        Some(target) if target < min => {
            Err(flex.broken("target", &format!("must not be less than min, {min}")))
        }
        Some(target) if target > most => {
            Err(flex.broken("target", &format!("must not be greater than max, {most}")))
        }
        _ => Ok(Some(Flex { min, max, target: target.unwrap_or(min) })),
    }
}

fn max_per_node(root: &mut Object, mode: Mode) -> Read<u32> {
    let most = root.number("maxPerNode", 1..=MAX_INSTANCES)?.unwrap_or(1);
    if most > 1 && mode != Mode::Replicated {
        return Err(root.broken("maxPerNode", "must be 1 unless the mode is replicated"));
    }
    Ok(most)
}

fn read_placement(mut placement: Object, mode: Mode) -> Read<Placement> {
    let default = Placement::of_mode(mode);
    let policy = placement.word("policy", &PLACEMENT_POLICIES)?;
    let text = placement.text("expression", limits::MAX_LENGTH)?.unwrap_or_default();
    let expression = Expression::parse(&text)
        .map_err(|error| placement.broken("expression", &format!("is not an expression: {error}")))?;
    let on_violation = placement
        .word("onViolation", &[("report", Some(OnViolation::Report)), ("move", Some(OnViolation::Move))])?;
    Ok(Placement {
        policy: if mode == Mode::Global { None } else { policy.or(default.policy) },
        nodes_order: placement.names("nodesOrder", 0..=MAX_NAMES, "nodes")?.unwrap_or_default(),
        shift: placement.number("shift", 0..=u64::from(u32::MAX))?,
        expression,
        affinity: placement
            .object("affinity", &AFFINITY)?
            .map_or_else(|| Ok(Affinity::default()), affinity)?,
        on_violation: on_violation.unwrap_or(default.on_violation),
        domains: placement.object("domains", &DOMAINS)?.map_or_else(|| Ok(Domains::default()), domains)?,
        constraint_priorities: take_priorities(&mut placement)?,
        rebalance: placement.boolean("rebalance")?.unwrap_or(false),
    })
}

fn affinity(mut object: Object) -> Read<Affinity> {
    let mut list = |name| references(&mut object, name, WorkloadReference::parse);
    Ok(Affinity {
        hard: list("hard")?,
        hard_anti: list("hardAnti")?,
        soft: list("soft")?,
        soft_anti: list("softAnti")?,
    })
}

fn domains(mut domains: Object) -> Read<Domains> {
    let preferred_domain = domains.text("preferredDomain", crate::object::MAX_NAME)?;
    if preferred_domain.as_ref().is_some_and(|domain| !domain.starts_with("fd:/")) {
        return Err(domains.broken("preferredDomain", "must start with fd:/"));
    }
    Ok(Domains {
        require_domain_distribution: domains.boolean("requireDomainDistribution")?.unwrap_or(false),
        preferred_domain,
    })
}

fn references<T: Ord>(
    object: &mut Object,
    name: &str,
    parse: fn(&str) -> Result<T, &'static str>,
) -> Read<Vec<T>> {
    let names = object.names(name, 0..=MAX_NAMES, "policies")?.unwrap_or_default();
    names.iter().map(|text| parse(text).map_err(|rule| object.broken(name, rule))).collect()
}

fn read_restart(mut restart: Object, mode: Mode) -> Read<Restart> {
    let default = Restart::of_mode(mode);
    let condition = restart.word(
        "condition",
        &[
            ("none", Some(RestartCondition::None)),
            ("on-failure", Some(RestartCondition::OnFailure)),
            ("any", Some(RestartCondition::Any)),
        ],
    )?;
    let on_exhausted = restart
        .word("onExhausted", &[("none", Some(OnExhausted::None)), ("switch", Some(OnExhausted::Switch))])?;
    Ok(Restart {
        condition: condition.unwrap_or(default.condition),
        delay_seconds: restart.number("delaySeconds", 0..=MAX_SECONDS)?.unwrap_or(default.delay_seconds),
        max_attempts: restart.number("maxAttempts", 0..=MAX_INSTANCES)?.unwrap_or(default.max_attempts),
        window_seconds: restart.number("windowSeconds", 0..=MAX_SECONDS)?.unwrap_or(default.window_seconds),
        on_exhausted: on_exhausted.unwrap_or(default.on_exhausted),
    })
}

fn update(root: &mut Object, name: &str, mode: Mode) -> Read<Update> {
    let Some(mut update) = root.object(name, &UPDATE)? else { return Ok(Update::default()) };
    let read = Update {
        parallelism: update.number("parallelism", 0..=MAX_INSTANCES)?,
        delay_seconds: update.number("delaySeconds", 0..=MAX_SECONDS)?,
        order: update.word(
            "order",
            &[("stop-first", Some(Order::StopFirst)), ("start-first", Some(Order::StartFirst))],
        )?,
        pace: update
            .word("pace", &[("monitored", Some(Pace::Monitored)), ("running", Some(Pace::Running))])?,
        monitor_seconds: update.number("monitorSeconds", 0..=MAX_SECONDS)?,
        max_failure_ratio: update.ratio("maxFailureRatio")?,
        failure_action: update.word(
            "failureAction",
            &[
                ("pause", Some(FailureAction::Pause)),
                ("continue", Some(FailureAction::Continue)),
                ("rollback", Some(FailureAction::Rollback)),
            ],
        )?,
        start_timeout_seconds: update.number("startTimeoutSeconds", 1..=MAX_SECONDS)?,
    };
    if mode == Mode::Failover && read.order == Some(Order::StartFirst) {
        return Err(update.broken("order", "must be stop-first with the mode failover"));
    }
    if name == "rollback" && read.failure_action == Some(FailureAction::Rollback) {
        return Err(update.broken("failureAction", "must be pause or continue: a rollback is never reverted"));
    }
    Ok(read)
}

fn ha(mut ha: Object) -> Read<Ha> {
    Ok(Ha {
        min_running: ha.number("minRunning", 1..=MAX_INSTANCES)?,
        offline_peer_policy: ha.word(
            "offlinePeerPolicy",
            &[("wait", Some(OfflinePeerPolicy::Wait)), ("proceed", Some(OfflinePeerPolicy::Proceed))],
        )?,
    })
}

fn read_timers(mut timers: Object, mode: Mode) -> Read<Timers> {
    let default = Timers::of_mode(mode);
    Ok(Timers {
        ready_period_seconds: timers
            .number("readyPeriodSeconds", 0..=3_600)?
            .or(default.ready_period_seconds),
        stop_timeout_seconds: timers
            .number("stopTimeoutSeconds", 1..=MAX_SECONDS)?
            .unwrap_or(default.stop_timeout_seconds),
        affinity_wait_seconds: timers
            .number("affinityWaitSeconds", 1..=MAX_SECONDS)?
            .unwrap_or(default.affinity_wait_seconds),
    })
}
