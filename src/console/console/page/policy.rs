//! One deployment policy: its workload units with their instances, its update, its document and its events.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::agbot::event::EventsQuery;
use evenkeel_wire::agbot::orchestration::{Instance, StatusQuery, UpdateProgress, WorkloadStatus};
use jiff::Timestamp;
use serde_json::json;

use super::events::EventRow;
use super::moment::Moment;
use super::rollouts::{Progress, RolloutRow};
use crate::action::Control;
use crate::address::{address_of, with_fields};
use crate::document::{Revisable, RevisableKind};
use crate::failure::Failure;
use crate::form::Query;
use crate::layout::{self, Tab, bare_name};
use crate::reads;
use crate::session::Reader;

/// Events on the page.
const EVENTS: i64 = 30;

/// Rollouts through HA groups on the page.
const ROLLOUTS: u16 = 50;

/// Instances of each workload unit on a page.
const INSTANCES: u16 = 50;

/// An instance.
struct InstanceRow {
    node: String,
    href: String,
    why: String,
    since: Option<Moment>,
    instance: Instance,
}

impl InstanceRow {
    fn slots(&self) -> String {
        let numbers = self.instance.slots.iter().map(ToString::to_string);
        numbers.filter(|slot| *slot != self.node).collect::<Vec<_>>().join(", ")
    }
}

/// A workload unit.
struct PartRow {
    name: String,
    avail: String,
    up: u32,
    target: u32,
    count: usize,
    instances: Vec<InstanceRow>,
    /// Address of the following instances.
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "policy.html")]
struct Page {
    name: String,
    href: String,
    rollout_href: String,
    owner: String,
    service: String,
    status: WorkloadStatus,
    progress: Option<Progress>,
    rollouts: Vec<RolloutRow>,
    parts: Vec<PartRow>,
    document: String,
    events: Vec<EventRow>,
    controls: Vec<Control>,
    /// Address of the revisions.
    revisions_href: String,
    /// The wanted number of instances, where the mode has one.
    scale: Option<u64>,
    /// Reason for which the reader may not change the document; empty if it may.
    objection: String,
}

pub(crate) async fn show(
    reader: Reader,
    Path((org, name)): Path<(String, String)>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let reader = reader.for_display();
    let now = Timestamp::now();
    let query = StatusQuery {
        workload_unit: form.owned("unit"),
        limit: Some(INSTANCES),
        offset: form.number("offset")?,
    };
    let events = EventsQuery { policy: Some(name.clone()), limit: Some(EVENTS), ..EventsQuery::default() };
    let (stored, status, rollouts, events, account) = tokio::try_join!(
        async { Ok(reader.client.deployment_policy(&org, &name).await?) },
        reads::status(&reader, (&org, &name), &query),
        reads::rollouts(&reader, (&org, Some(&name)), ROLLOUTS),
        reads::events(&reader, &org, &events),
        reads::account(&reader),
    )?;
    let href = address_of(&org, &["policies", &name]);
    let owner = stored.as_ref().map(|stored| stored.owner.as_str());
    // Rollouts are changed by administrators and deployers, not by owners.
    let [objection, of_rollouts] = [owner, None].map(|owner| account.policy_objection((&org, &name), owner));
    let parts = status.workload_units.iter().map(|unit| PartRow {
        name: unit.workload_unit.clone(),
        avail: unit.avail.clone(),
        up: unit.up,
        target: unit.target,
        count: unit.instance_count,
        instances: unit.instances.iter().map(|one| instance_row(&org, &href, one, now)).collect(),
        next: unit.next.map(|next| {
            with_fields(&href, [("unit", unit.workload_unit.as_str()), ("offset", &next.to_string())])
        }),
    });
    let own_rollouts = rollouts.rollouts.into_iter();
    let page = Page {
        owner: stored.as_ref().map(|stored| stored.owner.clone()).unwrap_or_default(),
        service: stored.as_ref().map(|stored| service_of(&stored.service)).unwrap_or_default(),
        document: stored.as_ref().map(|stored| pretty(&json!(stored))).unwrap_or_default(),
        scale: stored.as_ref().and_then(|stored| wanted_count(stored.orchestration.as_ref()?)),
        revisions_href: Revisable::new(RevisableKind::DeploymentPolicy, &org, &name).href(),
        progress: progress_of(&status.update),
        rollouts: own_rollouts.map(|rollout| RolloutRow::new(&org, rollout, &account, now)).collect(),
        parts: parts.collect(),
        events: events.into_iter().map(|event| EventRow::new(&org, event, now)).collect(),
        controls: Control::of_policy(&org, &name, &status, (&objection, &of_rollouts)),
        rollout_href: address_of(&org, &["rollouts", &name]),
        href,
        objection,
        status,
        name: name.clone(),
    };
    Ok(layout::show(&reader, &org, Tab::Policies, &name, &page))
}

/// Returns the number of instances that settings want; none where the mode has none.
fn wanted_count(settings: &serde_json::Value) -> Option<u64> {
    match settings["mode"].as_str()? {
        "replicated" => Some(settings["replicas"].as_u64().unwrap_or(1)),
        "flex" => Some(settings["flex"]["target"].as_u64().or(settings["flex"]["min"].as_u64()).unwrap_or(1)),
        _ => None,
    }
}

fn instance_row(org: &str, policy: &str, instance: &Instance, now: Timestamp) -> InstanceRow {
    let node = instance.node.clone();
    // A node that the reader may not see, or of another organization, has no page here.
    let is_linked = node != "?" && bare_name(org, &node) == node && !node.contains('/');
    let linked = |address: String| if is_linked { address } else { String::new() };
    InstanceRow {
        href: linked(address_of(org, &["nodes", &node])),
        why: linked(with_fields(&format!("{policy}/why"), [("node", node.as_str())])),
        since: Moment::known(instance.since.as_deref(), now),
        instance: instance.clone(),
        node,
    }
}

fn progress_of(update: &UpdateProgress) -> Option<Progress> {
    let is_shown = !matches!(update.state.as_str(), "" | "none");
    is_shown.then(|| Progress::new(update.done, update.total, update.failed))
}

/// Returns the service that a document deploys, in words.
fn service_of(service: &serde_json::Value) -> String {
    let text = |name: &str| service[name].as_str().unwrap_or_default();
    format!("{}/{}", text("org"), text("name"))
}

fn pretty(document: &serde_json::Value) -> String {
    serde_json::to_string_pretty(document).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_modes_have_a_number_of_instances() {
        assert_eq!(wanted_count(&json!({"mode": "replicated", "replicas": 3})), Some(3));
        assert_eq!(wanted_count(&json!({"mode": "flex", "flex": {"min": 2, "target": 4}})), Some(4));
        assert_eq!(wanted_count(&json!({"mode": "flex", "flex": {"min": 2}})), Some(2));
        assert_eq!(wanted_count(&json!({"mode": "failover"})), None);
        assert_eq!(wanted_count(&json!({})), None);
    }

    #[test]
    fn only_nodes_with_a_page_are_linked() {
        let now = Timestamp::UNIX_EPOCH;
        for (node, is_linked) in [("edge-1", true), ("?", false), ("other/edge-1", false)] {
            let instance = Instance { node: node.to_owned(), ..Instance::default() };
            assert_eq!(!instance_row("o", "/p", &instance, now).href.is_empty(), is_linked, "{node}");
        }
    }
}
