//! One HA group: its members with their instances and claims, and who waits for what.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::agbot::event::EventsQuery;
use evenkeel_wire::agbot::fleet::FleetNodesQuery;
use evenkeel_wire::agbot::upgrade::{HeldClaim, UpgradesResponse};
use jiff::Timestamp;

use super::events::EventRow;
use super::moment::Moment;
use super::nodes::NodeRow;
use crate::action::Control;
use crate::document::{Revisable, RevisableKind};
use crate::failure::Failure;
use crate::layout::{self, Tab, bare_name};
use crate::reads;
use crate::session::Reader;

/// Events on the page.
const EVENTS: i64 = 30;

/// Members of a page: a group has no more.
const MEMBERS: u16 = 1000;

/// A claim that a member holds.
struct ClaimRow {
    node: String,
    subject: String,
    phase: String,
    since: Moment,
    deadline: String,
    control: Control,
}

impl ClaimRow {
    fn new(org: &str, group: &str, held: &HeldClaim, objection: &str, now: Timestamp) -> Self {
        let node = bare_name(org, held.claim.node.as_str()).to_owned();
        let subject = match (&held.policy, &held.nmp) {
            (Some(policy), _) => format!("service of {policy}"),
            (None, Some(nmp)) => format!("agent, by {nmp}"),
            (None, None) => "agent".to_owned(),
        };
        Self {
            control: Control::of_claim(org, group, &node, objection),
            subject,
            phase: held.claim.phase.clone(),
            since: Moment::new(&held.claim.since, now),
            deadline: held.claim.deadline.clone(),
            node,
        }
    }
}

#[derive(Template)]
#[template(path = "group.html")]
struct Page {
    name: String,
    description: String,
    max_unavailable: String,
    members: Vec<NodeRow>,
    /// What a member waits for, by its name.
    waits: BTreeMap<String, Vec<(String, String)>>,
    claims: Vec<ClaimRow>,
    blocked: String,
    events: Vec<EventRow>,
    /// Address of the revisions.
    revisions_href: String,
}

impl Page {
    fn waits_of(&self, member: &str) -> &[(String, String)] {
        self.waits.get(member).map_or(&[], Vec::as_slice)
    }
}

pub(crate) async fn show(
    reader: Reader,
    Path((org, name)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let now = Timestamp::now();
    let members =
        FleetNodesQuery { group: Some(name.clone()), limit: Some(MEMBERS), ..FleetNodesQuery::default() };
    let events = EventsQuery { group: Some(name.clone()), limit: Some(EVENTS), ..EventsQuery::default() };
    let (group, members, claims, events, account) = tokio::try_join!(
        async { Ok(reader.client.ha_group(&org, &name).await?) },
        reads::nodes(&reader, &org, &members),
        reads::claims(&reader, &org, &name),
        reads::events(&reader, &org, &events),
        reads::account(&reader),
    )?;
    let group = group.ok_or_else(|| Failure::Missing(format!("the HA group {org}/{name} does not exist")))?;
    let objection = account.objection(&org, None);
    let UpgradesResponse { agent, workloads, waiting, blocked, .. } = claims;
    let mut waits: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for one in waiting {
        let policy = bare_name(&org, one.policy.as_str()).to_owned();
        waits.entry(bare_name(&org, one.node.as_str()).to_owned()).or_default().push((policy, one.reason));
    }
    let max_unavailable = group.orchestration.as_ref().and_then(|one| serde_json::to_value(one).ok());
    let page = Page {
        description: group.description,
        max_unavailable: max_unavailable
            .and_then(|one| one.get("maxUnavailable").map(ToString::to_string))
            .unwrap_or_else(|| "1".to_owned()),
        members: members.nodes.into_iter().map(|node| NodeRow::new(&org, node, now)).collect(),
        waits,
        claims: agent
            .iter()
            .chain(&workloads)
            .map(|held| ClaimRow::new(&org, &name, held, &objection, now))
            .collect(),
        blocked: blocked.map(|blocked| blocked.hint).unwrap_or_default(),
        events: events.into_iter().map(|event| EventRow::new(&org, event, now)).collect(),
        revisions_href: Revisable::new(RevisableKind::HaGroup, &org, &name).href(),
        name: name.clone(),
    };
    Ok(layout::show(&reader, &org, Tab::Groups, &name, &page))
}
