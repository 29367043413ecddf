//! Problems that a person has to resolve, and who has acknowledged which.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use evenkeel_agbot::{AgbotError, Context};
use evenkeel_agbot_store::acknowledgement::{self as acknowledgements, AcknowledgementRow};
use evenkeel_agbot_store::event::{self as events, EventRow};
use evenkeel_api::{BodyKind, Content, Input, Refusal};
use evenkeel_domain::object::{Members, Object};
use evenkeel_domain::orchestration::MembersError;
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_record::stable_hash::stable_hash;
use evenkeel_store::retry;
use evenkeel_wire::agbot::attention::{Acknowledgement, LONGEST_REASON, PutAcknowledgement};
use evenkeel_wire::agbot::fleet::FleetMatter;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::actions::failed;
use super::done;
use super::fleet::{MATTERS, matters};
use super::parameters::known;
use super::path::MatterPath;
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op, Sent, unreadable};
use crate::shown::SeenNodes;
use crate::shown::workload_shape::time;

/// Longest life of an acknowledgement.
const LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Acknowledgements of an organization.
const MOST: usize = 1_000;

/// Roles in the order in which their problems are listed.
const ROLES: [&str; 3] = ["administrator", "owner", "operator"];

impl Input<AgbotRequest> for PutAcknowledgement {
    const KIND: BodyKind = BodyKind::Raw;

    fn read(sent: Sent) -> Result<PutAcknowledgement, Refusal> {
        sent.members(of_body)
    }

    fn body() -> Content {
        Content::read::<PutAcknowledgement>()
    }
}

fn of_body(value: Value) -> Result<PutAcknowledgement, MembersError> {
    const MEMBERS: Members = known(&["reason"]);
    let mut body = Object::open(String::new(), value, &MEMBERS)?;
    match body.text("reason", LONGEST_REASON)? {
        Some(text) if text.trim().is_empty() => Err(body.broken("reason", "must not be empty")),
        Some(text) if text.contains('\0') => Err(body.broken("reason", "must not hold a NUL character")),
        Some(text) => Ok(PutAcknowledgement { reason: text }),
        None => Err(body.broken("reason", "must be given")),
    }
}

/// Returns the digest of a problem and of its cause, which is the same for every reader.
fn digest(matter: &FleetMatter) -> String {
    let FleetMatter { kind, subject, group, text, since, .. } = matter;
    let of = |salt: &str| {
        let (group, since) = (group.as_deref().unwrap_or_default(), since.as_deref().unwrap_or_default());
        stable_hash(&[salt, kind, subject, group, text, since])
    };
    format!("{:016x}{:016x}", of("first"), of("second"))
}

/// The object of a problem.
type MatterKey = (String, String, Option<String>);

fn key(matter: &FleetMatter) -> MatterKey {
    (matter.kind.clone(), matter.subject.clone(), matter.group.clone())
}

/// Gives the problems that a caller sees their ids: those of `all`, as readers see them who see everything, or else their own.
fn identify(mut shown: Vec<FleetMatter>, all: &[FleetMatter]) -> Vec<FleetMatter> {
    let ids: BTreeMap<MatterKey, String> = all.iter().map(|one| (key(one), digest(one))).collect();
    for matter in &mut shown {
        matter.id = ids.get(&key(matter)).cloned().unwrap_or_else(|| digest(matter));
    }
    shown
}

/// Returns the ids of the problems of an organization; none while some of them may be unknown.
pub(super) fn problems(context: &Context, org: &str) -> Option<BTreeSet<String>> {
    // An agbot that has not read everything knows of few problems, and a full list leaves some out.
    let all = context.reading.is_loaded().then(|| matters(context, org, &SeenNodes::All))?;
    (all.len() < MATTERS).then(|| all.iter().map(digest).collect())
}

/// Returns the problems of an organization that a caller sees, in the order of those who can resolve them, with their acknowledgements;
/// those that are acknowledged last.
///
/// # Errors
/// 503 when the acknowledgements cannot be read.
pub(super) async fn acknowledged(
    context: &Context,
    org: &str,
    (shown, seen): (Vec<FleetMatter>, &SeenNodes),
) -> Result<Vec<FleetMatter>, Refusal> {
    let all = if seen.is_all() { Vec::new() } else { matters(context, org, &SeenNodes::All) };
    let mut shown = identify(shown, &all);
    let rows = list(context, org).await.map_err(|error| unreadable(&error))?;
    let mut known: BTreeMap<&str, Acknowledgement> =
        rows.iter().map(|row| (row.matter.as_str(), shape(row))).collect();
    for matter in &mut shown {
        matter.acknowledged = known.remove(matter.id.as_str());
    }
    let rank = |role: &str| ROLES.iter().position(|one| *one == role).unwrap_or(ROLES.len());
    shown.sort_by_key(|matter| (matter.acknowledged.is_some(), rank(&matter.role)));
    Ok(shown)
}

async fn list(context: &Context, org: &str) -> Result<Vec<AcknowledgementRow>, AgbotError> {
    let now = context.now();
    let rows = context
        .database
        .read(async |connection| acknowledgements::list_acknowledgements(connection, org, now).await);
    Ok(rows.await?)
}

fn shape(row: &AcknowledgementRow) -> Acknowledgement {
    Acknowledgement {
        by: row.actor.clone(),
        at: time(row.acknowledged_at),
        reason: row.reason.clone(),
        until: time(row.expires_at),
    }
}

/// Returns a problem that holds now and that the caller may acknowledge: administrators every one, users those of their own nodes.
///
/// # Errors
/// 404 when there is none with this id, or its cause has changed; 403 when the caller may not.
fn acknowledgeable(
    context: &Context,
    (org, id): (&str, &str),
    operated: &SeenNodes,
) -> Result<FleetMatter, Refusal> {
    let missing = || {
        let text =
            format!("the problem {id} does not exist in {org}: it is resolved, or its cause has changed");
        Refusal::new(StatusCode::NOT_FOUND, text)
    };
    let all = identify(matters(context, org, &SeenNodes::All), &[]);
    let matter = all.into_iter().find(|matter| matter.id == id).ok_or_else(missing)?;
    let is_own = operated.is_all()
        || node_of_matter(&matter).is_some_and(|node| node.org() == org && operated.shows(&node));
    if !is_own {
        let text = format!("only administrators of {org} may acknowledge problems of others");
        return Err(Refusal::new(StatusCode::FORBIDDEN, text));
    }
    Ok(matter)
}

fn node_of_matter(matter: &FleetMatter) -> Option<NodeId> {
    (matter.kind == "node-down").then(|| NodeId::from_text(&matter.subject))
}

/// Records that somebody knows of a problem.
pub(super) async fn acknowledge_matter(
    op: Op<MatterPath>,
    permission: Permission<right::NodesOperate>,
    request: PutAcknowledgement,
) -> Result<Json<ApiResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: MatterPath { org, matter: id }, .. } = op;
    let (actor, operated) = permission.into_proof();
    let matter = acknowledgeable(&context, (&org, &id), &operated)?;
    let known = list(&context, &org).await.map_err(|error| unreadable(&error))?;
    if known.len() >= MOST && known.iter().all(|row| row.matter != id) {
        let text = format!("{org} has {MOST} acknowledgements, which is the most: withdraw some");
        return Err(Refusal::new(StatusCode::CONFLICT, text));
    }
    let now = context.now();
    let row = AcknowledgementRow {
        org: org.clone(),
        matter: id,
        actor,
        reason: request.reason.trim().to_owned(),
        acknowledged_at: now,
        expires_at: now + LIFETIME,
    };
    let event = event(&context, "attention.acknowledged", (&matter, &row.actor), &row.reason);
    let stored = retry("acknowledgement.store", || async {
        let mut tx = context.database.begin().await?;
        acknowledgements::upsert_acknowledgement(&mut tx, &row).await?;
        if let Some(event) = &event {
            events::insert_event(&mut tx, event).await?;
        }
        tx.commit().await?;
        Ok::<_, AgbotError>(())
    });
    stored.await.map_err(|error| failed(&error))?;
    Ok(Json(done(format!(
        "{} of {} acknowledged until {}",
        matter.kind,
        matter.subject,
        time(row.expires_at)
    ))))
}

/// Withdraws an acknowledgement.
pub(super) async fn withdraw_acknowledgement(
    op: Op<MatterPath>,
    permission: Permission<right::NodesOperate>,
) -> Result<Json<ApiResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: MatterPath { org, matter: id }, .. } = op;
    let (actor, operated) = permission.into_proof();
    let matter = acknowledgeable(&context, (&org, &id), &operated)?;
    let event = event(&context, "attention.withdrawn", (&matter, &actor), "");
    let deleted = retry("acknowledgement.delete", || async {
        let mut tx = context.database.begin().await?;
        let ids = [id.as_str()];
        let deleted = acknowledgements::delete_acknowledgements(&mut tx, &org, &ids, context.now()).await?;
        if let Some(event) = event.as_ref().filter(|_| deleted > 0) {
            events::insert_event(&mut tx, event).await?;
        }
        tx.commit().await?;
        Ok::<_, AgbotError>(deleted)
    });
    match deleted.await.map_err(|error| failed(&error))? {
        0 => Err(Refusal::new(StatusCode::NOT_FOUND, format!("the problem {id} is not acknowledged"))),
        _ => Ok(Json(done(format!("{} of {} is no longer acknowledged", matter.kind, matter.subject)))),
    }
}

/// Returns the event about an acknowledgement; none for documents that are neither of a node nor of a deployment policy.
fn event(
    context: &Context,
    kind: &str,
    (matter, actor): (&FleetMatter, &str),
    reason: &str,
) -> Option<EventRow> {
    let node = node_of_matter(matter);
    let is_of_policy =
        !matches!(matter.kind.as_str(), "node-down" | "policy-without-effect" | "policy-questionable");
    let policy = is_of_policy.then(|| PolicyId::from_text(&matter.subject));
    if node.is_none() && policy.is_none() {
        return None;
    }
    let text = match reason {
        "" => format!("{actor} no longer acknowledges {}: {}", matter.kind, matter.text),
        reason => format!("{actor} acknowledged {}: {reason}", matter.kind),
    };
    Some(EventRow {
        happened_at: context.now(),
        kind: kind.to_owned(),
        ha_group: None,
        node,
        policy,
        detail: json!({"actor": actor, "matter": matter.kind, "reason": reason, "text": text}),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matter(kind: &str, text: &str, since: Option<&str>) -> FleetMatter {
        FleetMatter {
            kind: kind.to_owned(),
            subject: "o/p".to_owned(),
            text: text.to_owned(),
            since: since.map(str::to_owned),
            ..FleetMatter::default()
        }
    }

    #[test]
    fn id_changes_with_the_cause_and_is_the_same_for_every_reader() {
        let one = digest(&matter("node-down", "no heartbeat", Some("2026-01-01T00:00:00Z")));
        assert_eq!(one, digest(&matter("node-down", "no heartbeat", Some("2026-01-01T00:00:00Z"))));
        for other in [
            matter("node-down", "no heartbeat", Some("2026-01-02T00:00:00Z")),
            matter("node-down", "no heartbeat; agreements: 2", Some("2026-01-01T00:00:00Z")),
            matter("update-paused", "no heartbeat", Some("2026-01-01T00:00:00Z")),
        ] {
            assert_ne!(one, digest(&other), "{other:?}");
        }
        let (hidden, whole) =
            (matter("update-paused", "", None), matter("update-paused", "failed on n1", None));
        assert_eq!(identify(vec![hidden], std::slice::from_ref(&whole))[0].id, digest(&whole));
    }

    #[test]
    fn reason_is_required_and_bounded() {
        let read = |body: Value| {
            let sent = Sent { uri: http::Uri::from_static("/"), body: body.to_string().into() };
            PutAcknowledgement::read(sent).map(|read| read.reason).map_err(|error| error.message().to_owned())
        };
        assert_eq!(read(json!({"reason": "known"})), Ok("known".to_owned()));
        for (body, rule) in [
            (json!({}), "reason must be given"),
            (json!({"reason": " "}), "reason must not be empty"),
            (json!({"reason": "x".repeat(513)}), "reason"),
            (json!({"reason": "x", "until": 1}), "until"),
            (json!([]), "object"),
        ] {
            let error = read(body.clone()).unwrap_err();
            assert!(error.contains(rule), "{body}: {error}");
        }
    }
}
