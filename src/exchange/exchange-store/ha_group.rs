//! HA groups. Membership is one row per node in `ha_group_member`, whose key limits a node to one group.
//!
//! Every write locks in this order: the row of the one group it changes, then the rows of all nodes concerned by id. So two writes that
//! compete for nodes wait for each other and never deadlock.
//! Source: design 1.2; requirements 004; exchange-api 6.

use evenkeel_access::right;
use evenkeel_ids::UserId;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use super::permitted::Permitted;

/// A group as stored, without its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaGroup {
    /// Organization.
    pub org: String,
    /// Its name.
    pub name: String,
    /// Description.
    pub description: Option<String>,
    /// Number of members that may be disrupted at once, as the exchange checked it; none holds the defaults.
    pub orchestration: Option<Value>,
    /// True if an administrator created the group.
    pub is_admin: bool,
    /// Its creator; none when that account is gone.
    pub owner: Option<UserId>,
    /// Last change.
    pub updated_at: Timestamp,
}

/// The visible part of groups for a reader, and their form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaGroupView {
    /// Only nodes of this account are shown as members; `None` shows all.
    pub members_of: Option<UserId>,
    /// True if groups created by an administrator show their description.
    pub describes_admin_groups: bool,
    /// True if `updated` also contains the time of the last change.
    pub is_document: bool,
}

/// A page of groups in the order of their names, in the shape of the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaGroupList {
    /// JSON objects with commas between them.
    pub json: String,
    /// Number of groups.
    pub count: i64,
    /// Name of the last.
    pub last: String,
}

/// A node with the facts that membership depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub node: String,
    /// User that owns it.
    pub owner: UserId,
    /// `device` or `cluster`.
    pub node_type: String,
    /// The version in which its agent reads tasks and carries out commands, if it does.
    pub orchestration: Option<String>,
}

/// A node and the group it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Id of the node.
    pub node: String,
    /// Name of the group.
    pub ha_group: String,
}

/// Counts the groups of an account, in all organizations.
pub async fn count_owned(conn: &mut PgConnection, owner: &UserId) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- ha_group.count_owned
        SELECT count(*) AS "count!" FROM ha_group WHERE owner_org = $1 AND owner = $2"#,
        owner.org(),
        owner.name(),
    )
    .fetch_one(conn)
    .await?;
    Ok(row.count)
}

/// Lists groups of an organization with their members as of one instant, sorted by name, at most `limit` after the name `after`; `name`
/// limits the list to one. `None` when there is none.
///
/// The database builds the JSON, because a row for each member costs many times more here than the text of all. Its shape is that of
/// `HaGroupResponse`, its times that of `wire_time`.
pub async fn list_groups(
    conn: &mut PgConnection,
    org: &str,
    name: Option<&str>,
    view: &HaGroupView,
    after: Option<&str>,
    limit: i64,
) -> Result<Option<HaGroupList>, StoreError> {
    let row = sqlx::query!(
        r#"-- ha_group.list_groups
        WITH page AS (
            SELECT name, CASE WHEN $7 OR NOT is_admin THEN description END AS description, is_admin, orchestration, to_char(
                       updated_at AT TIME ZONE 'UTC',
                       CASE WHEN EXTRACT(MICROSECONDS FROM updated_at)::bigint % 1000000 = 0 THEN 'YYYY-MM-DD"T"HH24:MI:SS"Z"'
                            WHEN EXTRACT(MICROSECONDS FROM updated_at)::bigint % 1000 = 0 THEN 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'
                            ELSE 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"' END) AS updated
            FROM ha_group
            WHERE org = $1
              AND ($2::text IS NULL OR name = $2)
              AND name COLLATE "C" > COALESCE($3::text, '')
            ORDER BY name COLLATE "C"
            LIMIT $4
        )
        SELECT count(*) AS "count!", max(name COLLATE "C") AS last, string_agg(format(
                   '{"name":%s,"description":%s,"members":[%s],"admin":%s%s,"lastUpdated":"%s"%s}',
                   to_json(name), to_json(COALESCE(description, '')), members, to_json(is_admin),
                   ',"orchestration":' || orchestration::text, updated,
                   CASE WHEN $8 THEN format(',"updated":"%s"', updated) END), ',' ORDER BY name COLLATE "C") AS json
        FROM page
        CROSS JOIN LATERAL (
            SELECT string_agg(to_json(member.node)::text, ',' ORDER BY member.node COLLATE "C") AS members
            FROM ha_group_member AS member
            WHERE member.org = $1 AND member.ha_group = page.name
              AND ($6::text IS NULL OR EXISTS (
                  SELECT FROM node
                  WHERE node.org = member.org AND node.node = member.node AND node.owner_org = $5 AND node.owner = $6))
        ) AS member"#,
        org,
        name,
        after,
        limit,
        view.members_of.as_ref().map(UserId::org),
        view.members_of.as_ref().map(UserId::name),
        view.describes_admin_groups,
        view.is_document,
    )
    .fetch_one(conn)
    .await?;
    let found = row.json.zip(row.last);
    Ok(found.map(|(json, last)| HaGroupList { json, count: row.count, last }))
}

/// Counts the groups of an organization, up to a number.
pub async fn count_groups(conn: &mut PgConnection, org: &str, most: i64) -> Result<i64, StoreError> {
    let count = sqlx::query_scalar!(
        r#"-- ha_group.count_groups
        SELECT count(*) AS "count!" FROM (SELECT 1 FROM ha_group WHERE org = $1 LIMIT $2) AS selected"#,
        org,
        most,
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// Returns those of some nodes that an account owns.
pub async fn list_owned(
    conn: &mut PgConnection,
    org: &str,
    nodes: &[String],
    owner: &UserId,
) -> Result<Vec<String>, StoreError> {
    let rows = sqlx::query_scalar!(
        "-- ha_group.list_owned
        SELECT node FROM node WHERE org = $1 AND node = ANY ($2) AND owner_org = $3 AND owner = $4 ORDER BY node",
        org,
        nodes,
        owner.org(),
        owner.name(),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

fn account(org: Option<String>, name: Option<String>) -> Option<UserId> {
    org.zip(name).map(|(org, name)| UserId::new(&org, &name))
}

/// Finds a group and locks it against all other changes until the end of the transaction.
pub async fn lock_group(tx: &mut PgConnection, org: &str, name: &str) -> Result<Option<HaGroup>, StoreError> {
    // FOR UPDATE and not FOR NO KEY UPDATE: the foreign key of a member locks this row FOR KEY SHARE, so the weaker lock
    // would let others insert members.
    let row = sqlx::query!(
        r#"-- ha_group.lock_group
        SELECT description, is_admin, owner_org, owner, updated_at AS "updated_at: jiff_sqlx::Timestamp",
               orchestration
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
        orchestration: row.orchestration,
        is_admin: row.is_admin,
        owner: account(row.owner_org, row.owner),
        updated_at: from_sql(row.updated_at),
    }))
}

/// Finds nodes and locks them against entering or leaving groups until the end of the transaction. Sorted by id; missing nodes are
/// left out.
pub async fn lock_candidates(
    tx: &mut PgConnection,
    org: &str,
    nodes: &[String],
) -> Result<Vec<Candidate>, StoreError> {
    // FOR NO KEY UPDATE, so that inserts with a foreign key to a node, such as heartbeats and messages, do not wait. The
    // order prevents a deadlock of two changes that concern the same nodes.
    let rows = sqlx::query_as!(
        CandidateRow,
        "-- ha_group.lock_candidates
        SELECT node, owner_org, owner, node_type, software_versions ->> 'orchestration' AS \"orchestration?\"
        FROM node
        WHERE org = $1 AND node = ANY ($2)
        ORDER BY node
        FOR NO KEY UPDATE",
        org,
        nodes,
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into_iter().map(CandidateRow::into_candidate).collect())
}

/// Finds the members of a group and locks them as [`lock_candidates`] does, in the same order. The caller has locked the group.
pub async fn lock_members(
    tx: &mut PgConnection,
    org: &str,
    name: &str,
) -> Result<Vec<Candidate>, StoreError> {
    // OF node: the caller's lock of the group already prevents others from adding members.
    let rows = sqlx::query_as!(
        CandidateRow,
        "-- ha_group.lock_members
        SELECT node.node, node.owner_org, node.owner, node.node_type,
               node.software_versions ->> 'orchestration' AS \"orchestration?\"
        FROM ha_group_member AS member
        JOIN node ON node.org = member.org AND node.node = member.node
        WHERE member.org = $1 AND member.ha_group = $2
        ORDER BY node.node
        FOR NO KEY UPDATE OF node",
        org,
        name,
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into_iter().map(CandidateRow::into_candidate).collect())
}

struct CandidateRow {
    node: String,
    owner_org: String,
    owner: String,
    node_type: String,
    orchestration: Option<String>,
}

impl CandidateRow {
    fn into_candidate(self) -> Candidate {
        let Self { node, owner_org, owner, node_type, orchestration } = self;
        Candidate { node, owner: UserId::new(&owner_org, &owner), node_type, orchestration }
    }
}

/// Lists the ids of the members of a group, sorted.
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

/// Lists the groups of nodes; nodes without a group are left out.
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

/// Inserts a group without members.
///
/// # Errors
/// [`StoreError::Conflict`] with `ha_group_org_name_key` when it exists, [`StoreError::ParentMissing`] with `ha_group_org_fk` when the
/// organization does not.
pub async fn insert_group(
    tx: &mut Permitted<right::HaGroupWrite>,
    group: &HaGroup,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- ha_group.insert_group
        INSERT INTO ha_group (org, name, description, is_admin, owner_org, owner, updated_at, orchestration)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        group.org,
        group.name,
        group.description,
        group.is_admin,
        group.owner.as_ref().map(UserId::org),
        group.owner.as_ref().map(UserId::name),
        to_sql(group.updated_at) as _,
        group.orchestration,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Sets description, orchestration and time of the last change.
pub async fn update_group(
    tx: &mut Permitted<right::HaGroupWrite>,
    group: &HaGroup,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- ha_group.update_group
        UPDATE ha_group SET description = $3, updated_at = $4, orchestration = $5 WHERE org = $1 AND name = $2",
        group.org,
        group.name,
        group.description,
        to_sql(group.updated_at) as _,
        group.orchestration,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Removes a group; its nodes are then in no group.
pub async fn delete_group(
    tx: &mut Permitted<right::HaGroupWrite>,
    org: &str,
    name: &str,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- ha_group.delete_group
        DELETE FROM ha_group WHERE org = $1 AND name = $2",
        org,
        name,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Adds nodes to a group and returns how many were added: nodes that are already in a group are skipped. The caller has locked the
/// nodes.
///
/// # Errors
/// [`StoreError::ParentMissing`] when the group or a node does not exist.
pub async fn insert_members(
    tx: &mut Permitted<right::HaGroupWrite>,
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
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected())
}

/// Removes nodes from a group and returns how many of them were in it.
pub async fn delete_members(
    tx: &mut Permitted<right::HaGroupWrite>,
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
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected())
}

#[cfg(test)]
mod tests {
    use evenkeel_test_database::backend;

    use super::*;
    use crate::account::delete_account;
    use crate::node::{delete_node, find_node};
    use crate::tests::{Org, at, commit, shared, texts};

    async fn add_group(org: &Org, name: &str, owner: Option<&str>, is_admin: bool) {
        let group = HaGroup {
            org: org.to_string(),
            name: name.to_owned(),
            description: Some("about".to_owned()),
            orchestration: None,
            is_admin,
            owner: owner.map(|owner| org.user(owner)),
            updated_at: at(0),
        };
        org.write(async |tx| insert_group(tx, &group).await).await;
    }

    async fn add_members(org: &Org, group: &str, nodes: &[&str]) -> u64 {
        let nodes = texts(nodes);
        org.write(async |tx| insert_members(tx, org, group, &nodes).await).await
    }

    #[tokio::test]
    async fn node_that_enters_two_groups_at_once_is_in_the_first() {
        let org = Org::new("group-race").await;
        org.add_nodes(&["m", "n"]).await;
        add_group(&org, "first", None, false).await;
        add_group(&org, "second", None, false).await;
        let (mut winner, mut loser) = (org.begin().await, org.begin().await);
        let nodes = texts(&["n", "m"]);
        assert_eq!(insert_members(&mut winner, &org, "first", &nodes[..1]).await.unwrap(), 1);
        let process = backend(&mut loser).await;
        let enter = insert_members(&mut loser, &org, "second", &nodes);
        let added = shared().await.release_when_awaited(process, enter, commit(winner)).await;
        assert_eq!(added.unwrap(), 1, "only the free node");
        commit(loser).await;
        let mut connection = org.connection().await;
        let found = list_memberships(&mut connection, &org, &nodes).await.unwrap();
        let found: Vec<_> = found.iter().map(|row| (row.node.as_str(), row.ha_group.as_str())).collect();
        assert_eq!(found, [("m", "second"), ("n", "first")]);
    }

    #[tokio::test]
    async fn writes_that_lock_the_same_nodes_in_other_orders_wait_for_each_other() {
        let org = Org::new("group-lock").await;
        org.add_nodes(&["a", "b", "c"]).await;
        add_group(&org, "g", None, false).await;
        add_members(&org, "g", &["b", "a"]).await;
        let (mut first, mut second) = (org.begin::<right::HaGroupWrite>().await, org.begin().await);
        let found = lock_members(&mut first, &org, "g").await.unwrap();
        assert_eq!(found.iter().map(|row| row.node.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let process = backend(&mut second).await;
        let nodes = texts(&["c", "absent", "b"]);
        let waiter = async {
            let second: &mut Permitted<right::HaGroupWrite> = &mut second;
            lock_candidates(second, &org, &nodes).await.unwrap()
        };
        let found = shared().await.release_when_awaited(process, waiter, commit(first)).await;
        assert_eq!(found.iter().map(|row| row.node.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    }

    #[tokio::test]
    async fn members_are_removed_only_from_their_group() {
        let org = Org::new("group-leave").await;
        org.add_nodes(&["a", "b", "c"]).await;
        for (group, nodes) in [("g", ["a", "b"].as_slice()), ("h", &["c"])] {
            add_group(&org, group, None, false).await;
            add_members(&org, group, nodes).await;
        }
        let nodes = texts(&["a", "c"]);
        let removed = org.write(async |tx| delete_members(tx, &org, "g", &nodes).await).await;
        assert_eq!(removed, 1);
        let mut connection = org.connection().await;
        assert_eq!(list_members(&mut connection, &org, "g").await.unwrap(), ["b"]);
        assert_eq!(list_members(&mut connection, &org, "h").await.unwrap(), ["c"]);
    }

    #[tokio::test]
    async fn membership_ends_with_the_node_or_the_group_and_outlives_the_creator() {
        let org = Org::new("group-end").await;
        org.add_account("creator").await;
        org.add_nodes(&["a", "b"]).await;
        add_group(&org, "g", Some("creator"), false).await;
        add_members(&org, "g", &["a", "b"]).await;
        org.write(async |tx| delete_account(tx, &org, "creator").await).await;
        org.write(async |tx| delete_node(tx, &org, "a").await).await;
        let mut connection = org.connection().await;
        let group = lock_group(&mut connection, &org, "g").await.unwrap();
        assert_eq!(group.expect("it stays").owner, None);
        assert_eq!(list_members(&mut connection, &org, "g").await.unwrap(), ["b"]);
        org.write(async |tx| delete_group(tx, &org, "g").await).await;
        let node = find_node(&mut connection, &org, "b").await.unwrap();
        assert_eq!(node.expect("it stays").ha_group, None);
    }

    #[tokio::test]
    async fn pages_of_groups_are_in_the_order_of_bytes_and_show_a_user_its_own_nodes() {
        let org = Org::new("group-list").await;
        org.add_account("v").await;
        org.add_nodes(&["a", "b"]).await;
        org.insert_node(&crate::node::NodeRow { owner: "v".to_owned(), ..org.node("c") }).await;
        for (name, is_admin) in [("b", false), ("B", true), ("a", false)] {
            add_group(&org, name, None, is_admin).await;
        }
        add_members(&org, "b", &["c", "b", "a"]).await;
        let view = HaGroupView {
            members_of: Some(org.user("u")),
            describes_admin_groups: false,
            is_document: false,
        };
        let mut connection = org.connection().await;
        let mut page = async |after: Option<&str>| {
            list_groups(&mut connection, &org, None, &view, after, 2).await.unwrap()
        };
        let first = page(None).await.expect("groups");
        assert_eq!((first.count, first.last.as_str()), (2, "a"));
        let json: Value = serde_json::from_str(&format!("[{}]", first.json)).unwrap();
        assert_eq!((&json[0]["name"], &json[0]["description"]), (&"B".into(), &"".into()));
        assert_eq!((&json[1]["name"], &json[1]["description"]), (&"a".into(), &"about".into()));
        let second = page(Some("a")).await.expect("groups");
        let json: Value = serde_json::from_str(&second.json).unwrap();
        assert_eq!(json["members"], serde_json::json!(["a", "b"]));
        assert_eq!(page(Some("b")).await, None);
    }
}
