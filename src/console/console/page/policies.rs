//! The deployment policies of an organization, page by page.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::agbot::fleet::{FleetPoliciesQuery, FleetPolicy};

use crate::address::{address_of, query_of};
use crate::failure::Failure;
use crate::form::Query;
use crate::layout::{self, Tab, bare_name};
use crate::reads;
use crate::session::Reader;

/// Policies of a page.
const PAGE: u16 = 25;

struct PolicyRow {
    name: String,
    href: String,
    policy: FleetPolicy,
}

impl PolicyRow {
    /// The update in words; empty when there is none.
    fn update(&self) -> String {
        let update = &self.policy.update;
        match update.state.as_str() {
            "" | "none" | "completed" => String::new(),
            state => format!("{state}, {} of {}", update.done, update.total),
        }
    }
}

#[derive(Template)]
#[template(path = "policies.html")]
struct Page {
    policies: Vec<PolicyRow>,
    next: Option<String>,
    is_first: bool,
}

pub(crate) async fn show(
    reader: Reader,
    Path(org): Path<String>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let reader = reader.for_display();
    let after = form.owned("after");
    let is_first = after.is_none();
    let query = FleetPoliciesQuery { after, limit: Some(PAGE), ..FleetPoliciesQuery::default() };
    let found = reads::policies(&reader, &org, &query).await?;
    let policies = found.policies.into_iter().map(|policy| {
        let name = bare_name(&org, &policy.policy).to_owned();
        let href = address_of(&org, &["policies", &name]);
        PolicyRow { name, href, policy }
    });
    let page = Page {
        policies: policies.collect(),
        next: found.next.map(|next| format!("?{}", query_of([("after", next.as_str())]))),
        is_first,
    };
    Ok(layout::show(&reader, &org, Tab::Policies, "Deployment policies", &page))
}
