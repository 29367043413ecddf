//! Agbots in this process on one exchange and one database, so that tests can read their models.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_agbot::{Agbot, AgbotSettings, NewOrgs};
use evenkeel_agbot_api::AgbotApi;
use evenkeel_client::{Client, Credentials, Transport};
use evenkeel_ids::{NodeId, PolicyId};
use http::StatusCode;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;

use crate::exchange::api::{Api, ROOT};
use crate::support::wait::must;
use crate::support::{Scratch, TestDatabase, eventually};

const TOKEN: &str = "ek1.0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// An exchange with organization `o`, and agbots that serve it.
pub struct Agbots {
    /// The exchange.
    pub api: Api,
    /// The database of both.
    pub database: TestDatabase,
    /// The agbots.
    pub all: Vec<Agbot>,
    calls: Arc<AtomicUsize>,
    /// Organization whose lists the exchange does not show to agbots.
    unreadable: Arc<Mutex<Option<String>>>,
    shutdown: CancellationToken,
    _guard: DropGuard,
    scratch: Scratch,
}

impl Agbots {
    /// Starts so many agbots and waits until each partition has one that decides about it.
    pub async fn start(count: usize) -> Agbots {
        let (database, scratch, shutdown) =
            (TestDatabase::new().await, Scratch::new(), CancellationToken::new());
        let api = Api::start(&database).await;
        api.make_org("o").await;
        let agbot = json!({"token": TOKEN, "name": "bot", "publicKey": ""});
        api.expect(201, ROOT, "PUT", "/orgs/IBM/agbots/bot", agbot).await;
        let entry = json!({"businessPolOrgid": "o", "businessPol": "*", "nodeOrgid": "o"});
        api.expect(201, ROOT, "POST", "/orgs/IBM/agbots/bot/businesspols", entry).await;
        let calls = Arc::new(AtomicUsize::new(0));
        let mut agbots = Agbots {
            api,
            database,
            all: Vec::new(),
            calls,
            unreadable: Arc::default(),
            shutdown: shutdown.clone(),
            _guard: shutdown.clone().drop_guard(),
            scratch,
        };
        for _ in 0..count {
            let agbot = agbots.start_one(|settings| settings, shutdown.clone()).await;
            agbots.all.push(agbot);
        }
        agbots.hold_partitions().await;
        agbots
    }

    /// Starts one more agbot, which serves new organizations and reads the feed from a change on.
    pub async fn add_from(&mut self, first_change: i64) {
        let edit = |settings| AgbotSettings { new_orgs: NewOrgs::ServeFrom(first_change), ..settings };
        let agbot = self.start_one(edit, self.shutdown.clone()).await;
        self.all.push(agbot);
    }

    async fn start_one(
        &self,
        edit: impl FnOnce(AgbotSettings) -> AgbotSettings,
        shutdown: CancellationToken,
    ) -> Agbot {
        let router = failing(self.api.router(), self.unreadable.clone());
        let transport = Transport::router(counted(router, self.calls.clone()));
        let client = must(Client::new(transport, "/v1", Credentials::new("IBM", "bot", TOKEN)), "a client");
        let settings = AgbotSettings::new("IBM", "bot", self.scratch.join("key.pem"));
        must(Agbot::start(edit(settings), client, self.database.connect().await, shutdown), "an agbot")
    }

    /// Waits until each partition has exactly one agbot that decides about it, and each agbot has one.
    async fn hold_partitions(&self) {
        eventually("each partition is held by one agbot", || async {
            let held: Vec<usize> =
                self.all.iter().map(|agbot| agbot.context().model().lease_count()).collect();
            let wanted = self.all[0].context().settings.planner.partition_count as usize;
            (held.iter().sum::<usize>() == wanted && held.iter().all(|count| *count > 0)).then_some(())
        })
        .await;
    }

    /// Lets the exchange fail when an agbot reads the nodes or policies of this organization; of none with `None`.
    pub fn make_unreadable(&self, org: Option<&str>) {
        *self.unreadable.lock().unwrap_or_else(PoisonError::into_inner) = org.map(str::to_owned);
    }

    /// Number of requests of all agbots to which the exchange has responded.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Makes nodes `n0`, `n1`, … that can get services.
    pub async fn make_nodes(&self, count: usize) -> Vec<NodeId> {
        let key = self.all[0].context().keys.public.to_base64();
        let mut nodes = Vec::new();
        for name in (0..count).map(|number| format!("n{number}")) {
            let path = format!("/orgs/o/nodes/{name}");
            let node = json!({
                "token": format!("token-{name}"), "name": name, "pattern": "", "publicKey": key, "arch": "amd64",
            });
            self.api.expect(201, "o/u:pu", "PUT", &path, node).await;
            let policy = json!({"properties": [{"name": "site", "value": "north"}], "constraints": []});
            self.api.expect(201, "o/u:pu", "PUT", &format!("{path}/policy"), policy).await;
            nodes.push(NodeId::new("o", &name));
        }
        nodes
    }

    /// Publishes a service and a policy that wants it on every node.
    pub async fn want(&self) -> PolicyId {
        let service = json!({
            "label": "watch", "url": "watch", "version": "1.0.0", "arch": "amd64", "sharable": "multiple",
            "deployment": r#"{"services":{"watch":{"image":"i"}}}"#, "deploymentSignature": "s",
        });
        self.api.expect(201, "o/u:pu", "POST", "/orgs/o/services", service).await;
        let policy = json!({
            "label": "p", "constraints": ["site == north"],
            "service": {"name": "watch", "org": "o", "arch": "*", "serviceVersions": [{"version": "1.0.0"}]},
        });
        self.api.expect(201, "o/u:pu", "POST", "/orgs/o/business/policies/p", policy).await;
        PolicyId::new("o", "p")
    }

    /// Ids of the recorded agreements.
    pub async fn agreements(&self) -> Vec<String> {
        let rows: Vec<(String,)> = must(
            sqlx::query_as("SELECT agreement FROM agreement")
                .fetch_all(&mut self.database.connection().await)
                .await,
            "the agreements",
        );
        rows.into_iter().map(|(id,)| id).collect()
    }

    /// Asks the first agbot, as a node, whether the node may upgrade its agent; returns the status code.
    pub async fn ask_for_upgrade(&self, node: &NodeId, policy: &str) -> u16 {
        let login = STANDARD.encode(format!("{node}:token-{}", node.name()));
        let request = Request::builder()
            .method("POST")
            .uri(format!("/org/o/node/{}/upgrade", node.name()))
            .header("authorization", format!("Basic {login}"))
            .header("content-type", "application/json")
            .body(Body::from(json!({"nmp": policy}).to_string()));
        let response = AgbotApi::of(&self.all[0]).router().oneshot(must(request, "a request")).await;
        must(response, "a response").status().as_u16()
    }

    /// Runs a statement on the database.
    pub async fn execute(&self, statement: &'static str) {
        must(sqlx::query(statement).execute(&mut self.database.connection().await).await, statement);
    }

    /// Makes an HA group of nodes.
    pub async fn group(&self, name: &str, members: &[NodeId]) -> Value {
        let members: Vec<&str> = members.iter().map(NodeId::name).collect();
        let path = format!("/orgs/o/hagroups/{name}");
        self.api.expect(201, "o/u:pu", "POST", &path, json!({"members": members})).await
    }
}

fn failing(router: Router, unreadable: Arc<Mutex<Option<String>>>) -> Router {
    router.layer(middleware::from_fn(move |request: Request, next: Next| {
        let org = unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let path = request.uri().path().to_owned();
        let fails = org.is_some_and(|org| {
            ["nodes", "business/policies"].iter().any(|list| path.ends_with(&format!("/orgs/{org}/{list}")))
        });
        async move {
            if fails { StatusCode::INTERNAL_SERVER_ERROR.into_response() } else { next.run(request).await }
        }
    }))
}

fn counted(router: Router, calls: Arc<AtomicUsize>) -> Router {
    router.layer(middleware::from_fn(move |request: Request, next: Next| {
        // Status, heartbeats and changes are asked for all the time.
        let path = request.uri().path();
        if !["/status", "/changes", "/nodehealth", "/msgs", "/heartbeat"]
            .iter()
            .any(|end| path.ends_with(end))
        {
            calls.fetch_add(1, Ordering::Relaxed);
        }
        next.run(request)
    }))
}
