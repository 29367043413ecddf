//! Owner and public flag of resources, as needed for a permission decision.

use evenkeel_access::Facts;
use evenkeel_ids::UserId;
use sqlx::PgConnection;

use super::identity::lock_name;
use evenkeel_store::StoreError;

/// Kinds of resources with facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactKind {
    /// An organization (no owner).
    Org,
    /// An account (owned by itself).
    User,
    /// An edge node.
    Node,
    /// An agbot.
    Agbot,
    /// A service.
    Service,
    /// A pattern.
    Pattern,
    /// A deployment policy.
    DeploymentPolicy,
    /// A management policy.
    ManagementPolicy,
}

struct Row {
    owner_org: Option<String>,
    owner: Option<String>,
    is_public: bool,
}

impl From<Row> for Facts {
    fn from(row: Row) -> Facts {
        Facts {
            owner: row.owner_org.zip(row.owner).map(|(org, name)| UserId::new(&org, &name)),
            is_public: row.is_public,
            is_deployed: false,
        }
    }
}

/// Reads the facts of a resource of any kind, by queries that end with `$tail`.
macro_rules! select_facts {
    ($conn:ident, $kind:ident, $org:ident, $id:ident, $name:literal, $tail:literal) => {{
        macro_rules! fetch {
            ($kind_name:literal, $sql:literal) => {
                sqlx::query_as!(Row, "-- facts." + $name + $kind_name + $sql + $tail, $org, $id).fetch_optional($conn).await?
            };
        }
        match $kind {
            FactKind::Org => {
                sqlx::query_as!(
                    Row,
                    "-- facts." + $name + r#"org
                    SELECT NULL::text AS owner_org, NULL::text AS owner, false AS "is_public!" FROM organization
                    WHERE org = $1 "# + $tail,
                    $org
                )
                .fetch_optional($conn)
                .await?
            }
            FactKind::User => fetch!(
                "user",
                r#"
                SELECT org AS "owner_org?", name AS "owner?", false AS "is_public!" FROM account WHERE org = $1 AND name = $2 "#
            ),
            FactKind::Node => fetch!(
                "node",
                r#"
                SELECT owner_org AS "owner_org?", owner AS "owner?", false AS "is_public!" FROM node WHERE org = $1 AND node = $2 "#
            ),
            FactKind::Agbot => fetch!(
                "agbot",
                r#"
                SELECT owner_org AS "owner_org?", owner AS "owner?", false AS "is_public!" FROM agbot WHERE org = $1 AND agbot = $2 "#
            ),
            FactKind::Service => fetch!(
                "service",
                r#"
                SELECT owner_org AS "owner_org?", owner AS "owner?", is_public FROM service WHERE org = $1 AND service = $2 "#
            ),
            FactKind::Pattern => fetch!(
                "pattern",
                r#"
                SELECT owner_org AS "owner_org?", owner AS "owner?", is_public FROM pattern WHERE org = $1 AND pattern = $2 "#
            ),
            FactKind::DeploymentPolicy => fetch!(
                "deployment_policy",
                r#"
                SELECT owner_org AS "owner_org?", owner AS "owner?", false AS "is_public!"
                FROM deployment_policy WHERE org = $1 AND policy = $2 "#
            ),
            FactKind::ManagementPolicy => fetch!(
                "management_policy",
                r#"
                SELECT owner_org AS "owner_org?", owner AS "owner?", false AS "is_public!"
                FROM management_policy WHERE org = $1 AND policy = $2 "#
            ),
        }
    }};
}

/// Finds the facts of one resource; `None` when it does not exist.
pub async fn find_facts(
    conn: &mut PgConnection,
    kind: FactKind,
    org: &str,
    id: &str,
) -> Result<Option<Facts>, StoreError> {
    Ok(select_facts!(conn, kind, org, id, "", "").map(Facts::from))
}

/// Finds the facts of one resource and keeps them as they are until the end of the transaction; `None` when it does not exist, and then no
/// other transaction creates it.
pub async fn lock_facts(
    tx: &mut PgConnection,
    kind: FactKind,
    org: &str,
    id: &str,
) -> Result<Option<Facts>, StoreError> {
    if let Some(facts) = lock_row(tx, kind, org, id).await? {
        return Ok(Some(facts));
    }
    // A row that does not exist cannot be locked; its name can, and a creation locks the name first. It may have been created while
    // this transaction waited.
    lock_name(tx, org, id).await?;
    lock_row(tx, kind, org, id).await
}

async fn lock_row(
    tx: &mut PgConnection,
    kind: FactKind,
    org: &str,
    id: &str,
) -> Result<Option<Facts>, StoreError> {
    Ok(select_facts!(tx, kind, org, id, "lock_", "FOR NO KEY UPDATE").map(Facts::from))
}
