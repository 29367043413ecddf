//! The health of an object and of what it contains, from the organization to its instances.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::agbot::event::AgbotEvent;
use evenkeel_wire::agbot::health::{
    ChildHealthState, HealthEvaluation, HealthEvent, HealthQuery, UnhealthyEvaluation,
};
use evenkeel_wire::agbot::orchestration::OrchestrationEvent;
use jiff::Timestamp;
use serde_json::json;

use super::events::EventRow;
use super::moment::Moment;
use crate::address::{address_of, with_fields};
use crate::change::{ChangeLink, SYSTEM};
use crate::failure::Failure;
use crate::form::{Form, Query};
use crate::health_target::{self, HealthTarget};
use crate::layout::{self, Tab};
use crate::reads;
use crate::session::Reader;

/// Contained objects of a page.
const PAGE: u16 = 50;
/// Contained objects whose reasons are read.
const REASONS: usize = 10;
/// Changes of health on a page.
const CHANGES: u16 = 30;
/// Objects that a reason names.
const NAMED: usize = 5;
/// Kinds of objects in an organization, with their texts.
const KINDS: [(&str, &str); 4] =
    [("", "all"), ("workload", "deployment policies"), ("hagroup", "HA groups"), ("node", "nodes")];

/// A state as a badge shows it.
struct StateBadge {
    class: &'static str,
    text: String,
}

impl StateBadge {
    fn new(state: &str) -> Self {
        let class = match state {
            "Ok" => "up",
            "Warning" => "warn",
            "Error" => "down",
            _ => "",
        };
        Self { class, text: state.to_owned() }
    }
}

struct ChildRow {
    kind: &'static str,
    name: String,
    /// Empty for what the reader may not see.
    href: String,
    state: StateBadge,
    why: String,
}

/// An event of an object, with the control that suppresses it.
struct ReportRow {
    source: String,
    property: String,
    state: StateBadge,
    description: String,
    received: Moment,
    expiry: String,
    controls: Vec<ChangeLink>,
}

#[derive(Template)]
#[template(path = "health.html")]
struct Page {
    title: String,
    ancestors: Vec<(String, String)>,
    name: String,
    state: StateBadge,
    reasons: Vec<String>,
    controls: Vec<ChangeLink>,
    command: String,
    /// Address, text, and whether it is the chosen one; none where there is one kind only.
    kinds: Vec<(String, &'static str, bool)>,
    children: Vec<ChildRow>,
    has_children: bool,
    count: usize,
    first: Option<String>,
    next: Option<String>,
    reports: Vec<ReportRow>,
    events: Vec<EventRow>,
    has_events: bool,
    /// The page of the object itself.
    object: Option<(&'static str, String)>,
}

pub(crate) async fn show(
    reader: Reader,
    Path(org): Path<String>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let target = HealthTarget::read(&org, &form);
    let query = HealthQuery {
        limit: Some(PAGE),
        offset: form.number("offset")?,
        kind: form.owned("kind"),
        ..HealthQuery::default()
    };
    let has_events = target.policy.is_none() && target.node.is_none();
    let (found, account, changes) = tokio::try_join!(
        health_target::evaluation(&reader, &target, &query),
        reads::account(&reader),
        async {
            match has_events {
                true => health_target::changes(&reader, &org, target.group.as_deref(), CHANGES).await,
                false => Ok(Vec::new()),
            }
        }
    )?;
    let objection = target.objection(&reader, &account).await?;
    let children = children(&reader, &org, &found).await;
    let page = page(&target, &form, (found, children), changes, &objection);
    Ok(layout::show(&reader, &org, Tab::Health, &page.title.clone(), &page))
}

/// Returns the contained objects; the reasons of the worst are read one by one.
async fn children(reader: &Reader, org: &str, found: &HealthEvaluation) -> Vec<ChildRow> {
    let mut rows = Vec::new();
    for (number, child) in found.child_health_states.iter().enumerate() {
        let target = HealthTarget::of(org, &child.entity, &child.id);
        let is_explained = number < REASONS && child.aggregated_health_state != "Ok";
        let why = match target.as_ref().filter(|_| is_explained) {
            // The states can be shown without their reasons.
            Some(target) => {
                let query = HealthQuery { limit: Some(1), ..HealthQuery::default() };
                let read = health_target::evaluation(reader, target, &query).await;
                read.map(|found| worst_reason(&found)).unwrap_or_default()
            }
            None => String::new(),
        };
        rows.push(child_row(child, target, why));
    }
    rows
}

fn child_row(child: &ChildHealthState, target: Option<HealthTarget>, why: String) -> ChildRow {
    let name = match &target {
        Some(target) => target.name().to_owned(),
        None => "one that you may not read".to_owned(),
    };
    ChildRow {
        kind: kind_in_words(&child.entity),
        name,
        href: target.map(|target| target.href()).unwrap_or_default(),
        state: StateBadge::new(&child.aggregated_health_state),
        why,
    }
}

fn kind_in_words(kind: &str) -> &'static str {
    match kind {
        "node" => "node",
        "hagroup" => "HA group",
        "workload" => "deployment policy",
        "unit" => "workload unit",
        "instance" => "instance on",
        _ => "object",
    }
}

/// Returns the description of the worst event of an object, or else the reasons of its state.
fn worst_reason(found: &HealthEvaluation) -> String {
    match found.worst_event() {
        Some(event) => event.in_words(),
        None => found.unhealthy_evaluations.iter().map(reason).collect::<Vec<_>>().join("; "),
    }
}

fn reason(reason: &UnhealthyEvaluation) -> String {
    match reason {
        UnhealthyEvaluation::Event { source_id, property, health_state, consider_warning_as_error } => {
            let counts = if *consider_warning_as_error && health_state == "Warning" {
                ", which counts as an error"
            } else {
                ""
            };
            format!("{source_id} reports {property} as {health_state}{counts}")
        }
        UnhealthyEvaluation::Children { entity, unhealthy, total, max_percent } => {
            let bare =
                |id: &String| id.split_once('/').map_or_else(|| id.clone(), |(_, name)| name.to_owned());
            let named: Vec<String> = unhealthy.iter().take(NAMED).map(bare).collect();
            let others = unhealthy.len().saturating_sub(NAMED);
            let more = if others > 0 { " and others".to_owned() } else { String::new() };
            let tolerated =
                if *max_percent > 0 { format!("; {max_percent} % may be in error") } else { String::new() };
            let kind = match entity.as_str() {
                "instance" => "instances",
                "unit" => "workload units",
                "workload" => "deployment policies",
                "hagroup" => "HA groups",
                _ => "nodes",
            };
            format!("not all of the {total} {kind} are Ok: {}{more}{tolerated}", named.join(", "))
        }
    }
}

fn page(
    target: &HealthTarget,
    form: &Form,
    (found, children): (HealthEvaluation, Vec<ChildRow>),
    changes: Vec<OrchestrationEvent>,
    objection: &str,
) -> Page {
    let now = Timestamp::now();
    let (org, href) = (&target.org, target.href());
    let kind = form.get("kind").unwrap_or_default();
    let with = |fields: &[(&str, &str)]| with_fields(&href, fields.iter().copied());
    let is_org = target.parts().is_empty();
    let report = ChangeLink::new(org, "health-report", "Report health", &target.parts(), objection);
    let offset = form.get("offset").unwrap_or_default();
    Page {
        title: format!("Health of {}", target.in_words()),
        ancestors: target.ancestors().iter().map(|one| (one.name().to_owned(), one.href())).collect(),
        name: target.name().to_owned(),
        state: StateBadge::new(&found.aggregated_health_state),
        reasons: found.unhealthy_evaluations.iter().map(reason).collect(),
        controls: vec![report],
        command: format!("hzn exchange health list{}", target.arguments()),
        kinds: match is_org {
            true => {
                KINDS.iter().map(|(word, text)| (with(&[("kind", word)]), *text, *word == kind)).collect()
            }
            false => Vec::new(),
        },
        has_children: is_org || target.policy.is_some() && target.node.is_none(),
        count: found.child_count.unwrap_or(found.child_health_states.len()),
        children,
        first: (!offset.is_empty() && offset != "0").then(|| with(&[("kind", kind)])),
        next: found.next.map(|next| with(&[("kind", kind), ("offset", &next.to_string())])),
        reports: found.health_events.iter().map(|event| report_row(target, event, objection, now)).collect(),
        events: changes.into_iter().map(|event| EventRow::new(org, as_agbot_event(event), now)).collect(),
        has_events: target.policy.is_none() && target.node.is_none(),
        object: object(target),
    }
}

fn report_row(target: &HealthTarget, event: &HealthEvent, objection: &str, now: Timestamp) -> ReportRow {
    let is_ok = event.health_state == "Ok" && !event.is_expired;
    let is_own = event.source_id.starts_with(SYSTEM);
    let objection = if is_own { "the hub ends its own events when their cause ends" } else { objection };
    let mut fields = target.parts();
    fields.extend([("source", event.source_id.as_str()), ("property", event.property.as_str())]);
    let suppress = || ChangeLink::new(&target.org, "health-suppress", "Suppress", &fields, objection);
    let expiry = match (event.ttl_seconds, event.is_expired, event.remove_when_expired) {
        (_, true, _) => "expired: counts as an error".to_owned(),
        (None, ..) => String::new(),
        (Some(secs), _, true) => format!("disappears {secs} s after it was received"),
        (Some(secs), _, false) => format!("is an error {secs} s after it was received"),
    };
    ReportRow {
        source: event.source_id.clone(),
        property: event.property.clone(),
        state: StateBadge::new(&event.health_state),
        description: event.description.clone(),
        received: Moment::new(&event.received_at, now),
        expiry,
        controls: if is_ok { Vec::new() } else { vec![suppress()] },
    }
}

fn as_agbot_event(event: OrchestrationEvent) -> AgbotEvent {
    let text = event.reason.or_else(|| event.data["text"].as_str().map(str::to_owned));
    let (at, kind, node, policy) = (event.at, event.kind, event.node, event.policy);
    AgbotEvent { at, kind, ha_group: None, node, policy, detail: json!({"text": text}) }
}

/// Returns the page of the object itself, with its text.
fn object(target: &HealthTarget) -> Option<(&'static str, String)> {
    let of = |path: &str, name: &str| address_of(&target.org, &[path, name]);
    match (&target.policy, &target.node, &target.group) {
        (Some(policy), ..) => Some(("The deployment policy", of("policies", policy))),
        (None, Some(node), _) if !node.contains('/') => Some(("The node", of("nodes", node))),
        (None, None, Some(group)) => Some(("The HA group", of("groups", group))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(source: &str, state: &str) -> HealthEvent {
        HealthEvent {
            source_id: source.to_owned(),
            property: "<p>\u{202e}".to_owned(),
            health_state: state.to_owned(),
            received_at: "2026-01-01T00:00:00Z".to_owned(),
            description: "x".repeat(1_000),
            ..HealthEvent::default()
        }
    }

    fn shown(query: &str, found: HealthEvaluation, objection: &str) -> String {
        let form = Form::parse(query.as_bytes());
        let target = HealthTarget::read("o", &form);
        let children = found.child_health_states.iter();
        let children = children.map(|child| {
            child_row(child, HealthTarget::of("o", &child.entity, &child.id), "<b>why</b>".to_owned())
        });
        let children = children.collect();
        page(&target, &form, (found, children), Vec::new(), objection).render().expect("a page")
    }

    fn evaluation() -> HealthEvaluation {
        let child = |entity: &str, id: &str, state: &str| ChildHealthState {
            entity: entity.to_owned(),
            id: id.to_owned(),
            aggregated_health_state: state.to_owned(),
        };
        HealthEvaluation {
            entity: "org".to_owned(),
            id: "o".to_owned(),
            aggregated_health_state: "Error".to_owned(),
            unhealthy_evaluations: vec![UnhealthyEvaluation::Children {
                entity: "node".to_owned(),
                unhealthy: (0..7).map(|number| format!("o/n{number}")).collect(),
                total: 9,
                max_percent: 10,
            }],
            child_health_states: vec![
                child("node", "o/<script>alert(1)</script>", "Error"),
                child("node", "o/?", "Warning"),
                child("workload", "o/a&b\"'", "Ok"),
            ],
            child_count: Some(120),
            next: Some(50),
            health_events: vec![
                event("dog", "Error"),
                event("System.Placement", "Warning"),
                event("cat", "Ok"),
            ],
        }
    }

    #[test]
    fn hostile_names_are_escaped_and_hidden_nodes_have_no_page() {
        let html = shown("kind=node", evaluation(), "");
        assert!(
            !html.contains("<script>") && !html.contains("<p>\u{202e}") && !html.contains("<b>why"),
            "{html}"
        );
        assert!(html.contains("node=%3Cscript%3Ealert%281%29%3C%2Fscript%3E"), "{html}");
        assert!(html.contains("one that you may not read") && !html.contains("node=%3F"), "{html}");
        assert!(html.contains("property=%3Cp%3E%E2%80%AE"), "{html}");
        assert!(html.contains("n0, n1, n2, n3, n4 and others; 10 % may be in error"), "{html}");
        assert!(html.contains("/console/orgs/o/health?kind=node&#38;offset=50"), "{html}");
    }

    #[test]
    fn events_are_suppressed_unless_they_are_ok_or_the_hub_reports_them() {
        let html = shown("", evaluation(), "");
        assert_eq!(html.matches("/change/health-suppress?").count(), 1, "{html}");
        assert!(html.contains("disabled title=\"the hub ends its own events"), "{html}");
        let html = shown("", evaluation(), "only administrators of o may do this");
        assert!(!html.contains("/change/"), "{html}");
        assert!(html.contains("disabled title=\"only administrators of o may do this\""), "{html}");
    }

    #[test]
    fn worst_event_is_the_reason_of_a_child() {
        let mut found = evaluation();
        assert_eq!(worst_reason(&found).len(), 1_000);
        found.health_events.clear();
        assert!(worst_reason(&found).starts_with("not all of the 9 nodes are Ok: n0"));
        found.health_events.push(HealthEvent { description: String::new(), ..event("dog", "Warning") });
        assert_eq!(worst_reason(&found), "dog reports <p>\u{202e} as Warning");
    }
}
