//! Events of the agbot: its actions and their reasons.

use evenkeel_ids::{GroupId, NodeId, OrgId, PolicyId};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use evenkeel_store::{StoreError, from_sql, to_sql};

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRow {
    /// Time of the event.
    pub happened_at: Timestamp,
    /// Kind, for instance `hagroup.lock-granted`.
    pub kind: String,
    /// The group, if it concerns one.
    pub ha_group: Option<GroupId>,
    /// The node, if it concerns one.
    pub node: Option<NodeId>,
    /// The policy, if it concerns one.
    pub policy: Option<PolicyId>,
    /// Reason and counts.
    pub detail: Value,
}

/// Appends an event.
pub async fn insert_event(tx: &mut PgConnection, event: &EventRow) -> Result<(), StoreError> {
    sqlx::query!(
        "-- event.insert_event
        INSERT INTO agbot_event (happened_at, kind, ha_group, node, policy, detail) VALUES ($1, $2, $3, $4, $5, $6)",
        to_sql(event.happened_at) as _,
        event.kind,
        event.ha_group.as_ref().map(GroupId::as_str),
        event.node.as_ref().map(NodeId::as_str),
        event.policy.as_ref().map(PolicyId::as_str),
        event.detail,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Appends events of one instant, in their order.
pub async fn insert_events(
    tx: &mut PgConnection,
    at: Timestamp,
    events: &[EventRow],
) -> Result<(), StoreError> {
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    let groups: Vec<Option<&str>> =
        events.iter().map(|event| event.ha_group.as_ref().map(GroupId::as_str)).collect();
    let nodes: Vec<Option<&str>> =
        events.iter().map(|event| event.node.as_ref().map(NodeId::as_str)).collect();
    let policies: Vec<Option<&str>> =
        events.iter().map(|event| event.policy.as_ref().map(PolicyId::as_str)).collect();
    let details: Vec<&Value> = events.iter().map(|event| &event.detail).collect();
    sqlx::query!(
        "-- event.insert_events
        INSERT INTO agbot_event (happened_at, kind, ha_group, node, policy, detail)
        SELECT $1, kind, ha_group, node, policy, detail
        FROM UNNEST($2::text[], $3::text[], $4::text[], $5::text[], $6::jsonb[])
             WITH ORDINALITY AS event (kind, ha_group, node, policy, detail, position)
        ORDER BY position",
        to_sql(at) as _,
        &kinds as &[&str],
        &groups as &[Option<&str>],
        &nodes as &[Option<&str>],
        &policies as &[Option<&str>],
        &details as &[&Value],
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// The filter of events; none matches any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// The group.
    pub ha_group: Option<GroupId>,
    /// The node.
    pub node: Option<NodeId>,
    /// The policy.
    pub policy: Option<PolicyId>,
}

/// Lists the newest events of an organization, newest first: those about its nodes, groups or policies, or only those about the given
/// nodes if any are given.
pub async fn list_newest(
    conn: &mut PgConnection,
    org: &str,
    nodes: Option<&[NodeId]>,
    filter: &EventFilter,
    limit: i64,
) -> Result<Vec<EventRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- event.list_newest
        SELECT happened_at AS "happened_at: jiff_sqlx::Timestamp", kind, ha_group AS "ha_group: GroupId",
               node AS "node: NodeId", policy AS "policy: PolicyId", detail
        FROM agbot_event
        WHERE CASE WHEN $2::text[] IS NULL
                   THEN $1 IN (org, policy_org)
                   ELSE node = ANY ($2) AND org = $1 END
          AND ($4::text IS NULL OR ha_group = $4)
          AND ($5::text IS NULL OR node = $5)
          AND ($6::text IS NULL OR policy = $6)
        ORDER BY event_id DESC
        LIMIT $3"#,
        org,
        nodes as _,
        limit,
        filter.ha_group.as_ref().map(GroupId::as_str),
        filter.node.as_ref().map(NodeId::as_str),
        filter.policy.as_ref().map(PolicyId::as_str),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| EventRow {
            happened_at: from_sql(row.happened_at),
            kind: row.kind,
            ha_group: row.ha_group,
            node: row.node,
            policy: row.policy,
            detail: row.detail,
        })
        .collect())
}

/// An event about a deployment policy, with its number.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberedEvent {
    /// Its number.
    pub seq: i64,
    /// The event.
    pub event: EventRow,
}

/// The filter of events about deployment policies; none matches any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyEventFilter {
    /// Only those with a greater number, the oldest ones; without it the newest ones.
    pub since: Option<i64>,
    /// A pattern of the kind, with `%` and `_`.
    pub kind: Option<String>,
    /// At most so many.
    pub limit: i64,
}

/// Lists events about a deployment policy, by number.
pub async fn list_of_policy(
    conn: &mut PgConnection,
    policy: &PolicyId,
    filter: &PolicyEventFilter,
) -> Result<Vec<NumberedEvent>, StoreError> {
    let rows = sqlx::query_as!(
        NumberedRow,
        r#"-- event.list_of_policy
        SELECT event_id, happened_at AS "happened_at: jiff_sqlx::Timestamp", kind, ha_group AS "ha_group: GroupId",
               node AS "node: NodeId", policy AS "policy: PolicyId", detail
        FROM agbot_event
        WHERE policy = $1
          AND event_id > COALESCE($2, (
              SELECT older.event_id
              FROM agbot_event AS older
              WHERE older.policy = $1 AND ($3::text IS NULL OR older.kind LIKE $3)
              ORDER BY older.event_id DESC
              LIMIT 1 OFFSET $4
          ), 0)
          AND ($3::text IS NULL OR kind LIKE $3)
        ORDER BY event_id
        LIMIT $4"#,
        policy.as_str(),
        filter.since,
        filter.kind.as_deref(),
        filter.limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(NumberedRow::into_event).collect())
}

/// Finds the newest event about a user's action on a deployment policy.
pub async fn find_of_action(
    conn: &mut PgConnection,
    policy: &PolicyId,
    action: &str,
) -> Result<Option<NumberedEvent>, StoreError> {
    let row = sqlx::query_as!(
        NumberedRow,
        r#"-- event.find_of_action
        SELECT event_id, happened_at AS "happened_at: jiff_sqlx::Timestamp", kind, ha_group AS "ha_group: GroupId",
               node AS "node: NodeId", policy AS "policy: PolicyId", detail
        FROM agbot_event
        WHERE policy = $1 AND detail ->> 'actionId' = $2
        ORDER BY event_id DESC
        LIMIT 1"#,
        policy.as_str(),
        action,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(NumberedRow::into_event))
}

/// Finds the newest event about a user's action on an HA group.
pub async fn find_of_group_action(
    conn: &mut PgConnection,
    group: &GroupId,
    action: &str,
) -> Result<Option<NumberedEvent>, StoreError> {
    let row = sqlx::query_as!(
        NumberedRow,
        r#"-- event.find_of_group_action
        SELECT event_id, happened_at AS "happened_at: jiff_sqlx::Timestamp", kind, ha_group AS "ha_group: GroupId",
               node AS "node: NodeId", policy AS "policy: PolicyId", detail
        FROM agbot_event
        WHERE policy IS NULL AND ha_group = $1 AND detail ->> 'actionId' = $2
        ORDER BY event_id DESC
        LIMIT 1"#,
        group.as_str(),
        action,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(NumberedRow::into_event))
}

/// Lists the events of an organization, by number: those of its deployment policies, and those of its nodes, HA groups and settings that
/// name no policy; only those about the given nodes, and about the given group, if any are given.
pub async fn list_of_org(
    conn: &mut PgConnection,
    org: &str,
    (nodes, group): (Option<&[NodeId]>, Option<&GroupId>),
    filter: &PolicyEventFilter,
) -> Result<Vec<NumberedEvent>, StoreError> {
    let rows = sqlx::query_as!(
        NumberedRow,
        r#"-- event.list_of_org
        SELECT event_id, happened_at AS "happened_at: jiff_sqlx::Timestamp", kind, ha_group AS "ha_group: GroupId",
               node AS "node: NodeId", policy AS "policy: PolicyId", detail
        FROM agbot_event
        WHERE split_part(COALESCE(policy, node, ha_group, subject_org), '/', 1) = $1
          AND ($2::text[] IS NULL OR node = ANY ($2))
          AND event_id > COALESCE($3, (
              SELECT older.event_id
              FROM agbot_event AS older
              WHERE split_part(COALESCE(older.policy, older.node, older.ha_group, older.subject_org), '/', 1) = $1
                AND ($2::text[] IS NULL OR older.node = ANY ($2))
                AND ($4::text IS NULL OR older.kind LIKE $4)
                AND ($6::text IS NULL OR older.ha_group = $6)
              ORDER BY older.event_id DESC
              LIMIT 1 OFFSET $5
          ), 0)
          AND ($4::text IS NULL OR kind LIKE $4)
          AND ($6::text IS NULL OR ha_group = $6)
        ORDER BY event_id
        LIMIT $5"#,
        org,
        nodes as _,
        filter.since,
        filter.kind.as_deref(),
        filter.limit,
        group.map(GroupId::as_str),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(NumberedRow::into_event).collect())
}

struct NumberedRow {
    event_id: i64,
    happened_at: jiff_sqlx::Timestamp,
    kind: String,
    ha_group: Option<GroupId>,
    node: Option<NodeId>,
    policy: Option<PolicyId>,
    detail: Value,
}

impl NumberedRow {
    fn into_event(self) -> NumberedEvent {
        let Self { event_id, happened_at, kind, ha_group, node, policy, detail } = self;
        let event = EventRow { happened_at: from_sql(happened_at), kind, ha_group, node, policy, detail };
        NumberedEvent { seq: event_id, event }
    }
}

/// Returns the numbers of the oldest and the newest event of the log; 0 when it is empty.
pub async fn ends(conn: &mut PgConnection) -> Result<(i64, i64), StoreError> {
    let row = sqlx::query!(
        r#"-- event.ends
        SELECT COALESCE(min(event_id), 0) AS "oldest!", COALESCE(max(event_id), 0) AS "newest!" FROM agbot_event"#
    )
    .fetch_one(conn)
    .await?;
    Ok((row.oldest, row.newest))
}

/// Returns the newest event of each organization that has one with a greater number.
pub async fn newest_of_orgs(conn: &mut PgConnection, after: i64) -> Result<Vec<(String, i64)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- event.newest_of_orgs
        SELECT split_part(COALESCE(policy, node, ha_group, subject_org), '/', 1) AS "org!", max(event_id) AS "newest!"
        FROM agbot_event
        WHERE event_id > $1 AND COALESCE(policy, node, ha_group, subject_org) IS NOT NULL
        GROUP BY 1"#,
        after,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.org, row.newest)).collect())
}

/// Kind of the events about the availability of nodes.
pub const AVAILABILITY: &str = "node.availability";
/// Kind of the events about the settings of organizations.
pub const SETTINGS: &str = "settings.changed";

/// Lists the availability of nodes according to the newest event of each.
pub async fn list_availabilities(conn: &mut PgConnection) -> Result<Vec<(NodeId, Value)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- event.list_availabilities
        SELECT DISTINCT ON (COALESCE(node, subject_org)) node AS "node!: NodeId", detail
        FROM agbot_event
        WHERE kind = 'node.availability' AND kind IN ('node.availability', 'settings.changed')
        ORDER BY COALESCE(node, subject_org), event_id DESC"#
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.node, row.detail)).collect())
}

/// A state that was set on a node or an organization.
#[derive(Debug, Clone, PartialEq)]
pub struct StateEvent {
    /// [`AVAILABILITY`] or [`SETTINGS`].
    pub kind: &'static str,
    /// The node, if it concerns one.
    pub node: Option<NodeId>,
    /// The organization, if it concerns no node.
    pub org: Option<OrgId>,
    /// True if the state is the default, which is recorded only after another state.
    pub is_usual: bool,
    /// The state.
    pub detail: Value,
}

/// Appends settings of nodes and organizations, except those that the newest event of the kind already
/// states. Actor and text do not count.
pub async fn insert_states(
    conn: &mut PgConnection,
    states: &[StateEvent],
    at: Timestamp,
) -> Result<(), StoreError> {
    let kinds: Vec<&str> = states.iter().map(|state| state.kind).collect();
    let nodes: Vec<Option<&str>> =
        states.iter().map(|state| state.node.as_ref().map(NodeId::as_str)).collect();
    let orgs: Vec<Option<&str>> = states.iter().map(|state| state.org.as_ref().map(OrgId::as_str)).collect();
    let are_usual: Vec<bool> = states.iter().map(|state| state.is_usual).collect();
    let details: Vec<&Value> = states.iter().map(|state| &state.detail).collect();
    sqlx::query!(
        "-- event.insert_states
        INSERT INTO agbot_event (happened_at, kind, node, subject_org, detail)
        SELECT $1, state.kind, state.node, state.org, state.detail
        FROM UNNEST($2::text[], $3::text[], $4::text[], $5::boolean[], $6::jsonb[])
             AS state (kind, node, org, is_usual, detail)
        LEFT JOIN LATERAL (
            SELECT newest.detail
            FROM agbot_event AS newest
            WHERE newest.kind = state.kind AND newest.kind IN ('node.availability', 'settings.changed')
              AND COALESCE(newest.node, newest.subject_org) = COALESCE(state.node, state.org)
            ORDER BY newest.event_id DESC
            LIMIT 1
        ) AS known ON true
        WHERE known.detail - '{actor,text}'::text[] IS DISTINCT FROM state.detail - '{actor,text}'::text[]
          AND (known.detail IS NOT NULL OR NOT state.is_usual)",
        to_sql(at) as _,
        &kinds as &[&str],
        &nodes as &[Option<&str>],
        &orgs as &[Option<&str>],
        &are_usual,
        &details as &[&Value],
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes events older than an instant.
pub async fn delete_before(conn: &mut PgConnection, before: Timestamp) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- event.delete_before
        DELETE FROM agbot_event WHERE happened_at < $1",
        to_sql(before) as _,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Lists the organizations with events.
pub async fn list_orgs(conn: &mut PgConnection) -> Result<Vec<OrgId>, StoreError> {
    // One step of the index for each organization, however many events it has.
    let rows = sqlx::query_scalar!(
        r#"-- event.list_orgs
        WITH RECURSIVE found (org) AS (
            SELECT min(split_part(COALESCE(policy, node, ha_group, subject_org), '/', 1)) FROM agbot_event
            UNION ALL
            SELECT (SELECT min(split_part(COALESCE(agbot_event.policy, agbot_event.node, agbot_event.ha_group,
                                                   agbot_event.subject_org), '/', 1))
                    FROM agbot_event
                    WHERE split_part(COALESCE(agbot_event.policy, agbot_event.node, agbot_event.ha_group,
                                              agbot_event.subject_org), '/', 1) > found.org)
            FROM found
            WHERE found.org IS NOT NULL
        )
        SELECT org AS "org!: OrgId" FROM found WHERE org IS NOT NULL"#
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Removes events of an organization, but for the newest ones.
pub async fn delete_surplus(conn: &mut PgConnection, org: &OrgId, kept: i64) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- event.delete_surplus
        DELETE FROM agbot_event
        WHERE split_part(COALESCE(policy, node, ha_group, subject_org), '/', 1) = $1
          AND event_id <= (
              SELECT oldest.event_id
              FROM agbot_event AS oldest
              WHERE split_part(COALESCE(oldest.policy, oldest.node, oldest.ha_group, oldest.subject_org), '/', 1) = $1
              ORDER BY oldest.event_id DESC
              LIMIT 1 OFFSET $2
          )",
        org.as_str(),
        kept,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
