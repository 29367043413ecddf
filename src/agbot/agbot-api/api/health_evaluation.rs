//! The health of organizations, nodes, HA groups, deployment policies, workload units and instances.
//!
//! Source: orchestration D1.

use axum::Json;
use evenkeel_agbot::records::entity_key;
use evenkeel_agbot::{AgbotError, Context};
use evenkeel_agbot_store::health as store;
use evenkeel_api::{OrgPath, Refusal};
use evenkeel_domain::object::Members;
use evenkeel_domain::orchestration::MembersError;
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_model::model::health::{Evaluation, EvaluationRules, ListedChildren, Reason};
use evenkeel_planner_record::health::{Entity, EntityKind, SYSTEM, StoredReport};
use evenkeel_wire::agbot::health as wire;
use evenkeel_wire::agbot::health::HealthQuery;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};

use super::health::{group_entity, instance_entity, node_entity, org_entity, unit_entity};
use super::parameters::{Named, NamedQuery, Parameters, known};
use super::path::{GroupPath, InstancePath, NodePath, PolicyPath, WorkloadUnitPath};
use super::permission::{Permission, right};
use super::pipeline::{Op, unreadable};
use crate::shown::SeenNodes;
use crate::shown::workload_shape::time;

/// Children that are listed if the caller names no number.
const CHILDREN: u16 = 1000;
const MOST_CHILDREN: i64 = 10_000;
/// Largest position in the list of children.
const MOST_SKIPPED: i64 = 1_000_000;
/// Kinds that an entity can hold.
const CHILD_KINDS: [&str; 5] = ["node", "hagroup", "workload", "unit", "instance"];

impl NamedQuery for HealthQuery {
    const KNOWN: Members = known(&[
        "considerWarningAsError",
        "maxPercentUnhealthyNodes",
        "maxPercentUnhealthyWorkloads",
        "maxPercentUnhealthyUnits",
        "maxPercentUnhealthyInstances",
        "limit",
        "offset",
        "kind",
    ]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        let mut percent = |name: &str| {
            let number = parameters.number(name, 0..=100)?;
            Ok::<_, MembersError>(number.and_then(|number| u8::try_from(number).ok()))
        };
        let (nodes, workloads) =
            (percent("maxPercentUnhealthyNodes")?, percent("maxPercentUnhealthyWorkloads")?);
        let (workload_units, instances) =
            (percent("maxPercentUnhealthyUnits")?, percent("maxPercentUnhealthyInstances")?);
        let limit = parameters.number("limit", 1..=MOST_CHILDREN)?;
        let offset = parameters.number("offset", 0..=MOST_SKIPPED)?;
        Ok(Self {
            consider_warning_as_error: parameters.boolean("considerWarningAsError")?,
            max_percent_unhealthy_nodes: nodes,
            max_percent_unhealthy_workloads: workloads,
            max_percent_unhealthy_units: workload_units,
            max_percent_unhealthy_instances: instances,
            limit: limit.and_then(|limit| u16::try_from(limit).ok()),
            offset: offset.and_then(|offset| u32::try_from(offset).ok()),
            kind: parameters.word("kind", &CHILD_KINDS)?,
        })
    }
}

type Evaluated = Result<Json<wire::HealthEvaluation>, Refusal>;

/// Returns the health of an organization.
pub(super) async fn get_org_health(
    op: Op<OrgPath>,
    permission: Permission<right::NodesRead>,
    Named(query): Named<HealthQuery>,
) -> Evaluated {
    let entity = org_entity(&op.context, &op.path.org).await?;
    evaluate(&op.context, &entity, &query, &permission.into_proof()).await
}

pub(super) async fn get_node_health(
    op: Op<NodePath>,
    permission: Permission<right::NodesRead>,
    Named(query): Named<HealthQuery>,
) -> Evaluated {
    let seen = permission.into_proof();
    let entity = node_entity(&op.context, &op.path).await?;
    if !entity.node().is_some_and(|node| seen.shows(node)) {
        return Err(Refusal::new(StatusCode::FORBIDDEN, format!("reading the node {entity} is needed")));
    }
    evaluate(&op.context, &entity, &query, &seen).await
}

/// Returns the health of an HA group.
pub(super) async fn get_group_health(
    op: Op<GroupPath>,
    permission: Permission<right::NodesRead>,
    Named(query): Named<HealthQuery>,
) -> Evaluated {
    let entity = group_entity(&op.context, &op.path).await?;
    evaluate(&op.context, &entity, &query, &permission.into_proof()).await
}

/// Returns the health of a deployment policy.
pub(super) async fn get_policy_health(
    op: Op<PolicyPath>,
    permission: Permission<right::PolicyRead>,
    Named(query): Named<HealthQuery>,
) -> Evaluated {
    let policy = PolicyId::new(&op.path.org, &op.path.policy);
    evaluate(&op.context, &Entity::Workload(policy), &query, &permission.into_proof().seen).await
}

/// Returns the health of a workload unit.
pub(super) async fn get_unit_health(
    op: Op<WorkloadUnitPath>,
    permission: Permission<right::PolicyRead>,
    Named(query): Named<HealthQuery>,
) -> Evaluated {
    let entity = unit_entity(&op.context, &op.path).await?;
    evaluate(&op.context, &entity, &query, &permission.into_proof().seen).await
}

pub(super) async fn get_instance_health(
    op: Op<InstancePath>,
    permission: Permission<right::PolicyRead>,
    Named(query): Named<HealthQuery>,
) -> Evaluated {
    let seen = permission.into_proof().seen;
    let entity = instance_entity(&op.context, &op.path).await?;
    if !entity.node().is_some_and(|node| seen.shows(node)) {
        return Err(Refusal::new(StatusCode::FORBIDDEN, format!("reading the node of {entity} is needed")));
    }
    evaluate(&op.context, &entity, &query, &seen).await
}

async fn evaluate(context: &Context, entity: &Entity, query: &HealthQuery, seen: &SeenNodes) -> Evaluated {
    let key = entity_key(entity);
    let stored =
        context.database.read(async |connection| store::list_of_entity(connection, &key).await).await;
    let stored = stored.map_err(|error| unreadable(&error))?;
    let stored: Vec<StoredReport> = stored
        .into_iter()
        .map(serde_json::from_value)
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(&AgbotError::Record(error)))?;
    let (model, now) = (context.model(), context.now());
    let rules = rules(query, model.evaluation_rules(entity.org()));
    let listed = listed(query);
    let evaluation = model.evaluate_health(entity, rules, &listed, now);
    let shape = Shape { seen, entity, now, start: listed.range.start };
    let kept_up = |report: &StoredReport| {
        let partition = report.partition?;
        let ttl_secs = model.system_report_ttl_secs(entity.org());
        let until = model.reports_kept_up_until(entity, partition).unwrap_or(Timestamp::MIN);
        Some(KeptUp { until, ttl_secs, interval_secs: model.system_report_interval_secs(entity.org()) })
    };
    let events = stored.iter().filter_map(|report| shape.event(report, kept_up(report)));
    Ok(Json(shape.evaluation(&evaluation, rules, events.collect())))
}

fn listed(query: &HealthQuery) -> ListedChildren {
    let start = query.offset.unwrap_or(0) as usize;
    let limit = usize::from(query.limit.unwrap_or(CHILDREN));
    ListedChildren {
        kind: query.kind.as_deref().and_then(EntityKind::from_word),
        range: start..start.saturating_add(limit),
    }
}

fn rules(query: &HealthQuery, of_org: EvaluationRules) -> EvaluationRules {
    EvaluationRules {
        considers_warning_as_error: query
            .consider_warning_as_error
            .unwrap_or(of_org.considers_warning_as_error),
        max_percent_nodes: query.max_percent_unhealthy_nodes.unwrap_or(of_org.max_percent_nodes),
        max_percent_workloads: query.max_percent_unhealthy_workloads.unwrap_or(of_org.max_percent_workloads),
        max_percent_units: query.max_percent_unhealthy_units.unwrap_or(of_org.max_percent_units),
        max_percent_instances: query.max_percent_unhealthy_instances.unwrap_or(of_org.max_percent_instances),
    }
}

/// Interval and lifetime with which an agbot renews one of the engine's reports.
struct KeptUp {
    until: Timestamp,
    ttl_secs: u64,
    interval_secs: u64,
}

impl KeptUp {
    /// Returns when the report was confirmed last: it is stored once, and confirmed at intervals by the lease of its owner.
    fn confirmed_at(&self, received_at: Timestamp, now: Timestamp) -> Timestamp {
        let secs = |secs: u64| SignedDuration::from_secs(secs.cast_signed());
        let confirmed = self.until.checked_sub(secs(self.ttl_secs)).unwrap_or(received_at).min(now);
        let age = confirmed.duration_since(received_at).as_secs().max(0).unsigned_abs();
        let interval = self.interval_secs.max(1);
        received_at.checked_add(secs(age / interval * interval)).unwrap_or(received_at)
    }
}

/// View of health for one caller.
struct Shape<'a> {
    seen: &'a SeenNodes,
    entity: &'a Entity,
    now: Timestamp,
    /// Position of the first child in the list.
    start: usize,
}

impl Shape<'_> {
    fn id(&self, entity: &Entity) -> String {
        let hidden = |node: &NodeId| NodeId::new(node.org(), "?");
        match entity {
            Entity::Node(node) if !self.seen.shows(node) => Entity::Node(hidden(node)).to_string(),
            Entity::Instance(policy, node) if !self.seen.shows(node) => {
                Entity::Instance(policy.clone(), hidden(node)).to_string()
            }
            shown => shown.to_string(),
        }
    }

    fn evaluation(
        &self,
        found: &Evaluation,
        rules: EvaluationRules,
        health_events: Vec<wire::HealthEvent>,
    ) -> wire::HealthEvaluation {
        let children = found.children.iter().map(|(child, state)| wire::ChildHealthState {
            entity: child.kind().word().to_owned(),
            id: self.id(child),
            aggregated_health_state: state.word().to_owned(),
        });
        wire::HealthEvaluation {
            entity: self.entity.kind().word().to_owned(),
            id: self.id(self.entity),
            aggregated_health_state: found.state.word().to_owned(),
            unhealthy_evaluations: found.reasons.iter().map(|reason| self.reason(reason, rules)).collect(),
            child_health_states: children.collect(),
            child_count: Some(found.child_count).filter(|count| *count > found.children.len()),
            next: self.next(found),
            health_events,
        }
    }

    /// Returns the position of the following children; none when there are no more.
    fn next(&self, found: &Evaluation) -> Option<u32> {
        let next = self.start.saturating_add(found.children.len());
        u32::try_from(next).ok().filter(|_| next < found.child_count && !found.children.is_empty())
    }

    fn reason(&self, reason: &Reason, rules: EvaluationRules) -> wire::UnhealthyEvaluation {
        match reason {
            Reason::Event { source, property, state } => wire::UnhealthyEvaluation::Event {
                source_id: source.clone(),
                property: property.clone(),
                health_state: state.word().to_owned(),
                consider_warning_as_error: rules.considers_warning_as_error,
            },
            Reason::Children { kind, unhealthy, total, max_percent } => {
                let mut ids: Vec<String> = unhealthy.iter().map(|one| self.id(one)).collect();
                // Nodes that the caller may not read have one name.
                ids.dedup();
                wire::UnhealthyEvaluation::Children {
                    entity: kind.word().to_owned(),
                    unhealthy: ids,
                    total: *total,
                    max_percent: *max_percent,
                }
            }
        }
    }

    /// Returns an event; none when it has disappeared.
    fn event(&self, report: &StoredReport, kept_up: Option<KeptUp>) -> Option<wire::HealthEvent> {
        if report.is_gone(self.now) || kept_up.as_ref().is_some_and(|kept_up| self.now >= kept_up.until) {
            return None;
        }
        let received_at = match &kept_up {
            Some(kept_up) => kept_up.confirmed_at(report.received_at, self.now),
            None => report.received_at,
        };
        // The engine's descriptions name nodes.
        let is_shown = self.seen.is_all()
            || !report.source.starts_with(SYSTEM)
            || self.entity.node().is_some_and(|node| self.seen.shows(node));
        Some(wire::HealthEvent {
            source_id: report.source.clone(),
            property: report.property.clone(),
            health_state: report.state.word().to_owned(),
            sequence_number: report.sequence.to_string(),
            sent_at: report.sent_at.map(time),
            received_at: time(received_at),
            ttl_seconds: report.ttl_secs,
            remove_when_expired: report.is_removed_when_expired,
            is_expired: report.is_expired(self.now),
            transitions: wire::HealthTransitions {
                last_ok_at: report.last_ok_at.map(time),
                last_warning_at: report.last_warning_at.map(time),
                last_error_at: report.last_error_at.map(time),
            },
            description: if is_shown { report.description.clone() } else { String::new() },
        })
    }
}
