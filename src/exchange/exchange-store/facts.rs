//! Owner and public flag of resources, as needed for a permission decision.

use evenkeel_access::Facts;
use evenkeel_ids::UserId;
use sqlx::PgConnection;

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

/// Finds the facts of one resource; `None` when it does not exist.
pub async fn find_facts(
    conn: &mut PgConnection,
    kind: FactKind,
    org: &str,
    id: &str,
) -> Result<Option<Facts>, StoreError> {
    macro_rules! fetch {
        ($sql:literal) => {
            sqlx::query_as!(Row, $sql, org, id).fetch_optional(conn).await?
        };
    }
    let row = match kind {
        FactKind::Org => sqlx::query_as!(
            Row,
            r#"-- facts.org
            SELECT NULL::text AS owner_org, NULL::text AS owner, false AS "is_public!" FROM organization WHERE org = $1"#,
            org
        )
        .fetch_optional(conn)
        .await?,
        FactKind::User => fetch!(
            r#"-- facts.user
            SELECT org AS "owner_org?", name AS "owner?", false AS "is_public!" FROM account WHERE org = $1 AND name = $2"#
        ),
        FactKind::Node => fetch!(
            r#"-- facts.node
            SELECT owner_org AS "owner_org?", owner AS "owner?", false AS "is_public!" FROM node WHERE org = $1 AND node = $2"#
        ),
        FactKind::Agbot => fetch!(
            r#"-- facts.agbot
            SELECT owner_org AS "owner_org?", owner AS "owner?", false AS "is_public!" FROM agbot WHERE org = $1 AND agbot = $2"#
        ),
        FactKind::Service => fetch!(
            r#"-- facts.service
            SELECT owner_org AS "owner_org?", owner AS "owner?", is_public FROM service WHERE org = $1 AND service = $2"#
        ),
        FactKind::Pattern => fetch!(
            r#"-- facts.pattern
            SELECT owner_org AS "owner_org?", owner AS "owner?", is_public FROM pattern WHERE org = $1 AND pattern = $2"#
        ),
        FactKind::DeploymentPolicy => fetch!(
            r#"-- facts.deployment_policy
            SELECT owner_org AS "owner_org?", owner AS "owner?", false AS "is_public!"
            FROM deployment_policy WHERE org = $1 AND policy = $2"#
        ),
        FactKind::ManagementPolicy => fetch!(
            r#"-- facts.management_policy
            SELECT owner_org AS "owner_org?", owner AS "owner?", false AS "is_public!"
            FROM management_policy WHERE org = $1 AND policy = $2"#
        ),
    };
    Ok(row.map(|row| Facts {
        owner: row.owner_org.zip(row.owner).map(|(org, name)| UserId::new(&org, &name)),
        is_public: row.is_public,
        is_deployed: false,
    }))
}
