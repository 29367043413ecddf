//! Recent events of an organization.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::agbot::event::{AgbotEvent, EventsQuery};
use jiff::Timestamp;

use super::moment::Moment;
use crate::address::address_of;
use crate::failure::Failure;
use crate::form::Query;
use crate::layout::{self, Tab, bare_name};
use crate::reads;
use crate::session::Reader;

/// Events on the page.
const EVENTS: i64 = 150;

/// An event with links to what it is about.
pub(crate) struct EventRow {
    pub(crate) at: Moment,
    pub(crate) kind: String,
    /// Kind of object, name and address.
    pub(crate) subjects: Vec<(&'static str, String, String)>,
    pub(crate) text: String,
}

impl EventRow {
    pub(crate) fn new(org: &str, event: AgbotEvent, now: Timestamp) -> Self {
        let of = [
            ("node", "nodes", &event.node),
            ("group", "groups", &event.ha_group),
            ("policy", "policies", &event.policy),
        ];
        let subjects = of.into_iter().filter_map(|(kind, path, name)| {
            let name = bare_name(org, name.as_deref()?).to_owned();
            let href = address_of(org, &[path, &name]);
            // What belongs to another organization has no page here.
            let href = if name.contains('/') { String::new() } else { href };
            Some((kind, name, href))
        });
        let text = event.detail["text"].as_str().unwrap_or_default();
        let text = match (text, event.detail["target"].as_str()) {
            ("", Some(target)) => target.to_owned(),
            (text, _) => text.to_owned(),
        };
        Self { at: Moment::new(&event.at, now), subjects: subjects.collect(), kind: event.kind, text }
    }
}

#[derive(Template)]
#[template(path = "events.html")]
struct Page {
    group: String,
    node: String,
    policy: String,
    events: Vec<EventRow>,
}

pub(crate) async fn show(
    reader: Reader,
    Path(org): Path<String>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let query = EventsQuery {
        group: form.owned("group"),
        node: form.owned("node"),
        policy: form.owned("policy"),
        limit: Some(EVENTS),
    };
    let now = Timestamp::now();
    let events = reads::events(&reader, &org, &query).await?;
    let page = Page {
        group: query.group.unwrap_or_default(),
        node: query.node.unwrap_or_default(),
        policy: query.policy.unwrap_or_default(),
        events: events.into_iter().map(|event| EventRow::new(&org, event, now)).collect(),
    };
    Ok(layout::show(&reader, &org, Tab::Events, "Events", &page))
}
