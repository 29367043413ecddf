//! `/node`: registration, policy, user input.

use std::time::Duration;

use axum::{
    Json, Router,
    extract::{Query, State, rejection::JsonRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use evenkeel_client::{Client, ClientError, Credentials};
use evenkeel_wire::RawJson;
use evenkeel_wire::agreement::reason;
use evenkeel_wire::exchange::node::PatchNode;
use evenkeel_wire::exchange::node_part::PutNodeStatus;
use rand::{Rng, distr::Alphanumeric};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{sync::oneshot, time::Instant};

use super::{Api, Refusal};
use crate::{
    clock,
    journal::{Journal, Registration},
    order::{Ended, Order},
    step::Event,
};

/// Wait for services to end after the node's data at the hub was deleted, when the time to unregister is over.
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

fn config_state(journal: &Journal) -> Value {
    match &journal.registration {
        None => json!({"state": "unconfigured", "last_update_time": 0}),
        Some(registration) => {
            let word = if registration.is_configured { "configured" } else { "configuring" };
            json!({"state": word, "last_update_time": registration.changed_at})
        }
    }
}

fn device(journal: &Journal) -> Value {
    let Some(registration) = &journal.registration else {
        return json!({"id": "", "organization": null, "pattern": null, "clusterNamespace": null,
                      "configstate": config_state(journal)});
    };
    let facts = &journal.state.facts;
    let pattern = if facts.pattern.is_empty() { &registration.pattern } else { &facts.pattern };
    json!({
        "id": registration.id,
        "organization": registration.org,
        "pattern": pattern,
        "name": registration.name,
        "nodeType": "device",
        "clusterNamespace": "",
        "NamespaceScoped": false,
        "token_last_valid_time": registration.changed_at,
        "token_valid": true,
        "ha_group": facts.ha_group.clone().unwrap_or_default(),
        "configstate": config_state(journal),
    })
}

async fn show(State(api): State<Api>) -> Result<Json<Value>, Refusal> {
    Ok(Json(device(&api.journal().await?)))
}

#[derive(Deserialize)]
struct Device {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    organization: Option<String>,
    #[serde(default)]
    pattern: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default, rename = "nodeType")]
    node_type: Option<String>,
}

/// Letters, digits and the characters that the contract allows; slashes only where a pattern names its organization.
fn check_name(text: &str, field: &'static str) -> Result<(), Refusal> {
    let is_allowed = |character: char| character.is_alphanumeric() || "-*+()?&!_.@,:/\\ ".contains(character);
    if text.chars().all(is_allowed) && text.len() <= 256 {
        return Ok(());
    }
    Err(Refusal::Input(format!("\"{text}\" holds characters that are not allowed"), field))
}

async fn register(
    State(api): State<Api>,
    body: Result<Json<Device>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(device_body) = body.map_err(|error| Refusal::Input(error.body_text(), "device"))?;
    if api.handle.with(|journal| journal.registration.is_some()).await? {
        return Err(Refusal::Conflict("the node is registered already".to_owned()));
    }
    let required = |value: Option<String>, field: &'static str| match value.filter(|text| !text.is_empty()) {
        Some(text) => check_name(&text, field).map(|()| text),
        None => Err(Refusal::Input(format!("{field} is missing"), field)),
    };
    let org = required(device_body.organization, "device.organization")?;
    let id = required(device_body.id, "device.id")?;
    let token = device_body.token.filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| Refusal::Input("the token is missing".to_owned(), "device.token"))?;
    let pattern = device_body.pattern.unwrap_or_default();
    check_name(&pattern, "device.pattern")?;
    let pattern = qualified(&org, pattern);
    if device_body.node_type.as_deref().is_some_and(|kind| !matches!(kind, "" | "device")) {
        return Err(Refusal::Input("this agent runs on devices only".to_owned(), "device.nodeType"));
    }
    check_at_hub(&api, &org, &id, &token, &pattern).await?;
    let registration = Registration {
        name: device_body.name.filter(|name| !name.is_empty()).unwrap_or_else(|| id.clone()),
        org,
        id,
        pattern,
        is_configured: false,
        changed_at: clock::now_secs(),
        was_known: true,
    };
    order(&api, |done| Order::Register(registration, token, done)).await?;
    Ok((StatusCode::CREATED, Json(device(&api.journal().await?))).into_response())
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
    let node = match client.node(org, id).await {
        Ok(Some(node)) => node,
        Ok(None) => return Err(Refusal::Input("the hub does not know the node".to_owned(), "device.id")),
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

#[derive(Deserialize)]
struct ConfigState {
    state: String,
}

async fn show_state(State(api): State<Api>) -> Result<Json<Value>, Refusal> {
    Ok(Json(config_state(&api.journal().await?)))
}

async fn configure(
    State(api): State<Api>,
    body: Result<Json<ConfigState>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(wanted) = body.map_err(|error| Refusal::Input(error.body_text(), "configstate"))?;
    if !matches!(wanted.state.as_str(), "configured" | "configuring") {
        return Err(Refusal::Input(format!("\"{}\" is no state", wanted.state), "configstate.state"));
    }
    let journal = api.journal().await?;
    let Some(registration) = &journal.registration else { return Err(Refusal::NotRegistered) };
    if wanted.state == "configured" && !registration.is_configured {
        order(&api, Order::Configure).await?;
    }
    Ok((StatusCode::CREATED, Json(config_state(&api.journal().await?))).into_response())
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Farewell {
    block: Option<String>,
    remove_node: Option<String>,
}

fn is_yes(value: &Option<String>) -> bool {
    value.as_deref() == Some("true")
}

async fn unregister(State(api): State<Api>, Query(farewell): Query<Farewell>) -> Result<Response, Refusal> {
    if api.handle.with(|journal| journal.registration.is_none()).await? {
        return Err(Refusal::NotRegistered);
    }
    let removes_node = is_yes(&farewell.remove_node);
    if farewell.block.as_deref() == Some("false") {
        tokio::spawn(async move {
            if let Err(refusal) = leave(&api, removes_node).await {
                tracing::warn!(?refusal, "the node could not be unregistered cleanly");
            }
        });
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    leave(&api, removes_node).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
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
    let cleaned = match hub {
        Ok(hub) => clean_hub(&hub, removes_node).await,
        Err(_) => Ok(()),
    };
    api.handle.apply(Event::Deleted).await?;
    // Services that could not be stopped in time are stopped later: they must not keep the node registered.
    let deadline = deadline.max(Instant::now() + LAST_STOPS);
    while !api.handle.with(|journal| journal.state.is_stopped()).await? && Instant::now() < deadline {
        tokio::time::sleep(LEAVE_POLL).await;
    }
    let running = api.handle.with(|journal| journal.state.unstopped_keys().count()).await?;
    order(api, Order::Forget).await?;
    cleaned.map_err(|error| {
        Refusal::Unavailable(format!("unregistered, but the hub was not cleaned: {error}"))
    })?;
    if running > 0 {
        tracing::warn!(services = running, "unregistered while services could not be stopped");
        return Err(Refusal::Unavailable(format!(
            "unregistered, but {running} services could not be stopped; the agent stops them as soon as their driver responds"
        )));
    }
    Ok(())
}

async fn clean_hub(hub: &crate::hub::Hub, removes_node: bool) -> Result<(), ClientError> {
    let (org, id) = (&hub.org, &hub.id);
    if removes_node {
        hub.exchange.delete_node(org, id).await?;
        return Ok(());
    }
    for status in hub.exchange.list_management_statuses(org, id).await?.into_keys() {
        let name = status.split_once('/').map_or(status.as_str(), |(_, name)| name);
        hub.exchange.delete_management_status(org, id, name).await?;
    }
    hub.exchange.delete_node_errors(org, id).await?;
    for change in [
        PatchNode { registered_services: Some(Vec::new()), ..PatchNode::default() },
        PatchNode { software_versions: Some(Map::new()), ..PatchNode::default() },
        PatchNode { public_key: Some(String::new()), ..PatchNode::default() },
    ] {
        hub.exchange.patch_node(org, id, &change).await?;
    }
    hub.exchange.put_node_status(org, id, &PutNodeStatus::default()).await?;
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
            let policy = hub.exchange.node_policy(&hub.org, &hub.id).await.map_err(unavailable)?;
            Ok(Json(policy.unwrap_or_else(|| json!({}).into())))
        }
        Err(_) => Ok(Json(json!({"properties": api.machine.properties()}).into())),
    }
}

async fn set_policy(
    State(api): State<Api>,
    body: Result<Json<Value>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(policy) = body.map_err(|error| Refusal::Input(error.body_text(), "policy"))?;
    write_policy(&api, policy).await
}

async fn patch_policy(
    State(api): State<Api>,
    body: Result<Json<Value>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(patch) = body.map_err(|error| Refusal::Input(error.body_text(), "policy"))?;
    let hub = api.hub().await?;
    let stored = hub.exchange.node_policy(&hub.org, &hub.id).await.map_err(unavailable)?;
    let mut policy = stored.map_or_else(|| json!({}), RawJson::into_value);
    let parts = ["properties", "constraints", "deployment", "management"];
    let given: Vec<_> = parts.iter().filter(|part| patch.get(**part).is_some()).collect();
    let [part] = given.as_slice() else {
        return Err(Refusal::Input("exactly one part of the policy must be given".to_owned(), "policy"));
    };
    policy[**part] = patch[**part].clone();
    write_policy(&api, policy).await
}

/// Written to the exchange first; the agent then sees the change there like any other.
async fn write_policy(api: &Api, mut policy: Value) -> Result<Response, Refusal> {
    let mut parsed: evenkeel_domain::policy::NodePolicy = serde_json::from_value(policy.clone())
        .map_err(|error| Refusal::Input(error.to_string(), "policy"))?;
    parsed.validate_and_normalize().map_err(|error| Refusal::Input(error.to_string(), "policy"))?;
    let mut properties = parsed.common.properties.clone();
    crate::step::merge_builtin(&mut properties, &api.machine.properties());
    if let Some(members) = policy.as_object_mut() {
        members.insert("properties".to_owned(), json!(properties));
        members.insert("nodePolicyVersion".to_owned(), json!("v2"));
        members.remove("lastUpdated");
    }
    let hub = api.hub().await?;
    hub.exchange.put_node_policy(&hub.org, &hub.id, &policy).await.map_err(unavailable)?;
    Ok((StatusCode::CREATED, Json(policy)).into_response())
}

async fn drop_policy(State(api): State<Api>) -> Result<Response, Refusal> {
    let hub = api.hub().await?;
    hub.exchange.delete_node_policy(&hub.org, &hub.id).await.map_err(unavailable)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn show_input(State(api): State<Api>) -> Result<Json<Value>, Refusal> {
    let Ok(hub) = api.hub().await else { return Ok(Json(json!([]))) };
    let node = hub.exchange.node(&hub.org, &hub.id).await.map_err(unavailable)?;
    Ok(Json(json!(node.unwrap_or_default().user_input)))
}

async fn set_input(
    State(api): State<Api>,
    body: Result<Json<Value>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(input) = body.map_err(|error| Refusal::Input(error.body_text(), "userinput"))?;
    if !input.is_array() {
        return Err(Refusal::Input("user input is a list".to_owned(), "userinput"));
    }
    write_input(&api, input.clone()).await?;
    Ok((StatusCode::CREATED, Json(input)).into_response())
}

/// Merges values into the stored ones.
async fn patch_input(
    State(api): State<Api>,
    body: Result<Json<Vec<Value>>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(change) = body.map_err(|error| Refusal::Input(error.body_text(), "userinput"))?;
    let hub = api.hub().await?;
    let node = hub.exchange.node(&hub.org, &hub.id).await.map_err(unavailable)?.unwrap_or_default();
    let Value::Array(stored) = json!(node.user_input) else {
        return Err(Refusal::Unavailable("the stored user input is not a list".to_owned()));
    };
    let input = Value::Array(super::user_input::merged(stored, change));
    write_input(&api, input.clone()).await?;
    Ok((StatusCode::CREATED, Json(input)).into_response())
}

async fn drop_input(State(api): State<Api>) -> Result<Response, Refusal> {
    write_input(&api, json!([])).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn write_input(api: &Api, input: Value) -> Result<(), Refusal> {
    // Before the registration is complete there is no session; an empty list changes nothing then.
    let hub = match api.hub().await {
        Err(Refusal::NotRegistered) if input == json!([]) => return Ok(()),
        other => other?,
    };
    hub.exchange.patch_node(&hub.org, &hub.id, &json!({"userInput": input})).await.map_err(unavailable)?;
    api.handle
        .apply(Event::CancelRequested { agreement: None, reason: reason::NODE_USER_INPUT_CHANGED })
        .await?;
    Ok(())
}

async fn random_token() -> Json<Value> {
    let token: String = rand::rng().sample_iter(Alphanumeric).take(64).map(char::from).collect();
    Json(json!({"token": token}))
}
