//! The pages. Each is a template that is filled from what the API returns to its reader.

pub(crate) mod account;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod audit_export;
pub(crate) mod change;
mod common;
pub(crate) mod documents;
pub(crate) mod events;
mod funnel;
pub(crate) mod group;
pub(crate) mod groups;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod node;
mod node_parts;
pub(crate) mod nodes;
pub(crate) mod now;
pub(crate) mod orgs;
mod plan_view;
pub(crate) mod policies;
pub(crate) mod policy;
pub(crate) mod revisions;
pub(crate) mod rollout;
pub(crate) mod rollouts;
pub(crate) mod settings;
pub(crate) mod try_policy;
pub(crate) mod user;
pub(crate) mod users;
pub(crate) mod why;

use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use evenkeel_pages::Cache;
use http::{HeaderMap, StatusCode};

use crate::address::address_of;
use crate::layout::{self, find_asset};
use crate::moment;
use crate::reads::ROOT_ORG;
use crate::session::{Reader, to_login};

/// Leads to the first page of the reader.
pub(crate) async fn home(reader: Option<Reader>) -> Response {
    match reader {
        None => to_login("/console"),
        // Root looks after all organizations.
        Some(reader) if reader.session.org == ROOT_ORG => Redirect::to("/console/orgs").into_response(),
        Some(reader) => Redirect::to(&address_of(&reader.session.org, &["now"])).into_response(),
    }
}

/// Leads to the first page of an organization.
pub(crate) async fn org_home(Path(org): Path<String>) -> Response {
    Redirect::to(&address_of(&org, &["now"])).into_response()
}

/// Shows that there is no such page.
pub(crate) async fn missing() -> Response {
    layout::failure(StatusCode::NOT_FOUND, "Not found", "The console has no such page.")
}

/// Serves a file of the console.
pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match find_asset(&name) {
        Some(asset) => asset.body().respond(&headers, Cache::Immutable).map(axum::body::Body::from),
        None => missing().await,
    }
}
