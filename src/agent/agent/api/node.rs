//! `/node`: registration, policy, user input.

use std::time::Duration;

use axum::{
    Json, Router,
    extract::{Query, State, rejection::JsonRejection},
    http::StatusCode,
    routing::get,
};
use evenkeel_client::{Client, ClientError, Credentials};
use evenkeel_domain::policy::NodePolicy;
use evenkeel_ids::NodeId;
use evenkeel_wire::RawJson;
use evenkeel_wire::agent::node::{
    CONFIGURED, CONFIGURING, ConfigState, LocalNode, PostNode, PutConfigState, RandomToken, UnregisterQuery,
};
use evenkeel_wire::agreement::reason;
use evenkeel_wire::exchange::node::PatchNode;
use evenkeel_wire::exchange::node_part::PutNodeStatus;
use rand::{Rng, distr::Alphanumeric};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::{sync::oneshot, time::Instant};

use super::{Api, Refusal};
use crate::{
    clock,
    hub::Hub,
    journal::{Journal, Registration},
    order::{Ended, Order},
    step::Event,
};

/// Wait for services to end after the node's data at the hub was deleted, if the timeout for unregistering has passed.
const LAST_STOPS: Duration = Duration::from_secs(2);
/// Interval at which the end of services is checked.
const LEAVE_POLL: Duration = Duration::from_millis(100);

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/node", get(show).post(register).delete(unregister))
        .route("/node/configstate", get(show_state).put(configure))
        .route(
            "/node/policy",
            get(show_policy).put(set_policy).post(set_policy).patch(patch_policy).delete(drop_policy),
        )
        .route(
            "/node/userinput",
            get(show_input).put(set_input).post(set_input).patch(patch_input).delete(drop_input),
        )
        .route("/token/random", get(random_token))
}

fn config_state(journal: &Journal) -> ConfigState {
    journal.registration.as_ref().map_or_else(ConfigState::default, |registration| {
        let state = if registration.is_configured { CONFIGURED } else { CONFIGURING };
        ConfigState { state: state.to_owned(), last_update_time: registration.changed_at }
    })
}

fn node(journal: &Journal) -> LocalNode {
    let Some(registration) = journal.registration.clone() else { return LocalNode::default() };
    let facts = &journal.state.facts;
    let pattern = if facts.pattern.is_empty() { registration.pattern } else { facts.pattern.clone() };
    LocalNode {
        id: registration.id,
        organization: Some(registration.org),
        pattern: Some(pattern),
        name: Some(registration.name),
        node_type: Some("device".to_owned()),
        cluster_namespace: Some(String::new()),
        is_namespace_scoped: Some(false),
        token_last_valid_time: Some(registration.changed_at),
        token_valid: Some(true),
        ha_group: Some(facts.ha_group.clone().unwrap_or_default()),
        configstate: config_state(journal),
    }
}

async fn show(State(api): State<Api>) -> Result<Json<LocalNode>, Refusal> {
    Ok(Json(node(&api.journal().await?)))
}

/// Letters, digits and the characters that the contract allows; a slash only between organization and name of a pattern.
fn check_name(text: &str, field: &'static str) -> Result<(), Refusal> {
    let is_allowed = |character: char| character.is_alphanumeric() || "-*+()?&!_.@,:/\\ ".contains(character);
    if text.chars().all(is_allowed) && text.len() <= 256 {
        return Ok(());
    }
    Err(Refusal::Input(format!("\"{text}\" holds characters that are not allowed"), field))
}

async fn register(
    State(api): State<Api>,
    body: Result<Json<PostNode>, JsonRejection>,
) -> Result<(StatusCode, Json<LocalNode>), Refusal> {
    let Json(wanted) = body.map_err(|error| Refusal::Input(error.body_text(), "device"))?;
    if api.handle.with(|journal| journal.registration.is_some()).await? {
        return Err(Refusal::Conflict("the node is registered already".to_owned()));
    }
    let required = |value: Option<String>, field: &'static str| match value.filter(|text| !text.is_empty()) {
        Some(text) => check_name(&text, field).map(|()| text),
        None => Err(Refusal::Input(format!("{field} is missing"), field)),
    };
    let org = required(wanted.organization, "device.organization")?;
    let id = required(wanted.id, "device.id")?;
    let token = wanted.token.filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| Refusal::Input("the token is missing".to_owned(), "device.token"))?;
    let pattern = wanted.pattern.unwrap_or_default();
    check_name(&pattern, "device.pattern")?;
    let pattern = qualified(&org, pattern);
    if wanted
        .node_type
        .as_deref()
        .is_some_and(|kind| !kind.is_empty() && !kind.eq_ignore_ascii_case("device"))
    {
        return Err(Refusal::Input("this agent runs on devices only".to_owned(), "device.nodeType"));
    }
    check_at_hub(&api, &org, &id, &token, &pattern).await?;
    let registration = Registration {
        name: wanted.name.filter(|name| !name.is_empty()).unwrap_or_else(|| id.clone()),
        org,
        id,
        pattern,
        is_configured: false,
        changed_at: clock::now_secs(),
        was_known: true,
    };
    order(&api, |done| Order::Register(registration, token, done)).await?;
    Ok((StatusCode::CREATED, Json(node(&api.journal().await?))))
}

/// Returns a pattern with its organization, by default that of the node.
fn qualified(org: &str, pattern: String) -> String {
    if pattern.is_empty() || pattern.contains('/') { pattern } else { format!("{org}/{pattern}") }
}

/// Sends an order and waits until it is carried out.
async fn order(api: &Api, make: impl FnOnce(oneshot::Sender<()>) -> Order) -> Result<(), Refusal> {
    let (done, wait) = oneshot::channel();
    api.handle.order(make(done)).await?;
    wait.await.map_err(|_| Ended.into())
}

async fn check_at_hub(api: &Api, org: &str, id: &str, token: &str, pattern: &str) -> Result<(), Refusal> {
    let unusable = |error: String| Refusal::Unavailable(error);
    let transport = api.settings.hub_transport().map_err(|error| unusable(error.to_string()))?;
    let client = Client::new(transport, "/v1", Credentials::new(org, id, token))
        .map_err(|error| unusable(error.to_string()))?;
    let node = match client.node(&NodeId::new(org, id)).await {
        Ok(Some(node)) => node,
        Ok(None) => return Err(Refusal::Input("the node does not exist on the hub".to_owned(), "device.id")),
        Err(error) if error.is_unauthorized() => {
            return Err(Refusal::Input("the hub refuses the node's id or token".to_owned(), "device.token"));
        }
        Err(error) => return Err(unusable(error.to_string())),
    };
    if !pattern.is_empty() && !node.pattern.is_empty() && node.pattern != pattern {
        let text = format!("the hub has pattern {} for the node", node.pattern);
        return Err(Refusal::Input(text, "device.pattern"));
    }
    let Some((pattern_org, name)) = pattern.split_once('/') else { return Ok(()) };
    match client.pattern(pattern_org, name).await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => {
            let text = format!("pattern {pattern} does not exist, or the node may not read it");
            Err(Refusal::Input(text, "device.pattern"))
        }
        Err(error) => Err(unusable(error.to_string())),
    }
}

async fn show_state(State(api): State<Api>) -> Result<Json<ConfigState>, Refusal> {
    Ok(Json(config_state(&api.journal().await?)))
}

async fn configure(
    State(api): State<Api>,
    body: Result<Json<PutConfigState>, JsonRejection>,
) -> Result<(StatusCode, Json<ConfigState>), Refusal> {
    let Json(wanted) = body.map_err(|error| Refusal::Input(error.body_text(), "configstate"))?;
    if !matches!(wanted.state.as_str(), CONFIGURED | CONFIGURING) {
        return Err(Refusal::Input(format!("\"{}\" is not a state", wanted.state), "configstate.state"));
    }
    let journal = api.journal().await?;
    let Some(registration) = &journal.registration else { return Err(Refusal::NotRegistered) };
    if wanted.state == CONFIGURED && !registration.is_configured {
        order(&api, Order::Configure).await?;
    }
    Ok((StatusCode::CREATED, Json(config_state(&api.journal().await?))))
}

async fn unregister(
    State(api): State<Api>,
    Query(query): Query<UnregisterQuery>,
) -> Result<StatusCode, Refusal> {
    if api.handle.with(|journal| journal.registration.is_none()).await? {
        return Err(Refusal::NotRegistered);
    }
    let removes_node = query.remove_node.as_deref() == Some("true");
    if query.block.as_deref() == Some("false") {
        tokio::spawn(async move {
            if let Err(refusal) = leave(&api, removes_node).await {
                tracing::warn!(?refusal, "the node could not be unregistered cleanly");
            }
        });
        return Ok(StatusCode::NO_CONTENT);
    }
    leave(&api, removes_node).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends every agreement, deletes the node's data at the hub if it responds, and removes the registration.
async fn leave(api: &Api, removes_node: bool) -> Result<(), Refusal> {
    api.handle.apply(Event::CancelRequested { agreement: None, reason: reason::NODE_UNREGISTERED }).await?;
    let deadline = Instant::now() + api.settings.unregister_timeout;
    while !api.handle.with(|journal| journal.state.is_idle() && journal.state.outbox.is_empty()).await? {
        if Instant::now() >= deadline {
            break;
        }
        tokio::time::sleep(LEAVE_POLL).await;
    }
    let hub = api.hub().await;
    // A running worker would repair the record that is being deleted.
    order(api, Order::Hush).await?;
    let is_stopped = api.handle.with(|journal| journal.state.unstopped_keys().next().is_none()).await?;
    let is_known = hub.is_ok();
    let cleaned = match hub {
        Ok(hub) if removes_node => remove_node(&hub, is_stopped).await,
        Ok(hub) => clean_hub(&hub, is_stopped).await,
        Err(_) => Ok(()),
    };
    // The hub waits for the report that the rest has stopped, too.
    let departs = is_known && removes_node && !is_stopped && cleaned.is_ok();
    api.handle.apply(Event::Deleted).await?;
    // Services that could not be stopped in time are stopped later; the node is unregistered nevertheless.
    let deadline = deadline.max(Instant::now() + LAST_STOPS);
    while !api.handle.with(|journal| journal.state.is_stopped()).await? && Instant::now() < deadline {
        tokio::time::sleep(LEAVE_POLL).await;
    }
    let running = api.handle.with(|journal| journal.state.unstopped_keys().count()).await?;
    order(api, |done| Order::Forget(departs, done)).await?;
    cleaned.map_err(|error| {
        Refusal::Unavailable(format!("unregistered, but the hub was not cleaned: {error}"))
    })?;
    if running > 0 {
        tracing::warn!(services = running, "unregistered while services could not be stopped");
        return Err(Refusal::Unavailable(format!(
            "unregistered, but {running} services could not be stopped; the agent stops them as soon as their driver responds, and reports that to the hub"
        )));
    }
    Ok(())
}

async fn remove_node(hub: &Hub, is_stopped: bool) -> Result<(), ClientError> {
    match is_stopped {
        true => hub.exchange.delete_node(&hub.node).await,
        false => hub.exchange.delete_unstopped_node(&hub.node).await,
    }
    .map(drop)
}

async fn clean_hub(hub: &Hub, is_stopped: bool) -> Result<(), ClientError> {
    let node = &hub.node;
    for status in hub.exchange.list_management_statuses(node).await?.into_keys() {
        hub.exchange.delete_management_status(node, status.name()).await?;
    }
    hub.exchange.delete_node_errors(node).await?;
    for change in [
        PatchNode { registered_services: Some(Vec::new()), ..PatchNode::default() },
        PatchNode { software_versions: Some(Map::new()), ..PatchNode::default() },
        PatchNode { public_key: Some(String::new()), ..PatchNode::default() },
    ] {
        hub.exchange.patch_node(node, &change).await?;
    }
    // The status that was reported last lists what could not be stopped.
    if is_stopped {
        hub.exchange.put_node_status(node, &PutNodeStatus::default()).await?;
    }
    Ok(())
}

fn unavailable(error: ClientError) -> Refusal {
    match error.status() {
        Some(400) => Refusal::Input(error.to_string(), "policy"),
        _ => Refusal::Unavailable(error.to_string()),
    }
}

async fn show_policy(State(api): State<Api>) -> Result<Json<RawJson>, Refusal> {
    match api.hub().await {
        Ok(hub) => {
            let policy = hub.exchange.node_policy(&hub.node).await.map_err(unavailable)?;
            Ok(Json(policy.unwrap_or_else(|| json!({}).into())))
        }
        Err(_) => Ok(Json(json!({"properties": api.machine.properties()}).into())),
    }
}

/// A document as it was written.
type Created = (StatusCode, Json<RawJson>);

fn created(document: RawJson) -> Created {
    (StatusCode::CREATED, Json(document))
}

async fn set_policy(
    State(api): State<Api>,
    body: Result<Json<RawJson>, JsonRejection>,
) -> Result<Created, Refusal> {
    let Json(policy) = body.map_err(|error| Refusal::Input(error.body_text(), "policy"))?;
    write_policy(&api, policy).await
}

async fn patch_policy(
    State(api): State<Api>,
    body: Result<Json<RawJson>, JsonRejection>,
) -> Result<Created, Refusal> {
    let Json(patch) = body.map_err(|error| Refusal::Input(error.body_text(), "policy"))?;
    let hub = api.hub().await?;
    let stored = hub.exchange.node_policy(&hub.node).await.map_err(unavailable)?;
    let mut policy = stored.map_or_else(|| json!({}), RawJson::into_value);
    let parts = ["properties", "constraints", "deployment", "management"];
    let patch = patch.as_value();
    let given: Vec<_> = parts.iter().filter(|part| patch.get(**part).is_some()).collect();
    let [part] = given.as_slice() else {
        return Err(Refusal::Input("exactly one part of the policy must be given".to_owned(), "policy"));
    };
    policy[**part] = patch[**part].clone();
    write_policy(&api, policy.into()).await
}

/// Written to the exchange first; the agent then sees the change there like any other.
async fn write_policy(api: &Api, policy: RawJson) -> Result<Created, Refusal> {
    let mut parsed: NodePolicy =
        policy.read().map_err(|error| Refusal::Input(error.to_string(), "policy"))?;
    parsed.validate_and_normalize().map_err(|error| Refusal::Input(error.to_string(), "policy"))?;
    let mut properties = parsed.common.properties.clone();
    crate::step::merge_builtin(&mut properties, &api.machine.properties());
    let mut policy = policy.into_value();
    if let Some(members) = policy.as_object_mut() {
        members.insert("properties".to_owned(), json!(properties));
        members.insert("nodePolicyVersion".to_owned(), json!("v2"));
        members.remove("lastUpdated");
    }
    let hub = api.hub().await?;
    hub.exchange.put_node_policy(&hub.node, &policy).await.map_err(unavailable)?;
    Ok(created(policy.into()))
}

async fn drop_policy(State(api): State<Api>) -> Result<StatusCode, Refusal> {
    let hub = api.hub().await?;
    hub.exchange.delete_node_policy(&hub.node).await.map_err(unavailable)?;
    Ok(StatusCode::NO_CONTENT)
}

fn no_input() -> RawJson {
    json!([]).into()
}

async fn show_input(State(api): State<Api>) -> Result<Json<RawJson>, Refusal> {
    let Ok(hub) = api.hub().await else { return Ok(Json(no_input())) };
    let node = hub.exchange.node(&hub.node).await.map_err(unavailable)?;
    Ok(Json(json!(node.unwrap_or_default().user_input).into()))
}

async fn set_input(
    State(api): State<Api>,
    body: Result<Json<RawJson>, JsonRejection>,
) -> Result<Created, Refusal> {
    let Json(input) = body.map_err(|error| Refusal::Input(error.body_text(), "userinput"))?;
    if !input.as_value().is_array() {
        return Err(Refusal::Input("user input is a list".to_owned(), "userinput"));
    }
    write_input(&api, &input).await?;
    Ok(created(input))
}

/// Merges values into the stored ones.
async fn patch_input(
    State(api): State<Api>,
    body: Result<Json<Vec<Value>>, JsonRejection>,
) -> Result<Created, Refusal> {
    let Json(change) = body.map_err(|error| Refusal::Input(error.body_text(), "userinput"))?;
    let hub = api.hub().await?;
    let node = hub.exchange.node(&hub.node).await.map_err(unavailable)?.unwrap_or_default();
    let Value::Array(stored) = json!(node.user_input) else {
        return Err(Refusal::Unavailable("the stored user input is not a list".to_owned()));
    };
    let input = Value::Array(super::user_input::merged(stored, change)).into();
    write_input(&api, &input).await?;
    Ok(created(input))
}

async fn drop_input(State(api): State<Api>) -> Result<StatusCode, Refusal> {
    write_input(&api, &no_input()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Replaces the node's user input exactly as it was sent; members that this version does not know are kept.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PatchUserInput<'a> {
    user_input: &'a RawJson,
}

async fn write_input(api: &Api, input: &RawJson) -> Result<(), Refusal> {
    // Before the registration is complete there is no session; an empty list changes nothing then.
    let hub = match api.hub().await {
        Err(Refusal::NotRegistered) if *input == no_input() => return Ok(()),
        other => other?,
    };
    let change = PatchUserInput { user_input: input };
    hub.exchange.patch_node(&hub.node, &change).await.map_err(unavailable)?;
    api.handle
        .apply(Event::CancelRequested { agreement: None, reason: reason::NODE_USER_INPUT_CHANGED })
        .await?;
    Ok(())
}

async fn random_token() -> Json<RandomToken> {
    let token = rand::rng().sample_iter(Alphanumeric).take(64).map(char::from).collect();
    Json(RandomToken { token })
}
