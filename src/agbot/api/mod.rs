//! The agbot's own API: permission for agent upgrades, what it has agreed to, who holds claims, why (not), and
//! what administrators may do about rollouts and claims.
//!
//! Source: seed 004, "Agbot APIs"; agbot 3.3 and 4.1; orchestration E5.5.

mod administer;
mod caller;
mod hidden;
mod shape;
mod status;
mod stop;
mod upgrade;

use std::sync::{Arc, OnceLock};

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use axum::{Json, Router};
use evenkeel_api::{Endpoint, Part, endpoint};
use evenkeel_wire::agbot::agreement::AgreementsAnswer;
use evenkeel_wire::agbot::claim::FreedClaims;
use evenkeel_wire::agbot::event::EventsAnswer;
use evenkeel_wire::agbot::reason::ReasonsAnswer;
use evenkeel_wire::agbot::rollout::{ChangedRollouts, RolloutsAnswer};
use evenkeel_wire::agbot::status::AgbotStatus;
use evenkeel_wire::agbot::upgrade::{UpgradeRequest, UpgradesAnswer};
use evenkeel_wire::exchange::utility::ApiResponse;
use http::request::Parts;
use http::{Method, StatusCode};

use crate::Agbot;
use crate::context::Context;

const TAG: &str = "agbot";
const CLAIMS: &str = "/orgs/{organization}/hagroups/{hagroup}/upgrades";

/// The agbot's part of the API.
#[must_use]
pub fn part() -> Part {
    Part {
        operations: endpoints().iter().map(Endpoint::described).collect(),
        examples: &[include_str!("examples.json")],
    }
}

/// The API of an agbot that may still be on its way: until it is there, every answer is 503.
///
/// So a hub can answer for its exchange before its agbot has made its keys.
#[derive(Clone, Default)]
pub struct AgbotApi(Arc<OnceLock<Arc<Context>>>);

impl AgbotApi {
    /// From now on the agbot answers; a second one changes nothing.
    pub fn open(&self, agbot: &Agbot) {
        let _ = self.0.set(agbot.context.clone());
    }

    /// Whether the agbot is there and has read everything it serves at least once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.get().is_some_and(|context| context.is_loaded())
    }

    /// The routes: permission for agent upgrades, agreements, claims, reasons; with and without `/v1`.
    pub fn router(&self) -> Router {
        router(self.clone())
    }
}

/// The agbot, as an argument of a handler.
struct Running(Arc<Context>);

impl FromRequestParts<AgbotApi> for Running {
    type Rejection = Response;

    async fn from_request_parts(_: &mut Parts, api: &AgbotApi) -> Result<Self, Response> {
        let context = api.0.get().cloned();
        context
            .map(Running)
            .ok_or_else(|| answer(StatusCode::SERVICE_UNAVAILABLE, "the agbot is starting, try again"))
    }
}

fn router(api: AgbotApi) -> Router {
    let endpoints = endpoints();
    let below = |base: &str, router: Router<AgbotApi>| {
        endpoints
            .iter()
            .fold(router, |router, endpoint| endpoint.mount(base, router, |_, methods| methods.clone()))
    };
    below("", below(evenkeel_api::PREFIX, Router::new())).with_state(api)
}

fn endpoints() -> Vec<Endpoint<MethodRouter<AgbotApi>>> {
    let mut all = upgrade_endpoints();
    all.extend(administration_endpoints());
    all.extend(status_endpoints());
    all.into_iter().map(Endpoint::at_root_too).collect()
}

fn upgrade_endpoints() -> Vec<Endpoint<MethodRouter<AgbotApi>>> {
    vec![
        endpoint(
            Method::POST,
            "/org/{organization}/node/{node}/upgrade",
            "ask_for_upgrade",
            post(upgrade::upgrade_node),
        )
        .doc(TAG, "Asks, as a node, whether it may upgrade its agent now")
        .body::<UpgradeRequest>()
        .answer::<ApiResponse>(200, "it may, and holds the claim of its group")
        .answer::<ApiResponse>(409, "not now: another member holds the claim, or too few others run"),
        endpoint(
            Method::POST,
            "/org/{organization}/hagroup/{hagroup}/nodemanagement/{node}/{nmp}",
            "ask_for_management",
            post(upgrade::manage_node),
        )
        .doc(TAG, "Asks, as a member of a group, whether it may carry out a management policy now")
        .answer::<ApiResponse>(201, "it may, and holds the claim of its group")
        .answer::<ApiResponse>(409, "not now: another member holds the claim, or too few others run"),
    ]
}

fn administration_endpoints() -> Vec<Endpoint<MethodRouter<AgbotApi>>> {
    vec![
        endpoint(
            Method::POST,
            "/orgs/{organization}/agbot/rollouts/{policy}/{action}",
            "act_on_rollouts",
            post(administer::act_on_rollouts),
        )
        .doc(TAG, "Pauses, resumes, aborts, rolls back or retries the rollouts of a deployment policy")
        .query::<administer::OfGroup>()
        .answer::<ChangedRollouts>(200, "the rollouts as they are now, and which cannot do that")
        .answer::<ApiResponse>(409, "none of them can do that now: the text says why"),
        endpoint(
            Method::POST,
            "/orgs/{organization}/agbot/agreements/{agreement}/confirm-stop",
            "confirm_stop",
            post(stop::confirm),
        )
        .doc(TAG, "Records that the instance of an agreement that ended does not run any more")
        .answer::<ApiResponse>(200, "the instance counts as stopped")
        .answer::<ApiResponse>(404, "no such agreement")
        .answer::<ApiResponse>(409, "the agreement has not ended"),
        endpoint(Method::DELETE, CLAIMS, "free_claims", delete(administer::free_group))
            .doc(TAG, "Frees the claims of a group, or those that the query names")
            .query::<administer::OfClaim>()
            .answer::<FreedClaims>(200, "the claims that were freed"),
        endpoint(
            Method::DELETE,
            "/orgs/{organization}/hagroups/{hagroup}/upgrades/{node}",
            "free_claims_of_member",
            delete(administer::free_member),
        )
        .doc(TAG, "Frees the claims that a member of a group holds")
        .query::<administer::OfClaim>()
        .answer::<FreedClaims>(200, "the claims that were freed"),
    ]
}

fn status_endpoints() -> Vec<Endpoint<MethodRouter<AgbotApi>>> {
    vec![
        endpoint(Method::GET, CLAIMS, "list_upgrades", get(status::list_upgrades))
            .doc(TAG, "Answers who holds the claims of a group and who waits for them")
            .answer::<UpgradesAnswer>(200, "the claims and what waits"),
        endpoint(
            Method::GET,
            "/orgs/{organization}/agbot/agreements",
            "list_agreements",
            get(status::list_agreements),
        )
        .doc(TAG, "Lists what the agbot has agreed to with the nodes of an organization")
        .answer::<AgreementsAnswer>(200, "the agreements"),
        endpoint(
            Method::GET,
            "/orgs/{organization}/agbot/reasons",
            "list_reasons",
            get(status::list_reasons),
        )
        .doc(TAG, "Tells how each pair of node and deployment policy stands, and why")
        .answer::<ReasonsAnswer>(200, "the pairs"),
        endpoint(
            Method::GET,
            "/orgs/{organization}/agbot/rollouts",
            "list_rollouts",
            get(status::list_rollouts),
        )
        .doc(TAG, "Lists the rollouts through the groups of an organization")
        .answer::<RolloutsAnswer>(200, "the rollouts"),
        endpoint(Method::GET, "/orgs/{organization}/agbot/events", "list_events", get(status::list_events))
            .doc(TAG, "Lists what the agbot did lately, newest first")
            .query::<status::OfEvents>()
            .answer::<EventsAnswer>(200, "the events"),
        endpoint(Method::GET, "/agbot/status", "get_agbot_status", get(status::status))
            .doc(TAG, "Answers the health of the agbot")
            .answer::<AgbotStatus>(200, "its health")
            .public(),
    ]
}

/// An answer with the API's body: `code` repeats the status as text.
fn answer(status: StatusCode, message: impl Into<String>) -> Response {
    let body = ApiResponse { code: status.as_u16().to_string(), msg: message.into() };
    (status, Json(body)).into_response()
}
