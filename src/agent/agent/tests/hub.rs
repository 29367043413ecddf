//! A small exchange and agbot for tests of whole agents.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path, Query, RawQuery, Request, State},
    http::{HeaderMap, StatusCode},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{delete, get, post, put},
};
use base64::Engine;
use evenkeel_client::Transport;
use evenkeel_wire::{
    agreement::{
        envelope,
        keys::{PrivateKey, PublicKey},
        message::{Body, Message},
    },
    signature,
};
use serde_json::{Value, json};
use tokio::{sync::Notify, time::timeout};

pub const ORG: &str = "acme";
pub const NODE: &str = "edge-1";
pub const AGBOT: &str = "IBM/bot";

/// Keys take long to generate: these serve all tests.
static KEYS: LazyLock<[PrivateKey; 3]> =
    LazyLock::new(|| [(); 3].map(|()| PrivateKey::generate(&mut rand::rng(), 2048).unwrap()));

fn agbot_key() -> &'static PrivateKey {
    &KEYS[0]
}

fn publisher_key() -> &'static PrivateKey {
    &KEYS[1]
}

fn unknown_key() -> &'static PrivateKey {
    &KEYS[2]
}

/// The state of the exchange.
#[derive(Default)]
pub struct HubState {
    pub exists: bool,
    pub node: Value,
    pub policy: Value,
    pub status: Value,
    pub agreements: BTreeMap<String, Value>,
    pub mailbox: BTreeMap<i64, Value>,
    pub replies: Vec<String>,
    pub changes: Vec<Value>,
    pub management_policies: Value,
    pub management_statuses: BTreeMap<String, Value>,
    pub reported_phases: Vec<String>,
    pub file_versions: Value,
    pub grants: bool,
    pub request_count: u32,
    /// The parameters with which the agent removed its node.
    pub removal: Option<String>,
    /// Number of searches for services that get a 503 response.
    pub failing_lookups: u32,
    pub refuses_failures: bool,
    pub pattern: Value,
    pub services: Value,
    /// The agbots that may make agreements with the node; none in a third-party exchange, which has no such list.
    pub named_agbots: Option<Vec<String>>,
    /// Deployment and signature of the last proposal, which the publisher of the service signed.
    published: (String, String),
    last_key: String,
    next_message: i64,
}

/// The exchange.
pub struct TestHub {
    state: Mutex<HubState>,
    changed: Notify,
    replied: Notify,
    is_away: AtomicBool,
    is_departure_confirmed: AtomicBool,
}

type Hub = State<Arc<TestHub>>;

impl TestHub {
    pub fn new() -> Arc<Self> {
        let hub = Arc::new(Self {
            state: Mutex::default(),
            changed: Notify::new(),
            replied: Notify::new(),
            is_away: AtomicBool::new(false),
            is_departure_confirmed: AtomicBool::new(false),
        });
        hub.create_node();
        hub
    }

    pub fn state(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap()
    }

    pub fn create_node(&self) {
        let mut state = self.state();
        state.exists = true;
        state.node = json!({"name": NODE, "publicKey": "", "arch": "", "softwareVersions": {}, "userInput": [],
                            "registeredServices": [], "ha_group": null, "pattern": ""});
        state.policy = json!({"properties": [{"name": "site", "value": "north"}], "constraints": []});
    }

    pub fn delete_node(&self) {
        *self.state() = HubState::default();
        self.changed.notify_waiters();
    }

    /// Returns true if the agent has confirmed that everything has stopped on the deleted node.
    pub fn is_departure_confirmed(&self) -> bool {
        self.is_departure_confirmed.load(Ordering::SeqCst)
    }

    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    pub fn change(&self, resource: &str) {
        let mut state = self.state();
        let number = state.changes.len() + 1;
        state.changes.push(json!({"orgId": ORG, "resource": resource, "id": NODE, "operation": "created",
                                  "resourceChanges": [{"changeId": number, "lastUpdated": ""}]}));
        drop(state);
        self.changed.notify_waiters();
    }

    fn node_key(&self) -> PublicKey {
        PublicKey::from_base64(&self.state().last_key).unwrap()
    }

    /// Returns the key that is stored beside the service.
    pub fn publisher_key() -> String {
        publisher_key().public_key().unwrap().to_pem()
    }

    pub fn seal(&self, message: &Message) -> String {
        seal(message, agbot_key(), &self.node_key())
    }

    pub fn seal_for_other_receiver(message: &Message) -> String {
        seal(message, agbot_key(), &unknown_key().public_key().unwrap())
    }

    pub fn seal_as_unknown_sender(&self, message: &Message) -> String {
        seal(message, unknown_key(), &self.node_key())
    }

    /// Inserts a text into the node's mailbox.
    pub fn post(&self, text: &str, from: &str) {
        let mut state = self.state();
        state.next_message += 1;
        let id = state.next_message;
        let key = agbot_key().public_key().unwrap().to_base64();
        state.mailbox.insert(id, json!({"msgId": id, "agbotId": from, "agbotPubKey": key, "message": text}));
        drop(state);
        self.change("nodemsgs");
    }

    pub fn send(&self, message: &Message) {
        self.post(&self.seal(message), AGBOT);
    }

    /// Proposes service `web`, which runs a shell script.
    pub fn propose(&self, id: &str, script: &str) {
        self.propose_container(id, &json!({"command": ["/bin/sh", "-c", script]}));
    }

    /// Proposes service `web` with one container.
    pub fn propose_container(&self, id: &str, container: &Value) {
        let deployment = json!({"services": {"web": container}}).to_string();
        let signature = signature::sign(&deployment, publisher_key(), &mut rand::rng()).unwrap();
        self.state().published = (deployment.clone(), signature.clone());
        let name = format!("Policy for {ORG}/{NODE}");
        let terms = json!({
            "header": {"name": format!("{name} merged with acme/{id}"), "version": "2.0"},
            "agreementProtocols": [{"name": "Basic", "protocolVersion": 1}],
            "workloads": [{"deployment": deployment, "deployment_signature": signature, "workloadUrl": "web",
                           "organization": "acme", "version": "1.0.0", "arch": "amd64"}],
            "constraints": ["site == north"],
        });
        let producer = json!({"header": {"name": name, "version": "2.0"}, "properties": [{"name": "site", "value": "north"}]});
        for _ in 0..1000 {
            if !self.state().node["publicKey"].as_str().unwrap_or_default().is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let body = Body::Proposal {
            terms: terms.to_string(),
            producer_policy: producer.to_string(),
            consumer_id: AGBOT.to_owned(),
        };
        self.send(&Message::new(id, body));
    }

    /// Returns the next message of the node to the agbot.
    pub async fn next_message(&self) -> Message {
        self.message("anything").await
    }

    async fn message(&self, wanted: &str) -> Message {
        let arrived = async {
            loop {
                let arrival = self.replied.notified();
                if let Some(message) = self.unread_message() {
                    return message;
                }
                arrival.await;
            }
        };
        let waited = timeout(Duration::from_secs(60), arrived).await;
        waited.unwrap_or_else(|_| panic!("the node does not say {wanted}"))
    }

    fn unread_message(&self) -> Option<Message> {
        let text = {
            let mut state = self.state();
            (!state.replies.is_empty()).then(|| state.replies.remove(0))
        }?;
        let key = self.node_key();
        let plain = envelope::open(&text, agbot_key(), key.spki_der(), &mut rand::rng()).unwrap();
        Some(Message::parse(&String::from_utf8(plain).unwrap()).unwrap())
    }

    /// Waits for the node's message `body` about an agreement.
    ///
    /// A node requests verification whenever it waits for an agbot's message, on a loaded machine at any moment: such requests are
    /// skipped unless they are expected.
    pub async fn expect(&self, id: &str, body: Body) {
        loop {
            let message = self.message(&format!("{body:?} of {id}")).await;
            if message.body == body && message.agreement_id == id {
                return;
            }
            assert_eq!(message.body, Body::Verification, "instead of {body:?}");
        }
    }

    /// Returns whether all messages except verification requests have been read.
    pub fn no_message(&self) -> bool {
        std::iter::from_fn(|| self.unread_message()).all(|message| message.body == Body::Verification)
    }

    pub fn transport(self: &Arc<Self>) -> Transport {
        let node = "/v1/orgs/acme/nodes/edge-1";
        let router = Router::new()
            .route(node, get(get_node).patch(patch_node).delete(remove_node))
            .route(&format!("{node}/policy"), get(get_policy).put(put_policy))
            .route(&format!("{node}/status"), put(put_status))
            .route(&format!("{node}/errors"), put(accept).delete(nothing))
            .route(&format!("{node}/agreements"), get(list_agreements))
            .route(&format!("{node}/agreements/{{id}}"), put(put_agreement).delete(delete_agreement))
            .route(&format!("{node}/msgs"), get(list_messages))
            .route(&format!("{node}/msgs/{{id}}"), delete(delete_message))
            .route(&format!("{node}/agbots"), get(list_named_agbots))
            .route(&format!("{node}/managementStatus"), get(list_statuses))
            .route(&format!("{node}/managementStatus/{{id}}"), put(put_status_of).delete(delete_status_of))
            .route("/v1/orgs/acme", get(|| async { Json(json!({"orgs": {"acme": {}}})) }))
            .route("/v1/orgs/acme/managementpolicies", get(list_policies))
            .route("/v1/orgs/IBM/AgentFileVersion", get(file_versions))
            .route("/v1/orgs/acme/patterns/cams", get(get_pattern))
            .route("/v1/orgs/acme/services", get(list_services))
            .route("/v1/orgs/acme/services/web_1.0.0_amd64/keys", get(|| async { Json(json!(["k.pem"])) }))
            .route(
                "/v1/orgs/acme/services/web_1.0.0_amd64/keys/k.pem",
                get(|| async { publisher_key().public_key().unwrap().to_pem() }),
            )
            .route("/v1/orgs/IBM/agbots/bot", get(get_agbot))
            .route("/v1/orgs/IBM/agbots/bot/msgs", post(take_reply))
            .route("/v1/changes/maxchangeid", get(max_change))
            .route("/v1/orgs/acme/changes", post(changes))
            .route("/org/acme/hagroup/pair/nodemanagement/edge-1/fw", post(permission))
            .layer(middleware::from_fn_with_state(self.clone(), guard))
            .with_state(self.clone());
        Transport::router(router)
    }
}

fn seal(message: &Message, sender: &PrivateKey, receiver: &PublicKey) -> String {
    envelope::seal(message.to_json().as_bytes(), sender, receiver, &mut rand::rng()).unwrap()
}

async fn guard(State(hub): Hub, headers: HeaderMap, request: Request, next: Next) -> Response {
    if hub.is_away.load(Ordering::SeqCst) {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let right = base64::engine::general_purpose::STANDARD.encode("acme/edge-1:t0ken");
    let given = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if given == format!("Basic {right}")
        && request.uri().path() == "/v1/orgs/acme/orchestration/departures/edge-1"
    {
        hub.is_departure_confirmed.store(true, Ordering::SeqCst);
        return StatusCode::NO_CONTENT.into_response();
    }
    if given != format!("Basic {right}") || !hub.state().exists {
        return (StatusCode::UNAUTHORIZED, Json(json!({"code": "invalid-credentials"}))).into_response();
    }
    next.run(request).await
}

fn ok() -> Response {
    (StatusCode::CREATED, Json(json!({"code": "ok", "msg": ""}))).into_response()
}

async fn accept() -> Response {
    ok()
}

async fn remove_node(State(hub): Hub, RawQuery(query): RawQuery) -> StatusCode {
    hub.delete_node();
    hub.state().removal = Some(query.unwrap_or_default());
    StatusCode::NO_CONTENT
}

async fn nothing() -> StatusCode {
    StatusCode::NOT_FOUND
}

async fn get_node(State(hub): Hub) -> Json<Value> {
    Json(json!({"nodes": {"acme/edge-1": hub.state().node}}))
}

async fn patch_node(State(hub): Hub, Json(body): Json<Value>) -> Response {
    for (name, value) in body.as_object().unwrap() {
        hub.state().node[name] = value.clone();
        if let Some(key) = value.as_str().filter(|key| name == "publicKey" && !key.is_empty()) {
            hub.state().last_key = key.to_owned();
        }
    }
    hub.change("node");
    ok()
}

async fn get_policy(State(hub): Hub) -> Json<Value> {
    Json(hub.state().policy.clone())
}

async fn put_policy(State(hub): Hub, Json(body): Json<Value>) -> Response {
    hub.state().policy = body;
    hub.change("nodepolicies");
    ok()
}

async fn put_status(State(hub): Hub, Json(body): Json<Value>) -> Response {
    if hub.state().refuses_failures && body.get("failures").is_some() {
        return (StatusCode::BAD_REQUEST, Json(json!({"code": "invalid-input"}))).into_response();
    }
    hub.state().status = body;
    ok()
}

async fn list_agreements(State(hub): Hub) -> Json<Value> {
    Json(json!({"agreements": hub.state().agreements}))
}

async fn put_agreement(State(hub): Hub, Path(id): Path<String>, Json(body): Json<Value>) -> Response {
    hub.state().agreements.insert(id, body);
    ok()
}

async fn delete_agreement(State(hub): Hub, Path(id): Path<String>) -> StatusCode {
    match hub.state().agreements.remove(&id) {
        Some(_) => StatusCode::NO_CONTENT,
        None => StatusCode::NOT_FOUND,
    }
}

async fn list_messages(State(hub): Hub) -> Json<Value> {
    Json(json!({"messages": hub.state().mailbox.values().collect::<Vec<_>>()}))
}

async fn delete_message(State(hub): Hub, Path(id): Path<i64>) -> StatusCode {
    hub.state().mailbox.remove(&id);
    StatusCode::NO_CONTENT
}

async fn list_named_agbots(State(hub): Hub) -> Response {
    match &hub.state().named_agbots {
        Some(named) => Json(json!({"agbots": named})).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn list_statuses(State(hub): Hub) -> Json<Value> {
    Json(json!({"managementStatus": hub.state().management_statuses}))
}

async fn put_status_of(State(hub): Hub, Path(id): Path<String>, Json(body): Json<Value>) -> Response {
    let word = body["agentUpgradePolicyStatus"]["status"].as_str().unwrap().to_owned();
    hub.state().reported_phases.push(word);
    hub.state().management_statuses.insert(format!("acme/{id}"), body);
    hub.change("nodemgmtpolstatus");
    ok()
}

async fn delete_status_of(State(hub): Hub, Path(id): Path<String>) -> StatusCode {
    hub.state().management_statuses.remove(&format!("acme/{id}"));
    StatusCode::NO_CONTENT
}

async fn list_policies(State(hub): Hub) -> Json<Value> {
    let policies = hub.state().management_policies.clone();
    Json(json!({"managementPolicy": if policies.is_null() { json!({}) } else { policies }}))
}

async fn file_versions(State(hub): Hub) -> Json<Value> {
    let versions = hub.state().file_versions.clone();
    Json(if versions.is_null() { json!({}) } else { versions })
}

async fn get_pattern(State(hub): Hub) -> Json<Value> {
    Json(json!({"patterns": {"acme/cams": hub.state().pattern}}))
}

async fn list_services(State(hub): Hub, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let url = query.get("url").cloned().unwrap_or_default();
    let mut state = hub.state();
    if state.failing_lookups > 0 {
        state.failing_lookups -= 1;
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if let Some(services) = state.services.as_object() {
        let found = services.iter().filter(|(_, service)| service["url"] == url);
        let found: BTreeMap<_, _> = found.map(|(id, service)| (id.clone(), service.clone())).collect();
        return Json(json!({"services": found})).into_response();
    }
    let (deployment, signature) = &state.published;
    let service = json!({
        "url": "web", "version": "1.0.0", "arch": "amd64", "deployment": deployment, "deploymentSignature": signature,
    });
    Json(json!({"services": {"acme/web_1.0.0_amd64": service}})).into_response()
}

async fn get_agbot() -> Json<Value> {
    Json(json!({"agbots": {AGBOT: {"publicKey": agbot_key().public_key().unwrap().to_base64()}}}))
}

async fn take_reply(State(hub): Hub, Json(body): Json<Value>) -> Response {
    hub.state().replies.push(body["message"].as_str().unwrap().to_owned());
    hub.replied.notify_waiters();
    ok()
}

async fn max_change(State(hub): Hub) -> Json<Value> {
    Json(json!({"maxChangeId": hub.state().changes.len()}))
}

async fn changes(State(hub): Hub, Json(body): Json<Value>) -> Response {
    let from = usize::try_from(body["changeId"].as_i64().unwrap()).unwrap().max(1) - 1;
    let arrival = hub.changed.notified();
    if hub.state().changes.len() <= from {
        let _waited = timeout(Duration::from_millis(500), arrival).await;
    }
    let state = hub.state();
    let found = state.changes.get(from..).unwrap_or_default();
    let body = json!({"changes": found, "mostRecentChangeId": state.changes.len(), "hitMaxRecords": false});
    (StatusCode::CREATED, Json(body)).into_response()
}

async fn permission(State(hub): Hub) -> Response {
    let mut state = hub.state();
    state.request_count += 1;
    let (status, code) =
        if state.grants { (StatusCode::CREATED, "201") } else { (StatusCode::CONFLICT, "409") };
    (status, Json(json!({"code": code, "msg": ""}))).into_response()
}
