//! The state of an organization now: numbers by state, what waits for a person, rollouts in progress, capacity by domain, and what changed in
//! the last hour.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::agbot::domain::{DomainCapacity, FleetDomain};
use evenkeel_wire::agbot::event::{AgbotEvent, EventsQuery};
use evenkeel_wire::agbot::fleet::FleetOverview;
use jiff::{SignedDuration, Timestamp};

use super::events::EventRow;
use super::rollouts::{RolloutRow, UpdateRow};
use crate::address::address_of;
use crate::failure::Failure;
use crate::fleet::attention::{Matter, MatterGroup, grouped};
use crate::layout::{self, Tab};
use crate::progress::Progress;
use crate::reads;
use crate::session::Reader;

/// Events that are read; those of the last hour are counted.
const EVENTS: i64 = 200;

/// Events that are shown.
const SHOWN: usize = 20;

/// Rollouts of each kind on the page.
const ROLLOUTS: u16 = 10;

/// Fault domains on the page.
const DOMAINS: usize = 20;

/// A fault domain.
struct DomainRow {
    name: String,
    nodes: u64,
    up: u64,
    open: u64,
    instances: u64,
    running: u64,
    capacities: Vec<CapacityBar>,
}

/// A capacity of a domain, with its use as a bar.
struct CapacityBar {
    name: String,
    used: f64,
    usable: f64,
    progress: Progress,
}

impl CapacityBar {
    fn new(name: String, DomainCapacity { used, usable }: DomainCapacity) -> Self {
        let percent = if usable > 0.0 { (used / usable * 100.0).clamp(0.0, 100.0) } else { 100.0 };
        // A percentage is small and not negative.
        let percent = (0..=100_u32).find(|whole| f64::from(*whole) >= percent).unwrap_or(100);
        Self { name, used, usable, progress: Progress::new(percent, 100, 0) }
    }
}

impl DomainRow {
    fn new(domain: FleetDomain) -> Self {
        let FleetDomain { name, nodes, up, open, instances, running, capacities } = domain;
        let capacities = capacities.into_iter().map(|(name, capacity)| CapacityBar::new(name, capacity));
        Self { name, nodes, up, open, instances, running, capacities: capacities.collect() }
    }
}

#[derive(Template)]
#[template(path = "now.html")]
struct Page<'a> {
    org: &'a str,
    base: String,
    overview: FleetOverview,
    groups: Vec<MatterGroup>,
    acknowledged: Vec<Matter>,
    rollouts: Vec<RolloutRow>,
    updates: Vec<UpdateRow>,
    domains: Vec<DomainRow>,
    more_domains: usize,
    /// Kinds of the events of the last hour, with their numbers.
    kinds: Vec<(String, usize)>,
    /// True if more happened in the hour than was read.
    has_more: bool,
    events: Vec<EventRow>,
    hour_ago: String,
}

pub(crate) async fn show(reader: Reader, Path(org): Path<String>) -> Result<Response, Failure> {
    let reader = reader.for_display();
    let now = Timestamp::now();
    let query = EventsQuery { limit: Some(EVENTS), ..EventsQuery::default() };
    let (mut overview, events, rollouts, domains, account) = tokio::try_join!(
        reads::overview(&reader, &org),
        reads::events(&reader, &org, &query),
        reads::rollouts(&reader, (&org, None), ROLLOUTS),
        async { Ok(reader.client.fleet_domains(&org).await?) },
        reads::account(&reader),
    )?;
    let hour_ago = now - SignedDuration::from_hours(1);
    let recent = of_last_hour(events, hour_ago);
    let rows = rollouts.rollouts.into_iter().map(|rollout| RolloutRow::new(&org, rollout, &account, now));
    let updating = rollouts.workloads.into_iter().filter(|update| {
        let state = update.update.state.as_str();
        matches!(state, "updating" | "paused" | "rollback-started" | "rollback-paused")
    });
    let attention = std::mem::take(&mut overview.attention);
    let (groups, acknowledged) = grouped(&org, attention, &account, now);
    let is_divided = domains.domains.iter().any(|domain| !domain.name.is_empty());
    let has_capacity = domains.domains.iter().any(|domain| !domain.capacities.is_empty());
    let domains = if is_divided || has_capacity { domains.domains } else { Vec::new() };
    let page = Page {
        org: &org,
        base: address_of(&org, &[]),
        overview,
        groups,
        acknowledged,
        rollouts: rows.filter(RolloutRow::is_open).take(usize::from(ROLLOUTS)).collect(),
        updates: updating
            .take(usize::from(ROLLOUTS))
            .map(|update| UpdateRow::new(&org, update, now))
            .collect(),
        more_domains: domains.len().saturating_sub(DOMAINS),
        domains: domains.into_iter().take(DOMAINS).map(DomainRow::new).collect(),
        kinds: kinds_of(&recent),
        has_more: i64::try_from(recent.len()).is_ok_and(|count| count >= EVENTS),
        events: recent.into_iter().take(SHOWN).map(|event| EventRow::new(&org, event, now)).collect(),
        hour_ago: hour_ago.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
    };
    Ok(layout::show(&reader, &org, Tab::Now, "Now", &page))
}

/// Returns the events since an instant; of one whose time cannot be read that is not known.
fn of_last_hour(events: Vec<AgbotEvent>, since: Timestamp) -> Vec<AgbotEvent> {
    let is_recent = |event: &AgbotEvent| event.at.parse::<Timestamp>().is_ok_and(|at| at >= since);
    events.into_iter().filter(is_recent).collect()
}

/// Returns the kinds of events with their numbers, the most frequent first.
fn kinds_of(events: &[AgbotEvent]) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        *counts.entry(event.kind.as_str()).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect();
    counts.sort_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
    counts
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::agbot::fleet::FleetMatter;

    use super::*;
    use crate::reads::Account;

    const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&";

    fn event(kind: &str, at: &str) -> AgbotEvent {
        let [kind, at] = [kind, at].map(str::to_owned);
        AgbotEvent { at, kind, ha_group: None, node: None, policy: None, detail: serde_json::Value::Null }
    }

    #[test]
    fn events_of_the_last_hour_are_counted_by_kind() {
        let since = "2026-03-01T08:00:00Z".parse().expect("an instant");
        let events = vec![
            event("b", "2026-03-01T08:30:00Z"),
            event("a", "2026-03-01T08:10:00Z"),
            event("b", "2026-03-01T08:00:00Z"),
            event("a", "2026-03-01T07:59:59Z"),
            event("a", "soon"),
        ];
        let recent = of_last_hour(events, since);
        assert_eq!(kinds_of(&recent), [("b".to_owned(), 2), ("a".to_owned(), 1)]);
    }

    #[test]
    fn use_of_a_capacity_is_a_share_of_what_may_be_used() {
        for (used, usable, percent) in [(0.0, 8.0, 0), (2.0, 8.0, 25), (9.0, 8.0, 100), (0.0, 0.0, 100)] {
            let bar = CapacityBar::new("memoryMb".into(), DomainCapacity { used, usable });
            assert_eq!(bar.progress.done, percent, "{used} of {usable}");
        }
    }

    #[test]
    fn page_escapes_names_and_folds_what_is_acknowledged() {
        let now = Timestamp::UNIX_EPOCH;
        let matter = |is_acknowledged: bool| FleetMatter {
            subject: HOSTILE.into(),
            text: HOSTILE.into(),
            acknowledged: is_acknowledged.then(Default::default),
            ..FleetMatter::default()
        };
        let account = Account { name: "o/a".into(), is_admin: true, ..Account::default() };
        let (groups, acknowledged) = grouped("o", vec![matter(false), matter(true)], &account, now);
        let domain = FleetDomain {
            name: HOSTILE.into(),
            capacities: BTreeMap::from([(HOSTILE.to_owned(), DomainCapacity::default())]),
            ..FleetDomain::default()
        };
        let page = Page {
            org: HOSTILE,
            base: "/console/orgs/o".into(),
            overview: FleetOverview::default(),
            groups,
            acknowledged,
            rollouts: Vec::new(),
            updates: Vec::new(),
            domains: vec![DomainRow::new(domain)],
            more_domains: 1,
            kinds: vec![(HOSTILE.into(), 2)],
            has_more: true,
            events: vec![EventRow::new("o", event(HOSTILE, HOSTILE), now)],
            hour_ago: "2026-03-01T08:00:00".into(),
        };
        let text = page.render().expect("a page");
        assert!(!text.contains("<img"), "{text}");
        for part in ["<details class=\"folded\">", "1 acknowledged", "more than", "and 1 more"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
