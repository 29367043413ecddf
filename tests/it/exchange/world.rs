//! A small world with one of everything in three organizations, every kind of caller, and a way back to how it was.

use std::collections::{BTreeMap, BTreeSet};

use axum::Router;
use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use evenkeel_agbot::{Agbot, AgbotSettings};
use evenkeel_agbot_api::AgbotApi;
use evenkeel_client::{Client, Credentials, Transport};
use evenkeel_exchange::{Exchange, ExchangeSettings};
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::support::wait::must;
use crate::support::{Scratch, TestDatabase, eventually};

/// A text in everything that only its own organization may read.
pub const MARK: &str = "hush-hush";
/// Organization with one of everything, as seen by most callers.
pub const HOME: &str = "acme";
/// The organization that is shared by all.
pub const SHARED: &str = "IBM";
/// Another organization.
pub const ABROAD: &str = "globex";

const PASSWORD: &str = "open-sesame";

/// A caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Name of the column in the table.
    pub title: &'static str,
    /// Organization and id; `None` calls without credentials.
    pub login: Option<&'static str>,
}

const fn caller(title: &'static str, login: &'static str) -> Caller {
    Caller { title, login: Some(login) }
}

/// The root user.
pub const ROOT: Caller = caller("root", "root/root");

/// Every kind of caller, in the order of the table's columns.
pub const CALLERS: [Caller; 14] = [
    ROOT,
    caller("hub", "root/hubert"),
    caller("admin", "acme/anna"),
    caller("owner", "acme/olga"),
    caller("user", "acme/uwe"),
    caller("viewer", "acme/vera"),
    caller("deploy", "acme/dora"),
    caller("node", "acme/n1"),
    caller("node2", "acme/n2"),
    caller("agbot", "acme/bot"),
    caller("agbot2", "acme/bot2"),
    caller("multi", "IBM/multi"),
    caller("abroad", "globex/anna"),
    Caller { title: "nobody", login: None },
];

/// Callers of another organization that see no organization but their own.
pub const OUTSIDERS: [Caller; 4] = [
    caller("admin abroad", "globex/anna"),
    caller("user abroad", "globex/olga"),
    caller("node abroad", "globex/n1"),
    caller("agbot abroad", "globex/bot"),
];

/// The running exchange and what is in it.
pub struct World {
    exchange: Exchange,
    router: Router,
    connection: PgConnection,
    /// Tables with those columns that are not computed.
    tables: BTreeMap<String, String>,
    numbers: BTreeMap<String, String>,
    shutdown: CancellationToken,
    database: TestDatabase,
    scratch: Scratch,
}

impl World {
    /// Starts an exchange and fills it through its own API.
    pub async fn new() -> World {
        let database = TestDatabase::new().await;
        let shutdown = CancellationToken::new();
        let settings =
            ExchangeSettings { root_password: Some(PASSWORD.to_owned()), ..ExchangeSettings::default() };
        let exchange = Exchange::start(database.connect().await, settings, shutdown.clone()).await;
        let exchange = must(exchange, "starting the exchange");
        let mut world = World {
            router: exchange.router(),
            exchange,
            connection: database.connection().await,
            tables: BTreeMap::new(),
            numbers: BTreeMap::new(),
            shutdown,
            database,
            scratch: Scratch::new(),
        };
        world.fill().await;
        world.remember().await;
        world
    }

    /// Starts an agbot beside the exchange and waits until it knows everything and decides about every partition.
    pub async fn start_agbot(&mut self) -> Agbot {
        let transport = Transport::router(self.router.clone());
        let client =
            must(Client::new(transport, "/v1", Credentials::new("IBM", "multi", PASSWORD)), "a client");
        let settings = AgbotSettings::new("IBM", "multi", self.scratch.join("key.pem"));
        let partitions = settings.planner.partition_count as usize;
        let database = self.database.connect().await;
        let agbot = must(Agbot::start(settings, client, database, self.shutdown.clone()), "an agbot");
        eventually("the agbot decides about every partition", || async {
            let context = agbot.context();
            (context.reading.is_loaded() && context.model().lease_count() == partitions).then_some(())
        })
        .await;
        self.router = self.exchange.router_beside(&[evenkeel_agbot_api::part], AgbotApi::of(&agbot).router());
        agbot
    }

    /// Sends a request below `/v1`; returns status and body (nothing of an endless one).
    pub async fn call(
        &self,
        caller: Caller,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> (StatusCode, Bytes) {
        match body {
            Some(Value::String(text)) => self.send(caller, method, path, None, text.clone()).await,
            Some(body) => self.send(caller, method, path, Some("application/json"), body.to_string()).await,
            None => self.send(caller, method, path, None, "").await,
        }
    }

    /// The same with any body of any type.
    pub async fn send(
        &self,
        caller: Caller,
        method: &Method,
        path: &str,
        media_type: Option<&str>,
        body: impl Into<Bytes>,
    ) -> (StatusCode, Bytes) {
        let credentials = caller.login.map(|login| format!("{login}:{PASSWORD}"));
        self.send_with(credentials.as_deref(), method, path, (media_type, body)).await
    }

    /// The same with credentials, such as an API key.
    pub async fn send_with(
        &self,
        credentials: Option<&str>,
        method: &Method,
        path: &str,
        (media_type, body): (Option<&str>, impl Into<Bytes>),
    ) -> (StatusCode, Bytes) {
        let mut request = Request::builder().method(method).uri(format!("/v1{path}"));
        if let Some(credentials) = credentials {
            let credentials = STANDARD.encode(credentials);
            request = request.header(header::AUTHORIZATION, format!("Basic {credentials}"));
        }
        if let Some(media_type) = media_type {
            request = request.header(header::CONTENT_TYPE, media_type);
        }
        let request = request.body(Body::from(body.into()));
        let response = must(self.router.clone().oneshot(must(request, "a request")).await, "a response");
        let status = response.status();
        let is_endless =
            response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
        if is_endless {
            return (status, Bytes::new());
        }
        (status, must(response.into_body().collect().await, "a body").to_bytes())
    }

    /// The number that the exchange gave something, by organization and kind.
    pub fn number(&self, org: &str, kind: &str) -> &str {
        &self.numbers[&format!("{org}/{kind}")]
    }

    async fn must_call(&self, caller: Caller, method: Method, path: &str, body: Value) -> Value {
        let body = (!body.is_null()).then_some(body);
        let (status, response) = self.call(caller, &method, path, body.as_ref()).await;
        assert!(status.is_success(), "{method} {path}: {status} {response:?}");
        serde_json::from_slice(&response).unwrap_or_default()
    }

    async fn fill(&mut self) {
        let hub_admin = json!({"password": PASSWORD, "email": "h@x", "hubAdmin": true});
        self.must_call(ROOT, Method::POST, "/orgs/root/users/hubert", hub_admin).await;
        let organization = |label: &str| json!({"label": label, "description": MARK, "orgType": "IBM"});
        for org in [HOME, ABROAD] {
            self.must_call(ROOT, Method::POST, &format!("/orgs/{org}"), organization(org)).await;
        }
        let multi = json!({"token": PASSWORD, "name": "multi", "publicKey": "key"});
        self.must_call(ROOT, Method::PUT, "/orgs/IBM/agbots/multi", multi).await;
        self.fill_organization(HOME, ["acme/anna", "acme/olga", "acme/n1", "acme/bot"]).await;
        self.fill_organization(ABROAD, ["globex/anna", "globex/olga", "globex/n1", "globex/bot"]).await;
        self.fill_organization(SHARED, ["IBM/anna", "IBM/olga", "IBM/n1", "IBM/bot"]).await;
        let viewer = json!({"password": PASSWORD, "email": "v@x", "role": "viewer"});
        self.must_call(ROOT, Method::POST, "/orgs/acme/users/vera", viewer).await;
        let deployer =
            json!({"password": PASSWORD, "email": "d@x", "role": "deployer", "policies": ["pol", "fre*"]});
        self.must_call(ROOT, Method::POST, "/orgs/acme/users/dora", deployer).await;
        let files = json!({"agentSoftwareVersions": ["1.0.0"]});
        self.must_call(ROOT, Method::PUT, "/orgs/IBM/AgentFileVersion", files).await;
    }

    async fn fill_organization(&mut self, org: &str, [admin, owner, node, agbot]: [&'static str; 4]) {
        let [admin, owner, node, agbot] = [admin, owner, node, agbot].map(|login| caller("", login));
        for (name, is_admin) in [("anna", true), ("olga", false), ("uwe", false)] {
            let user = json!({"password": PASSWORD, "email": MARK, "admin": is_admin});
            self.must_call(ROOT, Method::POST, &format!("/orgs/{org}/users/{name}"), user).await;
        }
        let keys = format!("/orgs/{org}/users/olga/apikeys");
        let key = self.must_call(owner, Method::POST, &keys, json!({"label": MARK})).await;
        self.numbers.insert(format!("{org}/apikey"), text_of(&key["id"]));
        for id in ["n1", "n2"] {
            let body =
                json!({"token": PASSWORD, "name": MARK, "pattern": "", "publicKey": "key", "arch": "amd64"});
            self.must_call(owner, Method::PUT, &format!("/orgs/{org}/nodes/{id}"), body).await;
        }
        let bot = json!({"token": PASSWORD, "name": MARK, "publicKey": "key"});
        for id in ["bot", "bot2"] {
            self.must_call(owner, Method::PUT, &format!("/orgs/{org}/agbots/{id}"), bot.clone()).await;
        }
        self.must_call(admin, Method::PUT, &format!("/orgs/{org}/agbots/bot/approval"), Value::Null).await;
        // The patterns deploy the public service, so it comes first.
        self.publish(org, owner, "public", true).await;
        self.publish(org, owner, "private", false).await;
        for (method, path, body) in super::request::parts(org) {
            let is_of_admin =
                path.contains("managementpolicies") || path.ends_with(&format!("{org}/orchestration"));
            let who = if is_of_admin { admin } else { owner };
            self.must_call(who, method, &path, body).await;
        }
        // Every approved agbot was given number 0, under which the tasks of the tests are published.
        let give =
            "INSERT INTO agbot_fencing SELECT org, agbot, 0, seen_at FROM agbot WHERE approved_by IS NOT NULL
            ON CONFLICT DO NOTHING";
        must(self.connection.execute(give).await, "giving fencing numbers");
        let request = format!(
            "INSERT INTO plan_approval
                (org, id, requester, kind, policy, title, request, plan, token, reason, state, created_at, expires_at)
            VALUES ('{org}', '{}', 'olga', 'policyAction', 'pol', '{MARK}',
                    '{{\"kind\": \"policyAction\", \"policy\": \"pol\", \"action\": \"restart\"}}',
                    '{{\"token\": \"t\", \"summary\": \"{MARK}\", \"lines\": [], \"others\": 0}}',
                    't', '{MARK}', 'pending', now(), now() + interval '1 day')",
            super::request::PLAN_APPROVAL,
        );
        must(self.connection.execute(AssertSqlSafe(request)).await, "requesting an approval");
        let (task, wanted) = (format!("/orgs/{org}/nodes/n1/tasks/task"), super::request::node_task(org));
        self.must_call(agbot, Method::PUT, &task, wanted).await;
        let to_node = format!("/orgs/{org}/nodes/n1/msgs");
        let to_agbot = format!("/orgs/{org}/agbots/bot/msgs");
        let message = json!({"message": MARK, "ttl": 86_400});
        self.must_call(agbot, Method::POST, &to_node, message.clone()).await;
        self.must_call(node, Method::POST, &to_agbot, message).await;
        for (kind, path) in [("node message", to_node), ("agbot message", to_agbot)] {
            let messages = self.must_call(ROOT, Method::GET, &path, Value::Null).await;
            self.numbers.insert(format!("{org}/{kind}"), text_of(&messages["messages"][0]["msgId"]));
        }
    }

    /// Publishes a service and a pattern with all that belongs to them.
    async fn publish(&mut self, org: &str, owner: Caller, name: &str, is_public: bool) {
        let mark = if is_public { "known" } else { MARK };
        let one = super::request::service_path(org, name);
        let service = super::request::service(name, mark, is_public);
        self.must_call(owner, Method::POST, &format!("/orgs/{org}/services"), service).await;
        self.must_call(owner, Method::PUT, &format!("{one}/policy"), json!({"label": mark})).await;
        self.must_call(owner, Method::PUT, &format!("{one}/keys/key.pem"), json!(mark)).await;
        let login = json!({"registry": "r", "token": mark});
        self.must_call(owner, Method::POST, &format!("{one}/dockauths"), login).await;
        let logins = self.must_call(owner, Method::GET, &format!("{one}/dockauths"), Value::Null).await;
        self.numbers.insert(format!("{org}/{name} dockauth"), text_of(&logins[0]["dockAuthId"]));
        let one = format!("/orgs/{org}/patterns/{name}");
        let pattern = super::request::pattern(org, mark, is_public && org != ABROAD);
        self.must_call(owner, Method::POST, &one, pattern).await;
        self.must_call(owner, Method::PUT, &format!("{one}/keys/key.pem"), json!(mark)).await;
    }

    /// Copies every table of the exchange's record.
    async fn remember(&mut self) {
        let rows = self
            .connection
            .fetch_all(
                "SELECT table_name::text, string_agg(quote_ident(column_name), ', ' ORDER BY ordinal_position)
                FROM information_schema.tables
                JOIN information_schema.columns USING (table_schema, table_name)
                WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND is_generated = 'NEVER'
                    AND table_name NOT LIKE 'change%' AND table_name NOT LIKE 'audit%'
                    AND table_name NOT IN ('_sqlx_migrations', 'exchange_secret', 'exchange_instance')
                GROUP BY table_name",
            )
            .await;
        self.tables = must(rows, "the tables").iter().map(|row| (row.get(0), row.get(1))).collect();
        let statements: String = self
            .tables
            .keys()
            .map(|table| format!("CREATE TABLE copy.{table} AS TABLE public.{table};"))
            .collect();
        let statement = format!("CREATE SCHEMA copy; {statements}");
        must(self.connection.execute(AssertSqlSafe(statement)).await, "copying the tables");
    }

    /// Executes a statement.
    pub async fn execute(&mut self, statement: &'static str) {
        must(self.connection.execute(statement).await, "a statement");
    }

    /// Takes the present rows as those to compare with and to restore.
    pub async fn settle(&mut self) {
        must(self.connection.execute("DROP SCHEMA copy CASCADE").await, "dropping the copy");
        self.remember().await;
    }

    /// Rows that were added, changed or removed since, as text after the name of their table; of changed ones both forms. Heartbeats are
    /// left out, because they are written a moment later.
    pub async fn changed_rows(&mut self) -> Vec<String> {
        let differences: Vec<String> = self
            .tables
            .iter()
            .filter(|(table, _)| *table != "node_heartbeat" && !table.starts_with("audit"))
            .map(|(table, columns)| {
                let columns: Vec<&str> = columns
                    .split(", ")
                    .filter(|column| (table.as_str(), *column) != ("agbot", "seen_at"))
                    .collect();
                let row = format!("'{table} ' || ROW({})::text", columns.join(", "));
                format!(
                    "(SELECT {row} FROM public.{table} EXCEPT ALL SELECT {row} FROM copy.{table})
                    UNION ALL
                    (SELECT {row} FROM copy.{table} EXCEPT ALL SELECT {row} FROM public.{table})"
                )
            })
            .collect();
        let statement = differences.join(" UNION ALL ");
        let found = must(self.connection.fetch_all(AssertSqlSafe(statement)).await, "comparing the tables");
        found.iter().map(|row| row.get(0)).collect()
    }

    /// The tables that differ from what they were, except heartbeats.
    pub async fn changed_tables(&mut self) -> BTreeSet<String> {
        let rows = self.changed_rows().await;
        rows.iter().filter_map(|row| row.split(' ').next()).map(str::to_owned).collect()
    }

    /// Requires that nothing was written since the world was filled or restored; `what` happened in between.
    pub async fn must_be_untouched(&mut self, what: &str) {
        let changed = self.changed_tables().await;
        assert!(changed.is_empty(), "{what} changed {changed:?}");
    }

    /// Brings every row back.
    pub async fn restore(&mut self) {
        let mut statement = String::from("SET LOCAL session_replication_role = replica;");
        for table in self.tables.keys() {
            statement.push_str(&format!("DELETE FROM public.{table};"));
        }
        for (table, columns) in &self.tables {
            statement.push_str(&format!(
                "INSERT INTO public.{table} ({columns}) OVERRIDING SYSTEM VALUE
                SELECT {columns} FROM copy.{table} ON CONFLICT DO NOTHING;"
            ));
        }
        // Heartbeats may be written between the two halves: the database then ends one of the two transactions.
        for _ in 0..10 {
            let mut tx = must(self.connection.begin().await, "beginning");
            if tx.execute(AssertSqlSafe(statement.clone())).await.is_ok() {
                must(tx.commit().await, "restoring the rows");
                return;
            }
        }
        panic!("the rows cannot be restored");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
