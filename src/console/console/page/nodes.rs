//! The nodes of an organization, page by page.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::agbot::common::CommonCausesQuery;
use evenkeel_wire::agbot::fleet::{FleetNode, FleetNodes, FleetNodesQuery};
use jiff::Timestamp;

use super::common::CommonTable;
use super::moment::Moment;
use crate::address::{address_of, query_of};
use crate::failure::Failure;
use crate::fleet::{self, CHANGES, Choice, Completion, ViewLinks, choice_of};
use crate::form::Query;
use crate::layout::{self, Tab, bare_name};
use crate::reads;
use crate::session::Reader;

/// Nodes of a page.
const PAGE: u16 = 50;

/// A node of the list.
pub(crate) struct NodeRow {
    pub(crate) name: String,
    pub(crate) href: String,
    pub(crate) seen: Option<Moment>,
    pub(crate) node: FleetNode,
}

impl NodeRow {
    pub(crate) fn new(org: &str, node: FleetNode, now: Timestamp) -> Self {
        let name = bare_name(org, &node.node).to_owned();
        let href = address_of(org, &["nodes", &name]);
        Self { name, href, seen: Moment::known(node.last_heartbeat.as_deref(), now), node }
    }
}

#[derive(Template)]
#[template(path = "nodes.html")]
struct Page {
    base: String,
    choice: Choice,
    error: String,
    nodes: Vec<NodeRow>,
    count: u64,
    next: Option<String>,
    is_first: bool,
    /// The values that the selected nodes have in common, or those that are down.
    common: Option<CommonTable>,
    views: ViewLinks,
    completion: Completion,
    /// Why the reader may change no node; empty if it may.
    objection: String,
}

impl Page {
    fn is_state(&self, state: &str) -> bool {
        self.choice.state.as_deref() == Some(state)
    }

    fn is_availability(&self, availability: &str) -> bool {
        self.choice.availability.as_deref() == Some(availability)
    }

    fn is_selection(&self) -> bool {
        !self.choice.is_all()
    }

    fn filter(&self) -> &str {
        self.choice.filter.as_deref().unwrap_or_default()
    }

    fn group(&self) -> &str {
        self.choice.group.as_deref().unwrap_or_default()
    }

    /// Returns the query of the following page.
    fn following(&self, after: &str) -> String {
        self.selection(("after", after))
    }

    /// Returns the query of the same page with what its nodes have in common.
    fn comparing(&self) -> String {
        self.selection(("common", "yes"))
    }

    /// Returns the query of the same selection with a further field.
    fn selection(&self, further: (&str, &str)) -> String {
        format!("?{}", query_of(self.choice.fields().into_iter().chain([further])))
    }
}

pub(crate) async fn show(
    reader: Reader,
    Path(org): Path<String>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let reader = reader.for_display();
    let choice = choice_of(&form);
    let query = FleetNodesQuery {
        after: form.owned("after"),
        limit: Some(PAGE),
        count: Some(true),
        ..choice.query()
    };
    let now = Timestamp::now();
    // A filter with a mistake is shown with it, so that it can be corrected.
    let (found, error) = match reads::nodes(&reader, &org, &query).await {
        Ok(found) => (found, String::new()),
        Err(failure) if failure.is_input() => (FleetNodes::default(), failure.text()),
        Err(failure) => return Err(failure),
    };
    // A comparison visits every node of a selection, so that it is made only for readers who want it.
    let is_wanted = form.get("common").is_some() && error.is_empty();
    let common = match compared(&query).filter(|_| is_wanted) {
        Some(compared) => Some(reads::common_causes(&reader, &org, &compared).await?),
        None => None,
    };
    let account = reads::account(&reader).await?;
    let (views, completion) =
        tokio::try_join!(fleet::of_page(&reader, &org, &choice, &account), Completion::read(&reader, &org))?;
    let page = Page {
        base: address_of(&org, &[]),
        common: common.map(|common| CommonTable::new(&org, common)),
        is_first: query.after.is_none(),
        objection: account.role_objection(),
        choice,
        error,
        views,
        completion,
        count: found.count.unwrap_or_default(),
        next: found.next,
        nodes: found.nodes.into_iter().map(|node| NodeRow::new(&org, node, now)).collect(),
    };
    Ok(layout::show(&reader, &org, Tab::Nodes, "Nodes", &page))
}

/// Returns the selection of which a page shows what its nodes have in common: those that are down if nothing is selected. Further pages
/// show nothing of that.
fn compared(query: &FleetNodesQuery) -> Option<CommonCausesQuery> {
    let FleetNodesQuery { state, availability, group, filter, after, .. } = query.clone();
    let compared = CommonCausesQuery { state, availability, group, filter, limit: None };
    after.is_none().then_some(compared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_the_first_page_are_compared() {
        let query = FleetNodesQuery { state: Some("down".into()), ..FleetNodesQuery::default() };
        assert_eq!(compared(&query).and_then(|query| query.state).as_deref(), Some("down"));
        assert_eq!(compared(&FleetNodesQuery::default()), Some(CommonCausesQuery::default()));
        assert_eq!(compared(&FleetNodesQuery { after: Some("n1".into()), ..query }), None);
    }

    const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&";

    fn page(choice: Choice) -> Page {
        let node =
            FleetNode { node: format!("o/{HOSTILE}"), group: Some(HOSTILE.into()), ..FleetNode::default() };
        Page {
            base: "/console/orgs/o".into(),
            choice,
            error: String::new(),
            nodes: vec![NodeRow::new("o", node, Timestamp::UNIX_EPOCH)],
            count: 1,
            next: None,
            is_first: true,
            common: None,
            views: ViewLinks { views: Vec::new(), save: String::new(), objection: String::new() },
            completion: Completion {
                options: vec![(HOSTILE.into(), HOSTILE.into())],
                names: vec![HOSTILE.into()],
            },
            objection: String::new(),
        }
    }

    #[test]
    fn following_page_has_the_same_selection() {
        let choice = Choice {
            state: Some("down".into()),
            filter: Some("site == \"a&b\"".into()),
            ..Choice::default()
        };
        let page = page(choice);
        assert_eq!(page.following("n/1"), "?state=down&filter=site%20%3D%3D%20%22a%26b%22&after=n%2F1");
    }

    #[test]
    fn names_and_values_of_others_are_escaped() {
        let choice =
            Choice { filter: Some(HOSTILE.into()), group: Some(HOSTILE.into()), ..Choice::default() };
        let text = page(choice).render().expect("a page");
        assert!(!text.contains("<img"), "{text}");
        for part in [
            "<datalist id=\"known\">",
            "type=\"checkbox\" name=\"node\"",
            "value=\"drain\"",
            "list=\"known\"",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn control_that_the_reader_may_not_use_is_disabled_with_the_reason() {
        let page = Page { objection: "your role viewer changes nothing".into(), ..page(Choice::default()) };
        let text = page.render().expect("a page");
        assert!(text.contains("disabled title=\"your role viewer changes nothing\""), "{text}");
        assert!(!text.contains("type=\"checkbox\""), "{text}");
    }
}
