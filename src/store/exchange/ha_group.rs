//! HA groups. Membership is one fact: the row of a node in `ha_group_member`, whose key says that a node is in 0 or 1 groups.
//!
//! Locks of every write, in this order: the row of the one group it changes, then the rows of all nodes concerned by id. So two writes
//! that fight over nodes wait for each other and never block each other for good.
//! Source: design, section 1.2; HA-group design; exchange contract section 6.

use evenkeel_access::Account;
use jiff::Timestamp;
use sqlx::PgConnection;

use crate::{StoreError, from_sql, to_sql};

/// A group as stored, without its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaGroup {
    /// Organization.
    pub org: String,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// An administrator made it.
    pub is_admin: bool,
    /// Who made it; none when that account is gone.
    pub owner: Option<Account>,
    /// Last change.
    pub updated_at: Timestamp,
}

/// A group with its members, both as of the same instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaGroupWithMembers {
    /// The group.
    pub group: HaGroup,
    /// Node ids with the accounts that own the nodes, sorted by id.
    pub members: Vec<(String, Account)>,
}

/// A node as far as membership is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub node: String,
    /// Account that owns it.
    pub owner: Account,
    /// `device` or `cluster`.
    pub node_type: String,
}

/// A node and the group it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Id of the node.
    pub node: String,
    /// Name of the group.
    pub ha_group: String,
}

/// Lists groups of an organization with their members as of one instant, sorted by name, at most `limit` after the name `after`; `name`
/// limits the list to one.
pub async fn list_groups(
    conn: &mut PgConnection,
    org: &str,
    name: Option<&str>,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<HaGroupWithMembers>, StoreError> {
    let rows = sqlx::query!(
        r#"-- ha_group.list_groups
        WITH page AS (
            SELECT name, description, is_admin, owner_org, owner, updated_at
            FROM ha_group
            WHERE org = $1
              AND ($2::text IS NULL OR name = $2)
              AND ($3::text IS NULL OR name COLLATE "C" > $3)
            ORDER BY name COLLATE "C"
            LIMIT $4
        )
        SELECT page.name, page.description, page.is_admin, page.owner_org, page.owner,
               page.updated_at AS "updated_at: jiff_sqlx::Timestamp",
               node.node AS "node?", node.owner_org AS "node_owner_org?", node.owner AS "node_owner?"
        FROM page
        LEFT JOIN ha_group_member AS member ON member.org = $1 AND member.ha_group = page.name
        LEFT JOIN node ON node.org = member.org AND node.node = member.node
        ORDER BY page.name COLLATE "C", node.node COLLATE "C""#,
        org,
        name,
        after,
        limit,
    )
    .fetch_all(conn)
    .await?;
    let mut groups: Vec<HaGroupWithMembers> = Vec::new();
    for row in rows {
        if groups.last().is_none_or(|last| last.group.name != row.name) {
            let group = HaGroup {
                org: org.to_owned(),
                name: row.name,
                description: row.description,
                is_admin: row.is_admin,
                owner: account(row.owner_org, row.owner),
                updated_at: from_sql(row.updated_at),
            };
            groups.push(HaGroupWithMembers { group, members: Vec::new() });
        }
        if let (Some(last), Some(node), Some(owner)) =
            (groups.last_mut(), row.node, account(row.node_owner_org, row.node_owner))
        {
            last.members.push((node, owner));
        }
    }
    Ok(groups)
}

fn account(org: Option<String>, name: Option<String>) -> Option<Account> {
    org.zip(name).map(|(org, name)| Account { org, name })
}

/// Finds a group and locks it against all other changes until the end of the transaction.
pub async fn lock_group(tx: &mut PgConnection, org: &str, name: &str) -> Result<Option<HaGroup>, StoreError> {
    let row = sqlx::query!(
        r#"-- ha_group.lock_group
        SELECT description, is_admin, owner_org, owner, updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM ha_group
        WHERE org = $1 AND name = $2
        FOR UPDATE"#,
        org,
        name,
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(|row| HaGroup {
        org: org.to_owned(),
        name: name.to_owned(),
        description: row.description,
        is_admin: row.is_admin,
        owner: account(row.owner_org, row.owner),
        updated_at: from_sql(row.updated_at),
    }))
}

/// Finds nodes and locks them against entering or leaving groups until the end of the transaction. Sorted by id, without those that do
/// not exist.
pub async fn lock_candidates(
    tx: &mut PgConnection,
    org: &str,
    nodes: &[String],
) -> Result<Vec<Candidate>, StoreError> {
    let rows = sqlx::query!(
        "-- ha_group.lock_candidates
        SELECT node, owner_org, owner, node_type
        FROM node
        WHERE org = $1 AND node = ANY ($2)
        ORDER BY node
        FOR NO KEY UPDATE",
        org,
        nodes,
    )
    .fetch_all(tx)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Candidate {
            node: row.node,
            owner: Account { org: row.owner_org, name: row.owner },
            node_type: row.node_type,
        })
        .collect())
}

/// Ids of the members of a group, sorted.
pub async fn list_members(tx: &mut PgConnection, org: &str, name: &str) -> Result<Vec<String>, StoreError> {
    let rows = sqlx::query!(
        r#"-- ha_group.list_members
        SELECT node FROM ha_group_member WHERE org = $1 AND ha_group = $2 ORDER BY node COLLATE "C""#,
        org,
        name,
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into_iter().map(|row| row.node).collect())
}

/// Groups of nodes: only those nodes that are in one.
pub async fn list_memberships(
    tx: &mut PgConnection,
    org: &str,
    nodes: &[String],
) -> Result<Vec<Membership>, StoreError> {
    let rows = sqlx::query!(
        r#"-- ha_group.list_memberships
        SELECT node, ha_group FROM ha_group_member WHERE org = $1 AND node = ANY ($2) ORDER BY node COLLATE "C""#,
        org,
        nodes,
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into_iter().map(|row| Membership { node: row.node, ha_group: row.ha_group }).collect())
}

/// Makes a group without members.
///
/// # Errors
/// [`StoreError::Conflict`] with `ha_group_org_name_key` when it exists, [`StoreError::ParentMissing`] with `ha_group_org_fk` when the
/// organization does not.
pub async fn insert_group(tx: &mut PgConnection, group: &HaGroup) -> Result<(), StoreError> {
    sqlx::query!(
        "-- ha_group.insert_group
        INSERT INTO ha_group (org, name, description, is_admin, owner_org, owner, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)",
        group.org,
        group.name,
        group.description,
        group.is_admin,
        group.owner.as_ref().map(|owner| owner.org.as_str()),
        group.owner.as_ref().map(|owner| owner.name.as_str()),
        to_sql(group.updated_at) as _,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Sets description and time of the last change.
pub async fn update_group(
    tx: &mut PgConnection,
    org: &str,
    name: &str,
    description: Option<&str>,
    at: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- ha_group.update_group
        UPDATE ha_group SET description = $3, updated_at = $4 WHERE org = $1 AND name = $2",
        org,
        name,
        description,
        to_sql(at) as _,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Removes a group; its nodes are in no group any more.
pub async fn delete_group(tx: &mut PgConnection, org: &str, name: &str) -> Result<(), StoreError> {
    sqlx::query!(
        "-- ha_group.delete_group
        DELETE FROM ha_group WHERE org = $1 AND name = $2",
        org,
        name,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Puts nodes into a group and returns how many of them went in: those that are in a group already stay where they are. The caller
/// has locked the nodes.
///
/// # Errors
/// [`StoreError::ParentMissing`] when the group or a node does not exist.
pub async fn insert_members(
    tx: &mut PgConnection,
    org: &str,
    name: &str,
    nodes: &[String],
) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- ha_group.insert_members
        INSERT INTO ha_group_member (org, node, ha_group)
        SELECT $1, row.node, $2
        FROM UNNEST($3::text[]) AS row (node)
        ORDER BY row.node
        ON CONFLICT ON CONSTRAINT ha_group_member_org_node_key DO NOTHING",
        org,
        name,
        nodes,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected())
}

/// Takes nodes out of a group and returns how many of them were in it.
pub async fn delete_members(
    tx: &mut PgConnection,
    org: &str,
    name: &str,
    nodes: &[String],
) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- ha_group.delete_members
        DELETE FROM ha_group_member WHERE org = $1 AND ha_group = $2 AND node = ANY ($3)",
        org,
        name,
        nodes,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected())
}
