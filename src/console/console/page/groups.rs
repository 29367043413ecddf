//! The HA groups of an organization, page by page.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::page::PageQuery;
use jiff::Timestamp;

use super::moment::Moment;
use crate::address::{address_of, query_of};
use crate::failure::Failure;
use crate::form::Query;
use crate::layout::{self, Tab};
use crate::session::Reader;

struct GroupRow {
    name: String,
    href: String,
    description: String,
    members: Vec<String>,
    changed: Moment,
}

/// Members that a row names.
const NAMED: usize = 6;
/// Groups of a page.
const PAGE: u16 = 50;

impl GroupRow {
    fn named(&self) -> String {
        self.members.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    fn others(&self) -> usize {
        self.members.len().saturating_sub(NAMED)
    }
}

#[derive(Template)]
#[template(path = "groups.html")]
struct Page {
    groups: Vec<GroupRow>,
    count: u64,
    /// The query of the following page.
    next: Option<String>,
    is_first: bool,
}

pub(crate) async fn show(
    reader: Reader,
    Path(org): Path<String>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let now = Timestamp::now();
    let query = PageQuery {
        limit: Some(PAGE),
        after: form.owned("after"),
        count: Some(true),
        ..PageQuery::default()
    };
    let found = reader.client.ha_groups_page(&org, &query).await?;
    let groups = found.node_groups.into_iter().map(|group| GroupRow {
        href: address_of(&org, &["groups", &group.name]),
        description: group.description,
        members: group.members,
        changed: Moment::new(&group.last_updated, now),
        name: group.name,
    });
    let page = Page {
        groups: groups.collect(),
        count: found.count.unwrap_or_default(),
        next: found.next.map(|next| format!("?{}", query_of([("after", next.as_str())]))),
        is_first: query.after.is_none(),
    };
    Ok(layout::show(&reader, &org, Tab::Groups, "HA groups", &page))
}
