//! An organization to test statements in.

use std::ops::Deref;

use evenkeel_access::{Caller, Permission, Role, Target, WriteRight, right};
use evenkeel_ids::UserId;
use evenkeel_store::{Connection, Database, StoreError};
use evenkeel_test_database::TestDatabase;
use jiff::Timestamp;
use serde_json::value::RawValue;
use sqlx::migrate::Migrator;
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::account::{AccountRow, insert_account};
use crate::agbot::{AgbotRow, insert_agbot};
use crate::agreement::{AgbotAgreementRow, NodeAgreementRow, upsert_of_agbot, upsert_of_node};
use crate::node::{NodeRow, insert_node};
use crate::node_spec::NodeSpecRow;
use crate::organization::{Organization, insert_organization};
use crate::permitted::Permitted;

pub const ROLES: &[&Migrator] = &[&crate::MIGRATIONS];

/// The database of the tests whose statements stay in their organizations.
static SHARED: OnceCell<TestDatabase> = OnceCell::const_new();

pub async fn shared() -> &'static TestDatabase {
    SHARED.get_or_init(|| TestDatabase::new(ROLES)).await
}

/// Returns the instant so many seconds after the beginning of the tests.
pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

pub fn json(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

pub fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// An organization with the account `u`.
pub struct Org {
    name: &'static str,
    database: Database,
}

impl Deref for Org {
    type Target = str;

    fn deref(&self) -> &str {
        self.name
    }
}

impl Org {
    /// Adds an organization to the database that tests share; each test has its own.
    pub async fn new(name: &'static str) -> Org {
        Org::in_database(shared().await, name).await
    }

    /// Adds an organization to a database.
    pub async fn in_database(database: &TestDatabase, name: &'static str) -> Org {
        let org = Org { name, database: database.connect().await };
        let row = Organization {
            org: name.to_owned(),
            org_type: String::new(),
            label: String::new(),
            description: String::new(),
            tags: None,
            limits: None,
            heartbeat_intervals: None,
            updated_at: at(0),
        };
        org.write(async |tx: &mut Permitted<right::OrgCreate>| insert_organization(tx, &row).await).await;
        org.add_account("u").await;
        org
    }

    pub async fn connection(&self) -> Connection {
        self.database.acquire().await.unwrap()
    }

    pub fn user(&self, name: &str) -> UserId {
        UserId::new(self, name)
    }

    /// Begins a transaction of root.
    pub async fn begin<R: WriteRight>(&self) -> Permitted<R> {
        let root = Caller::new(Role::Root, "root", "root");
        let permission = Permission::decide(&root, Target { org: self, id: None }).unwrap();
        Permitted::new(self.database.begin().await.unwrap(), &permission)
    }

    /// Writes in a transaction of root.
    pub async fn write<R: WriteRight, T>(
        &self,
        work: impl AsyncFnOnce(&mut Permitted<R>) -> Result<T, StoreError>,
    ) -> T {
        let mut tx = self.begin().await;
        let found = work(&mut tx).await.unwrap();
        commit(tx).await;
        found
    }

    pub async fn add_account(&self, name: &str) {
        let row = AccountRow {
            org: self.to_string(),
            name: name.to_owned(),
            id: Uuid::new_v4(),
            password_hash: None,
            email: String::new(),
            is_admin: false,
            is_hub_admin: false,
            role: None,
            updated_at: at(0),
            updated_by: String::new(),
        };
        self.write(async |tx: &mut Permitted<right::UserCreate>| insert_account(tx, &row).await).await;
    }

    /// Returns the row of a node of `u` that agbots find.
    pub fn node(&self, node: &str) -> NodeRow {
        NodeRow {
            org: self.to_string(),
            node: node.to_owned(),
            name: node.to_owned(),
            owner_org: self.to_string(),
            owner: "u".to_owned(),
            node_type: "device".to_owned(),
            pattern: String::new(),
            registered_services: json("[]"),
            user_input: json("[]"),
            msg_end_point: String::new(),
            software_versions: json("{}"),
            public_key: "key".to_owned(),
            arch: "amd64".to_owned(),
            heartbeat_intervals: json("{}"),
            cluster_namespace: String::new(),
            is_namespace_scoped: false,
            updated_at: at(0),
            seen_at: None,
            ha_group: None,
            spec: NodeSpecRow {
                availability: "active".to_owned(),
                is_frozen: false,
                is_drain_forced: false,
                is_in_upgrade: false,
                capacities: None,
                fault_domain: None,
                upgrade_domain: None,
                updated_by: None,
            },
            agent_state: "running".to_owned(),
            monitor_state: "idle".to_owned(),
            monitor_state_since: None,
            compat_version: None,
            agent_runs: None,
        }
    }

    pub async fn insert_node(&self, row: &NodeRow) {
        self.write(async |tx| insert_node(tx, row, "token").await).await;
    }

    /// Adds nodes of `u`.
    pub async fn add_nodes(&self, nodes: &[&str]) {
        for node in nodes {
            self.insert_node(&self.node(node)).await;
        }
    }

    /// Adds an agbot of an account.
    pub async fn add_agbot(&self, agbot: &str, owner: &str) {
        let row = AgbotRow {
            org: self.to_string(),
            agbot: agbot.to_owned(),
            name: String::new(),
            owner_org: self.to_string(),
            owner: owner.to_owned(),
            msg_end_point: String::new(),
            public_key: String::new(),
            seen_at: at(0),
        };
        self.write(async |tx| insert_agbot(tx, &row, "token").await).await;
    }

    /// Records an agreement of a node about a service.
    pub async fn add_node_agreement(&self, node: &str, agreement: &str, service_url: &str, state: &str) {
        let row = NodeAgreementRow {
            agreement: agreement.to_owned(),
            services: json("[]"),
            agreement_service: json("{}"),
            service_url: service_url.to_owned(),
            state: state.to_owned(),
            updated_at: at(0),
        };
        self.write(async |tx| upsert_of_node(tx, self, node, &row).await).await;
    }

    /// Records an agreement of an agbot, with a node if one is given.
    pub async fn add_agbot_agreement(&self, agbot: &str, agreement: &str, state: &str, node: Option<&str>) {
        let row = AgbotAgreementRow {
            agreement: agreement.to_owned(),
            service: json("{}"),
            state: state.to_owned(),
            updated_at: at(0),
            node: node.map(str::to_owned),
        };
        self.write(async |tx| upsert_of_agbot(tx, self, agbot, &row).await).await;
    }
}

pub async fn commit<R>(tx: Permitted<R>) {
    tx.into_transaction().commit().await.unwrap();
}
