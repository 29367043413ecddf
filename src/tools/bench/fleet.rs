//! Rows for benchmarks, written straight into the database: organization, owner, nodes, groups, changes.

use evenkeel_exchange::{ApiError, ExchangeSettings, SecretHasher};
use evenkeel_exchange_store::change::{self, Change};
use evenkeel_exchange_store::secret;
use evenkeel_runtime::{ExitStatus, Failure};
use evenkeel_store::{Database, StoreError};
use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use sqlx::PgConnection;

use super::stage::{refused, store_failed};

/// Organization of everything.
pub const ORG: &str = "bench";
/// Login of the administrator who owns the nodes.
pub const OWNER: &str = "bench/operator:operator-password";
/// A token that a person chose, which is kept as Argon2id.
const CHOSEN_TOKEN: &str = "chosen-by-a-person";
/// Rows of one statement.
const BATCH: usize = 5_000;
/// A public key as agents have it, as far as its length goes.
const KEY_LENGTH: i32 = 590;

/// Nodes in the database, with what they log in with.
pub struct Nodes {
    prefix: &'static str,
    tokens: Tokens,
    count: usize,
}

enum Tokens {
    /// Made by our tools: 256 random bits each.
    Generated(Vec<String>),
    /// Chosen by users: the same for all, which costs the exchange as much as different ones.
    Chosen(String),
}

impl Nodes {
    /// Returns the number of them.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Id of one of them.
    pub fn id(&self, number: usize) -> String {
        format!("{}{number:06}", self.prefix)
    }

    /// `org/id:token` of one of them.
    pub fn login(&self, number: usize) -> String {
        let token = match &self.tokens {
            Tokens::Generated(tokens) => &tokens[number],
            Tokens::Chosen(token) => token,
        };
        format!("{ORG}/{}:{token}", self.id(number))
    }
}

/// Writes rows.
pub struct Scribe {
    database: Database,
    hasher: SecretHasher,
}

impl Scribe {
    /// Makes the organization and its administrator.
    pub async fn new(database: Database) -> Result<Scribe, Failure> {
        let mut connection = acquire(&database).await?;
        let proposed: [u8; 32] = rand::random();
        let key = secret::get_or_insert(&mut connection, "credential", &proposed).await.map_err(store)?;
        let key: [u8; 32] = key
            .try_into()
            .map_err(|_| store(StoreError::Corrupt { table: "exchange_secret", column: "value" }))?;
        let hasher = SecretHasher::new(key, 1);
        let statements = [
            "INSERT INTO organization (org, label, description, updated_at) VALUES ('bench', '', '', now())",
            "INSERT INTO account (org, name, id, password_hash, is_admin, updated_at)
             VALUES ('bench', 'operator', gen_random_uuid(), $1, true, now())",
        ];
        sqlx::query(statements[0]).execute(&mut *connection).await.map_err(|error| refused(&error))?;
        let password = hasher.keyed(OWNER.rsplit(':').next().unwrap_or_default());
        sqlx::query(statements[1])
            .bind(password)
            .execute(&mut *connection)
            .await
            .map_err(|error| refused(&error))?;
        drop(connection);
        Ok(Scribe { database, hasher })
    }

    /// Nodes with generated tokens.
    pub async fn nodes(&self, prefix: &'static str, count: usize) -> Result<Nodes, Failure> {
        let tokens: Vec<String> =
            (0..count).map(|_| format!("ek1.{}", hex(&rand::random::<[u8; 32]>()))).collect();
        let hashes: Vec<String> = tokens.iter().map(|token| self.hasher.keyed(token)).collect();
        let nodes = Nodes { prefix, tokens: Tokens::Generated(tokens), count };
        self.insert(&nodes, &hashes).await?;
        Ok(nodes)
    }

    /// Seconds of so many checks of a chosen token and nothing else, with the concurrency of an exchange for unauthenticated clients.
    pub async fn secs_of_argon2(&self, count: usize) -> Result<f64, Failure> {
        let slots = ExchangeSettings::default().login_slots;
        let hasher = SecretHasher::new([7; 32], slots);
        let hash = hasher.hash(CHOSEN_TOKEN).await.map_err(|error| failed(&error))?;
        let begin = std::time::Instant::now();
        let checks = (0..count).map(|_| hasher.verify(CHOSEN_TOKEN, &hash));
        let mut checks = stream::iter(checks).buffer_unordered(slots);
        while let Some(is_right) = checks.next().await {
            if !is_right.map_err(|error| failed(&error))? {
                return Err(Failure::new(ExitStatus::Failure, "a right token was refused"));
            }
        }
        Ok(begin.elapsed().as_secs_f64())
    }

    /// Nodes with a token that a person chose.
    pub async fn nodes_with_chosen_token(
        &self,
        prefix: &'static str,
        count: usize,
    ) -> Result<Nodes, Failure> {
        let token = CHOSEN_TOKEN.to_owned();
        let hash = self.hasher.hash(&token).await.map_err(|error| failed(&error))?;
        let nodes = Nodes { prefix, tokens: Tokens::Chosen(token), count };
        self.insert(&nodes, &vec![hash; count]).await?;
        Ok(nodes)
    }

    async fn insert(&self, nodes: &Nodes, hashes: &[String]) -> Result<(), Failure> {
        let mut connection = acquire(&self.database).await?;
        let ids: Vec<String> = (0..nodes.count).map(|number| nodes.id(number)).collect();
        for (ids, hashes) in ids.chunks(BATCH).zip(hashes.chunks(BATCH)) {
            sqlx::query(
                r#"INSERT INTO node (org, node, name, owner_org, owner, token_hash, node_type, registered_services, user_input,
                                     software_versions, public_key, arch, heartbeat_intervals, updated_at)
                   SELECT 'bench', row.node, row.node, 'bench', 'operator', row.hash, 'device', '[]', '[]',
                          '{"horizon":"2.31.0","certificate":"","config":""}', repeat('k', $3), 'amd64',
                          '{"minInterval":0,"maxInterval":0,"intervalAdjustment":0}', now()
                   FROM UNNEST($1::text[], $2::text[]) AS row (node, hash)"#,
            )
            .bind(ids)
            .bind(hashes)
            .bind(KEY_LENGTH)
            .execute(&mut *connection)
            .await
            .map_err(|error| refused(&error))?;
        }
        analyze(&mut connection).await
    }

    /// HA groups of two nodes each, over all nodes.
    pub async fn groups(&self, nodes: &Nodes) -> Result<(), Failure> {
        self.groups_of(nodes, 2).await
    }

    /// HA groups of so many nodes each, over all nodes.
    pub async fn groups_of(&self, nodes: &Nodes, members: i64) -> Result<(), Failure> {
        let mut connection = acquire(&self.database).await?;
        let ids: Vec<String> = (0..nodes.count).map(|number| nodes.id(number)).collect();
        for statement in [
            "INSERT INTO ha_group (org, name, is_admin, owner_org, owner, updated_at)
             SELECT DISTINCT 'bench', 'g' || (row.number - 1) / $2, true, 'bench', 'operator', now()
             FROM UNNEST($1::text[]) WITH ORDINALITY AS row (node, number)",
            "INSERT INTO ha_group_member (org, node, ha_group)
             SELECT 'bench', row.node, 'g' || (row.number - 1) / $2
             FROM UNNEST($1::text[]) WITH ORDINALITY AS row (node, number)",
        ] {
            sqlx::query(statement)
                .bind(&ids)
                .bind(members)
                .execute(&mut *connection)
                .await
                .map_err(|error| refused(&error))?;
        }
        analyze(&mut connection).await
    }

    /// Changes that every node of the organization sees; the running exchange numbers them.
    pub async fn changes(&self, count: usize) -> Result<(), Failure> {
        let changes: Vec<Change> = (0..count)
            .map(|number| Change {
                org: ORG.to_owned(),
                id: format!("service-{number}_1.0.0_amd64"),
                category: "service",
                resource: "service",
                operation: "modified",
                is_public: false,
            })
            .collect();
        let mut connection = acquire(&self.database).await?;
        change::insert_outbox(&mut connection, &changes, Timestamp::now()).await.map_err(store)
    }

    /// Waits until everything in the outbox has its number; returns the last number.
    pub async fn last_number(&self) -> Result<i64, Failure> {
        loop {
            let mut connection = acquire(&self.database).await?;
            if !change::has_outbox_rows(&mut connection).await.map_err(store)? {
                return change::get_last(&mut connection).await.map_err(store);
            }
            drop(connection);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

async fn acquire(
    database: &Database,
) -> Result<impl std::ops::DerefMut<Target = PgConnection> + use<>, Failure> {
    database.acquire().await.map_err(store)
}

/// Plans must not be those for empty tables.
async fn analyze(connection: &mut PgConnection) -> Result<(), Failure> {
    sqlx::query("ANALYZE").execute(connection).await.map(drop).map_err(|error| refused(&error))
}

fn failed(error: &ApiError) -> Failure {
    Failure::from_error(ExitStatus::Failure, error)
}

fn store(error: StoreError) -> Failure {
    store_failed(&error)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
