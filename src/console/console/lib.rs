//! The console: pages for operators, rendered on the server, below `/console`.
//!
//! A page is a function of what the API returns to its reader: the console calls the API in the same process with the reader's credentials,
//! so that every right, limit and audit record holds as for other clients. It has no database and no model of its own. Pages work without
//! script; the script only renews a page when something has happened. Read [`router`] first, then `page`.

mod action;
mod address;
mod administration;
mod approval;
mod change;
mod command_line;
mod constraint;
mod cross_site;
mod document;
mod dot_segment;
mod failure;
mod fleet;
mod form;
mod health_target;
mod layout;
mod live;
mod login;
mod moment;
mod page;
mod plan_token;
mod progress;
mod provider_login;
mod reads;
mod renewal;
mod session;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn, from_fn_with_state, map_request};
use axum::routing::{any, get, post};
use evenkeel_client::{Client, Transport};
use evenkeel_http_server::middleware;
use evenkeel_oidc::Provider;
use evenkeel_wire::exchange::forwarded::CLIENT_ADDRESS;
use http::{HeaderMap, header};

use provider_login::ProviderLogins;

/// What all pages share.
#[derive(Clone)]
struct Console {
    /// The API, without credentials.
    api: Client,
    /// True if the listener uses TLS.
    is_tls: bool,
    /// Logins with the identity provider, if the configuration has them.
    provider_logins: Option<Arc<ProviderLogins>>,
    /// Event streams that are open now.
    open_streams: Arc<AtomicUsize>,
}

impl Console {
    /// Returns whether the browser uses TLS, so that its cookies are sent over TLS only. A proxy may terminate it at the public address.
    fn is_secure(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        self.is_tls || self.provider_logins.as_ref().is_some_and(|logins| logins.is_secure_host(host))
    }

    /// Name of the identity provider; empty without one.
    fn provider_name(&self) -> &str {
        self.provider_logins.as_deref().map_or("", ProviderLogins::name)
    }

    /// Returns where a user ends the session at the identity provider; empty if that is unknown.
    async fn end_session_address(&self) -> String {
        match &self.provider_logins {
            Some(logins) => logins.end_session_address().await.unwrap_or_default(),
            None => String::new(),
        }
    }
}

/// Returns the pages of the console.
///
/// # Shape
/// `api`: the router of the exchange and the agbot. `is_tls`: true if the listener uses TLS. `provider`: the identity provider of the exchange,
/// if it has one.
pub fn router(api: Router, is_tls: bool, provider: Option<Provider>) -> Router {
    let api = Client::anonymous(Transport::router(api.layer(map_request(restore_client))), "/v1");
    let pages = Router::new()
        .route("/console", get(page::home))
        .route("/console/login", get(login::form).post(login::log_in))
        .route("/console/login/oidc", get(provider_login::begin))
        .route("/console/login/oidc/callback", get(provider_login::finish))
        .route("/console/logout", post(login::log_out))
        .route("/console/account", get(page::account::show))
        .route("/console/account/sessions/end", post(login::end_sessions))
        .route("/console/assets/{name}", get(page::asset))
        .route("/console/orgs", get(page::orgs::show))
        .route("/console/orgs/{org}", get(page::org_home))
        .route("/console/orgs/{org}/now", get(page::now::show))
        .route("/console/orgs/{org}/nodes", get(page::nodes::show))
        .route("/console/orgs/{org}/nodes/{node}", get(page::node::show))
        .route("/console/orgs/{org}/groups", get(page::groups::show))
        .route("/console/orgs/{org}/groups/{group}", get(page::group::show))
        .route("/console/orgs/{org}/policies", get(page::policies::show))
        .route("/console/orgs/{org}/policies/{policy}", get(page::policy::show))
        .route("/console/orgs/{org}/policies/{policy}/why", get(page::why::show))
        .route(
            "/console/orgs/{org}/policies/{policy}/why/try",
            get(page::try_policy::show).post(page::try_policy::submit),
        )
        .merge(documents())
        .route("/console/orgs/{org}/rollouts", get(page::rollouts::show))
        .route("/console/orgs/{org}/rollouts/{policy}", get(page::rollout::show))
        .route("/console/orgs/{org}/events", get(page::events::show))
        .route("/console/orgs/{org}/history", get(page::history::show))
        .route("/console/orgs/{org}/approvals", get(page::approvals::show))
        .route(
            "/console/orgs/{org}/approvals/{approval}",
            get(page::approvals::show_one).post(page::approvals::decide),
        )
        .route("/console/orgs/{org}/do/{action}", get(action::show_plan).post(action::carry_out))
        .route("/console/orgs/{org}/do/{action}/done", get(action::show_done))
        .route("/console/orgs/{org}/live", get(live::stream))
        .merge(administration_pages())
        .merge(fleet::routes())
        .route("/console/{*path}", any(page::missing));
    let console = Console {
        api,
        is_tls,
        provider_logins: provider.and_then(ProviderLogins::new),
        open_streams: Arc::default(),
    };
    pages
        .layer(from_fn_with_state(console.clone(), renewal::renew))
        .layer(from_fn(cross_site::refuse))
        .layer(from_fn(dot_segment::refuse))
        .with_state(console)
}

/// Returns the pages about health, records, accounts and settings.
fn administration_pages() -> Router<Console> {
    Router::new()
        .route("/console/orgs/{org}/health", get(page::health::show))
        .route("/console/orgs/{org}/audit", get(page::audit::show))
        .route("/console/orgs/{org}/audit/verify", get(page::audit::verify))
        .route("/console/orgs/{org}/audit/export", get(page::audit_export::download))
        .route("/console/orgs/{org}/users", get(page::users::show))
        .route("/console/orgs/{org}/users/{user}", get(page::user::show))
        .route("/console/orgs/{org}/settings", get(page::settings::show))
        .route("/console/orgs/{org}/change/{change}", get(change::show).post(change::send))
        .route("/console/orgs/{org}/change/{change}/done", get(change::show_done))
}

/// Returns the pages of the documents that keep revisions.
fn documents() -> Router<Console> {
    Router::new()
        .route("/console/orgs/{org}/documents", get(page::documents::show_kinds))
        .route("/console/orgs/{org}/documents/{kind}", get(page::documents::show_names))
        .route("/console/orgs/{org}/documents/{kind}/{name}", get(page::revisions::show_list))
        .route("/console/orgs/{org}/documents/{kind}/{name}/compare", get(page::revisions::compare))
        .route(
            "/console/orgs/{org}/documents/{kind}/{name}/revisions/{number}",
            get(page::revisions::show_one),
        )
        .route(
            "/console/orgs/{org}/documents/{kind}/{name}/change",
            get(page::change::show).post(page::change::submit),
        )
        .route("/console/orgs/{org}/documents/{kind}/{name}/change/done", get(page::change::show_done))
}

/// Lets the API see the client of the page: its address counts for limits and records.
async fn restore_client(mut request: Request) -> Request {
    let named = request.headers_mut().remove(CLIENT_ADDRESS);
    if let Some(address) = named.and_then(|value| value.to_str().ok()?.parse().ok()) {
        request.extensions_mut().insert(middleware::Client::at(address));
    }
    request
}
