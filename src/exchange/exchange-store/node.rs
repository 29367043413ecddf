//! Nodes: rows with their last heartbeat and HA group joined in.

use evenkeel_access::right;
use evenkeel_ids::UserId;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::document_bytes::text_bytes;
use super::node_spec::NodeSpecRow;
use super::permitted::Permitted;

/// JSON in its original text.
pub type JsonText = Box<RawValue>;

/// A node as stored.
#[derive(Debug, Clone)]
pub struct NodeRow {
    /// Organization.
    pub org: String,
    /// Bare id.
    pub node: String,
    /// Display name.
    pub name: String,
    /// Organization of the owner.
    pub owner_org: String,
    /// Account of the owner.
    pub owner: String,
    /// `device`, `cluster`, or any value set by a patch.
    pub node_type: String,
    /// `org/pattern` or empty.
    pub pattern: String,
    /// List of registered services.
    pub registered_services: JsonText,
    /// List of values for variables of services.
    pub user_input: JsonText,
    /// Endpoint of the node.
    pub msg_end_point: String,
    /// Object with versions of the agent's parts.
    pub software_versions: JsonText,
    /// Key for messages to the node.
    pub public_key: String,
    /// Architecture.
    pub arch: String,
    /// Object with intervals in seconds.
    pub heartbeat_intervals: JsonText,
    /// Namespace of a cluster agent.
    pub cluster_namespace: String,
    /// True if the cluster agent is bound to its namespace.
    pub is_namespace_scoped: bool,
    /// Last change.
    pub updated_at: Timestamp,
    /// Last stored heartbeat; `None` when never seen.
    pub seen_at: Option<Timestamp>,
    /// HA group the node is in.
    pub ha_group: Option<String>,
    /// Operator's settings for orchestration.
    pub spec: NodeSpecRow,
    /// `running` or `stopped`, as the agent reported.
    pub agent_state: String,
    /// Monitor state of the agent.
    pub monitor_state: String,
    /// When it reported that; none before its first report.
    pub monitor_state_since: Option<Timestamp>,
    /// Compatibility version, which must be the same on all nodes of a workload.
    pub compat_version: Option<i64>,
    /// The runs of its agent; none of agents that do not name themselves.
    pub agent_runs: Option<serde_json::Value>,
}

struct Raw {
    org: String,
    node: String,
    name: String,
    owner_org: String,
    owner: String,
    node_type: String,
    pattern: String,
    registered_services: Json<JsonText>,
    user_input: Json<JsonText>,
    msg_end_point: String,
    software_versions: Json<JsonText>,
    public_key: String,
    arch: String,
    heartbeat_intervals: Json<JsonText>,
    cluster_namespace: String,
    is_namespace_scoped: bool,
    updated_at: jiff_sqlx::Timestamp,
    seen_at: Option<jiff_sqlx::Timestamp>,
    ha_group: Option<String>,
    availability: String,
    is_frozen: bool,
    is_drain_forced: bool,
    is_in_upgrade: bool,
    capacities: Option<serde_json::Value>,
    fault_domain: Option<String>,
    upgrade_domain: Option<String>,
    spec_updated_by: Option<String>,
    agent_state: String,
    monitor_state: String,
    monitor_state_since: Option<jiff_sqlx::Timestamp>,
    compat_version: Option<i64>,
    agent_runs: Option<serde_json::Value>,
}

impl NodeRow {
    /// Bytes of the record as JSON, as the column `record_bytes` counts them.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        let texts = [
            &self.name,
            &self.node_type,
            &self.pattern,
            &self.msg_end_point,
            &self.public_key,
            &self.arch,
            &self.cluster_namespace,
        ];
        let documents =
            [&self.registered_services, &self.user_input, &self.software_versions, &self.heartbeat_intervals];
        let texts = texts.into_iter().map(|text| text_bytes(text));
        texts.chain(documents.map(|document| document.get().len())).sum()
    }
}

impl From<Raw> for NodeRow {
    fn from(raw: Raw) -> NodeRow {
        NodeRow {
            org: raw.org,
            node: raw.node,
            name: raw.name,
            owner_org: raw.owner_org,
            owner: raw.owner,
            node_type: raw.node_type,
            pattern: raw.pattern,
            registered_services: raw.registered_services.0,
            user_input: raw.user_input.0,
            msg_end_point: raw.msg_end_point,
            software_versions: raw.software_versions.0,
            public_key: raw.public_key,
            arch: raw.arch,
            heartbeat_intervals: raw.heartbeat_intervals.0,
            cluster_namespace: raw.cluster_namespace,
            is_namespace_scoped: raw.is_namespace_scoped,
            updated_at: from_sql(raw.updated_at),
            seen_at: raw.seen_at.map(from_sql),
            ha_group: raw.ha_group,
            spec: NodeSpecRow {
                availability: raw.availability,
                is_frozen: raw.is_frozen,
                is_drain_forced: raw.is_drain_forced,
                is_in_upgrade: raw.is_in_upgrade,
                capacities: raw.capacities,
                fault_domain: raw.fault_domain,
                upgrade_domain: raw.upgrade_domain,
                updated_by: raw.spec_updated_by,
            },
            agent_state: raw.agent_state,
            monitor_state: raw.monitor_state,
            monitor_state_since: raw.monitor_state_since.map(from_sql),
            compat_version: raw.compat_version,
            agent_runs: raw.agent_runs,
        }
    }
}

/// Selects nodes with columns of other tables. Those are queried for each node found, by key: with a filter of unknown selectivity a
/// join may be planned as one of everything with everything.
macro_rules! select_nodes {
    ($name:literal, $tail:literal $(+ $more:literal)*, $($argument:expr),*) => {
        sqlx::query_as!(
            Raw,
            "-- " + $name + r#"
            SELECT node.org, node.node, node.name, node.owner_org, node.owner, node.node_type, node.pattern,
                   node.registered_services AS "registered_services: Json<JsonText>",
                   node.user_input AS "user_input: Json<JsonText>", node.msg_end_point,
                   node.software_versions AS "software_versions: Json<JsonText>", node.public_key, node.arch,
                   node.heartbeat_intervals AS "heartbeat_intervals: Json<JsonText>", node.cluster_namespace,
                   node.is_namespace_scoped, node.updated_at AS "updated_at: jiff_sqlx::Timestamp", node.availability,
                   node.is_frozen, node.is_drain_forced, node.is_in_upgrade, node.capacities, node.fault_domain, node.upgrade_domain, node.spec_updated_by, node.agent_state,
                   node.monitor_state,
                   node.monitor_state_since AS "monitor_state_since: jiff_sqlx::Timestamp", node.compat_version, node.agent_runs,
                   (SELECT heartbeat.seen_at FROM node_heartbeat AS heartbeat
                    WHERE heartbeat.org = node.org AND heartbeat.node = node.node) AS "seen_at?: jiff_sqlx::Timestamp",
                   (SELECT member.ha_group FROM ha_group_member AS member
                    WHERE member.org = node.org AND member.node = node.node) AS "ha_group?"
            FROM node
            "# + $tail $(+ $more)*,
            $($argument),*
        )
    };
}

/// Finds one node.
pub async fn find_node(
    conn: &mut PgConnection,
    org: &str,
    node: &str,
) -> Result<Option<NodeRow>, StoreError> {
    let row = select_nodes!("node.find_node", "WHERE node.org = $1 AND node.node = $2", org, node)
        .fetch_optional(conn)
        .await?;
    Ok(row.map(NodeRow::from))
}

/// Finds one node and locks its row until the end of the transaction.
pub async fn lock_node(tx: &mut PgConnection, org: &str, node: &str) -> Result<Option<NodeRow>, StoreError> {
    let row = select_nodes!(
        "node.lock_node",
        "WHERE node.org = $1 AND node.node = $2 FOR NO KEY UPDATE OF node",
        org,
        node
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(NodeRow::from))
}

/// The filter of a list of nodes of an organization; texts are patterns with `%` and `_`.
#[derive(Debug, Clone, Default)]
pub struct NodeFilter {
    /// Pattern of `org/node`.
    pub id: Option<String>,
    /// Pattern of the name.
    pub name: Option<String>,
    /// Pattern of the architecture.
    pub arch: Option<String>,
    /// Pattern of the namespace.
    pub cluster_namespace: Option<String>,
    /// Pattern of `org/user` of the owner.
    pub owner: Option<String>,
    /// Exact kind.
    pub node_type: Option<String>,
    /// Only nodes that are bound to their namespace, or only others.
    pub is_namespace_scoped: Option<bool>,
    /// Only nodes of this user.
    pub owned_by: Option<UserId>,
    /// The range in which the pattern of the id can match; see [`NodeFilter::limit_range`].
    pub range: Option<(String, String)>,
}

impl NodeFilter {
    /// Limits the list to the range in which the pattern of the id can match: a thousand nodes with a common prefix are found among a
    /// hundred thousand without reading the others. Only for databases that order texts by their bytes ([`evenkeel_store::Database::orders_by_bytes`]).
    #[must_use]
    pub fn limit_range(self, org: &str) -> NodeFilter {
        let pattern = self.id.as_deref().and_then(|id| id.strip_prefix(org)?.strip_prefix('/'));
        let range = pattern.and_then(range_of);
        NodeFilter { range, ..self }
    }
}

/// Returns the range of texts with the prefix of a pattern before its first wildcard: the first text, and the end (exclusive).
fn range_of(pattern: &str) -> Option<(String, String)> {
    let fixed = pattern.split(['%', '_', '\\']).next()?;
    let last = fixed.chars().next_back()?;
    // The successor is a surrogate and so no character: the range stays open.
    let next = char::from_u32(u32::from(last) + 1)?;
    let high = format!("{}{next}", &fixed[..fixed.len() - last.len_utf8()]);
    Some((fixed.to_owned(), high))
}

/// Selects the ids of nodes, as [`select_nodes`] their records.
macro_rules! select_node_ids {
    ($name:literal, $tail:literal $(+ $more:literal)*, $($argument:expr),*) => {
        sqlx::query_scalar!(
            "-- " + $name + "
            SELECT node.node
            FROM node
            " + $tail $(+ $more)*,
            $($argument),*
        )
    };
}

/// Counts nodes, as [`select_nodes`] selects their records.
macro_rules! count_selected_nodes {
    ($name:literal, $tail:literal $(+ $more:literal)*, $($argument:expr),*) => {
        sqlx::query_scalar!(
            "-- " + $name + r#"
            SELECT count(*) AS "count!"
            FROM (
                SELECT 1
                FROM node
                "# + $tail $(+ $more)* + "
            ) AS selected",
            $($argument),*
        )
    };
}

/// Selects nodes of an organization by a filter, by id, those after the given one, at most `limit`; `$select` names the macro that begins the
/// query, `$range` adds the range of the filter.
///
/// A filter that is not given is a `CASE`: with `OR`, a plan without known values expects hardly any row, and sorts the whole
/// organization for each page instead of reading on in order.
macro_rules! select_filtered {
    ($select:ident, $name:literal, $range:literal, ($org:ident, $filter:ident, $after:ident, $limit:ident) $(, $bound:expr)*) => {
        $select!(
            $name,
            "WHERE node.org = $1
               AND CASE WHEN $2::text IS NULL THEN true ELSE node.owner_org = $2 AND node.owner = $3 END
               AND CASE WHEN $4::text IS NULL THEN true ELSE node.org || '/' || node.node LIKE $4 END
               AND CASE WHEN $5::text IS NULL THEN true ELSE node.name LIKE $5 END
               AND CASE WHEN $6::text IS NULL THEN true ELSE node.arch LIKE $6 END
               AND CASE WHEN $7::text IS NULL THEN true ELSE node.cluster_namespace LIKE $7 END
               AND CASE WHEN $8::text IS NULL THEN true ELSE node.owner_org || '/' || node.owner LIKE $8 END
               AND CASE WHEN $9::text IS NULL THEN true ELSE lower(node.node_type) = lower($9) END
               AND CASE WHEN $10::boolean IS NULL THEN true ELSE node.is_namespace_scoped = $10 END
               AND node.node > $11 "
                + $range
                + "ORDER BY node.node
             LIMIT $12",
            $org,
            $filter.owned_by.as_ref().map(UserId::org),
            $filter.owned_by.as_ref().map(UserId::name),
            $filter.id.as_deref(),
            $filter.name.as_deref(),
            $filter.arch.as_deref(),
            $filter.cluster_namespace.as_deref(),
            $filter.owner.as_deref(),
            $filter.node_type.as_deref(),
            $filter.is_namespace_scoped,
            $after.unwrap_or_default(),
            $limit
            $(, $bound)*
        )
    };
}
pub(super) use select_filtered;

/// Reads what [`select_filtered`] selects, within the range of the filter if it has one.
macro_rules! fetch_filtered {
    ($select:ident, $name:literal, $name_in_range:literal, $conn:ident, ($org:ident, $filter:ident, $after:ident, $limit:ident)) => {
        match &$filter.range {
            Some((low, high)) => {
                select_filtered!(
                    $select,
                    $name_in_range,
                    "AND node.node >= $13 AND node.node < $14 ",
                    ($org, $filter, $after, $limit),
                    low,
                    high
                )
                .fetch_all($conn)
                .await?
            }
            None => {
                select_filtered!($select, $name, "", ($org, $filter, $after, $limit)).fetch_all($conn).await?
            }
        }
    };
}

/// Lists nodes of an organization by id, those after the given one, at most `limit`.
pub async fn list_nodes(
    conn: &mut PgConnection,
    org: &str,
    filter: &NodeFilter,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<NodeRow>, StoreError> {
    let rows = fetch_filtered!(
        select_nodes,
        "node.list_nodes",
        "node.list_nodes_in_range",
        conn,
        (org, filter, after, limit)
    );
    Ok(rows.into_iter().map(NodeRow::from).collect())
}

/// Lists the ids of nodes of an organization, as [`list_nodes`] does, without reading the records.
pub async fn list_node_ids(
    conn: &mut PgConnection,
    org: &str,
    filter: &NodeFilter,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<String>, StoreError> {
    Ok(fetch_filtered!(
        select_node_ids,
        "node.list_node_ids",
        "node.list_node_ids_in_range",
        conn,
        (org, filter, after, limit)
    ))
}

/// Counts the nodes of an organization that [`list_nodes`] lists, up to a number.
pub async fn count_nodes(
    conn: &mut PgConnection,
    org: &str,
    filter: &NodeFilter,
    most: i64,
) -> Result<i64, StoreError> {
    let after: Option<&str> = None;
    let counts = fetch_filtered!(
        count_selected_nodes,
        "node.count_nodes",
        "node.count_nodes_in_range",
        conn,
        (org, filter, after, most)
    );
    Ok(counts.into_iter().sum())
}

/// Inserts a node. The row's heartbeat, group and orchestration are not written: a new node is active.
///
/// # Errors
/// [`StoreError::ParentMissing`] `node_org_fk` when the organization does not exist; [`StoreError::Conflict`] when the node does.
pub async fn insert_node(
    tx: &mut Permitted<right::NodeWrite>,
    row: &NodeRow,
    token_hash: &str,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- node.insert_node
        INSERT INTO node (org, node, name, owner_org, owner, token_hash, node_type, pattern, registered_services,
                          user_input, msg_end_point, software_versions, public_key, arch, heartbeat_intervals,
                          cluster_namespace, is_namespace_scoped, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::json, $10::text::json, $11, $12::text::json, $13, $14, $15::text::json, $16, $17, $18)",
        row.org,
        row.node,
        row.name,
        row.owner_org,
        row.owner,
        token_hash,
        row.node_type,
        row.pattern,
        row.registered_services.get(),
        row.user_input.get(),
        row.msg_end_point,
        row.software_versions.get(),
        row.public_key,
        row.arch,
        row.heartbeat_intervals.get(),
        row.cluster_namespace,
        row.is_namespace_scoped,
        to_sql(row.updated_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Updates every attribute of an existing node except its orchestration; the token only when one is given. The owner never changes.
pub async fn update_node(
    tx: &mut Permitted<right::NodeWrite>,
    row: &NodeRow,
    token_hash: Option<&str>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- node.update_node
        UPDATE node
        SET name = $3, token_hash = COALESCE($4, token_hash), node_type = $5, pattern = $6, registered_services = $7::text::json,
            user_input = $8::text::json, msg_end_point = $9, software_versions = $10::text::json, public_key = $11, arch = $12,
            heartbeat_intervals = $13::text::json, cluster_namespace = $14, is_namespace_scoped = $15, updated_at = $16,
            agent_state = $17
        WHERE org = $1 AND node = $2",
        row.org,
        row.node,
        row.name,
        token_hash,
        row.node_type,
        row.pattern,
        row.registered_services.get(),
        row.user_input.get(),
        row.msg_end_point,
        row.software_versions.get(),
        row.public_key,
        row.arch,
        row.heartbeat_intervals.get(),
        row.cluster_namespace,
        row.is_namespace_scoped,
        to_sql(row.updated_at) as _,
        row.agent_state,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Updates the time of the last change, so that policy searches return the node again; false when it does not exist.
pub async fn touch_node(
    tx: &mut Permitted<right::NodeWrite>,
    org: &str,
    node: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- node.touch_node
        UPDATE node SET updated_at = $3 WHERE org = $1 AND node = $2",
        org,
        node,
        to_sql(now) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Returns whether the node exists.
pub async fn has_node(conn: &mut PgConnection, org: &str, node: &str) -> Result<bool, StoreError> {
    let row = sqlx::query!(
        r#"-- node.has_node
        SELECT EXISTS (SELECT 1 FROM node WHERE org = $1 AND node = $2) AS "is_there!""#,
        org,
        node,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.is_there)
}

/// Finds the message key of a node; `None` when the node does not exist.
pub async fn find_public_key(
    conn: &mut PgConnection,
    org: &str,
    node: &str,
) -> Result<Option<String>, StoreError> {
    let row = sqlx::query!(
        "-- node.find_public_key
        SELECT public_key FROM node WHERE org = $1 AND node = $2",
        org,
        node,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| row.public_key))
}

/// Removes a node with all its parts; false when it does not exist.
pub async fn delete_node(
    tx: &mut Permitted<right::NodeWrite>,
    org: &str,
    node: &str,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- node.delete_node
        DELETE FROM node WHERE org = $1 AND node = $2",
        org,
        node,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_contains_every_text_with_the_prefix() {
        let of =
            |id: &str| NodeFilter { id: Some(id.to_owned()), ..NodeFilter::default() }.limit_range("o").range;
        let pair = |low: &str, high: &str| Some((low.to_owned(), high.to_owned()));
        assert_eq!(of("o/f00%"), pair("f00", "f01"));
        assert_eq!(of("o/a_b"), pair("a", "b"));
        assert_eq!(of("o/exact"), pair("exact", "exacu"));
        assert_eq!(of("o/é%"), pair("é", "ê"));
        assert_eq!(of("o/a\\%"), pair("a", "b"));
        for open in ["o/%", "o/_x", "%", "p/a%", "o", "o/\u{10ffff}%"] {
            assert_eq!(of(open), None, "{open}");
        }
    }
}
