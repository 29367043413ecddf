//! Why instances of a deployment policy are where they are: which constraint removed which nodes.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::agbot::orchestration::{ExplainQuery, PlacementExplanation};

use super::funnel::FunnelStage;
use crate::address::address_of;
use crate::failure::Failure;
use crate::form::Query;
use crate::layout::{self, Tab};
use crate::reads;
use crate::session::Reader;

#[derive(Template)]
#[template(path = "why.html")]
struct Page {
    policy: String,
    href: String,
    node: String,
    unit: String,
    found: PlacementExplanation,
    stages: Vec<FunnelStage>,
}

pub(crate) async fn show(
    reader: Reader,
    Path((org, policy)): Path<(String, String)>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let query = ExplainQuery {
        workload_unit: form.owned("unit"),
        node: form.owned("node"),
        all: Some(true),
        ..ExplainQuery::default()
    };
    let mut found = reads::explanation(&reader, (&org, &policy), &query).await?;
    let page = Page {
        href: address_of(&org, &["policies", &policy]),
        policy: policy.clone(),
        node: query.node.unwrap_or_default(),
        unit: found.workload_unit.clone(),
        stages: std::mem::take(&mut found.sequence).into_iter().map(FunnelStage::new).collect(),
        found,
    };
    Ok(layout::show(&reader, &org, Tab::Policies, &format!("Why: {policy}"), &page))
}
