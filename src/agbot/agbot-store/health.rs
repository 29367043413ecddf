//! Health events: the newest report of a source about a property of an entity.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use evenkeel_store::{StoreError, to_sql};

/// The key of the events of an entity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntityKey {
    /// `org`, `node`, `hagroup`, `workload`, `unit` or `instance`.
    pub kind: String,
    /// The organization, or `org/name`.
    pub name: String,
    /// Discriminator of workload units and instances of one policy.
    pub part: String,
}

impl EntityKey {
    /// Returns the organization.
    #[must_use]
    pub fn org(&self) -> &str {
        self.name.split_once('/').map_or(&self.name, |(org, _)| org)
    }
}

/// An event with the key of its entity.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthRow {
    /// The entity.
    pub entity: EntityKey,
    /// The event.
    pub record: Value,
}

/// An event to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewHealthRow {
    /// Id of the source of the report.
    pub source: String,
    /// About what.
    pub property: String,
    /// Number of the report.
    pub sequence: i64,
    /// The event.
    pub record: Value,
    /// When it disappears.
    pub expires_at: Option<Timestamp>,
}

/// Reads the events of an entity and locks them.
pub async fn lock_of_entity(tx: &mut PgConnection, entity: &EntityKey) -> Result<Vec<Value>, StoreError> {
    Ok(sqlx::query_scalar!(
        "-- health.lock_of_entity
        SELECT record
        FROM health_event
        WHERE org = $1 AND entity_kind = $2 AND entity = $3 AND part = $4
        ORDER BY source, property
        FOR UPDATE",
        entity.org(),
        entity.kind,
        entity.name,
        entity.part,
    )
    .fetch_all(tx)
    .await?)
}

/// Lists the events of an entity, by source and property.
pub async fn list_of_entity(conn: &mut PgConnection, entity: &EntityKey) -> Result<Vec<Value>, StoreError> {
    Ok(sqlx::query_scalar!(
        "-- health.list_of_entity
        SELECT record
        FROM health_event
        WHERE org = $1 AND entity_kind = $2 AND entity = $3 AND part = $4
        ORDER BY source, property",
        entity.org(),
        entity.kind,
        entity.name,
        entity.part,
    )
    .fetch_all(conn)
    .await?)
}

/// Stores events of an entity, except those of which a report with the same or a greater number is stored. Returns how many were stored.
pub async fn upsert_events(
    tx: &mut PgConnection,
    entity: &EntityKey,
    rows: &[NewHealthRow],
) -> Result<usize, StoreError> {
    let sources: Vec<&str> = rows.iter().map(|row| row.source.as_str()).collect();
    let properties: Vec<&str> = rows.iter().map(|row| row.property.as_str()).collect();
    let sequences: Vec<i64> = rows.iter().map(|row| row.sequence).collect();
    let records: Vec<&Value> = rows.iter().map(|row| &row.record).collect();
    let ends: Vec<Option<jiff_sqlx::Timestamp>> = rows.iter().map(|row| row.expires_at.map(to_sql)).collect();
    let done = sqlx::query!(
        "-- health.upsert_events
        INSERT INTO health_event (entity_kind, entity, part, source, property, sequence, record, expires_at)
        SELECT $1, $2, $3, source, property, sequence, record, expires_at
        FROM UNNEST($4::text[], $5::text[], $6::bigint[], $7::jsonb[], $8::timestamptz[])
             AS row (source, property, sequence, record, expires_at)
        ON CONFLICT (org, entity_kind, entity, part, source, property) DO UPDATE
        SET sequence = excluded.sequence, record = excluded.record, expires_at = excluded.expires_at
        WHERE health_event.sequence < excluded.sequence",
        entity.kind,
        entity.name,
        entity.part,
        &sources as &[&str],
        &properties as &[&str],
        &sequences,
        &records as &[&Value],
        &ends as _,
    )
    .execute(tx)
    .await?;
    Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
}

/// Deletes events of an entity.
pub async fn delete_events(
    tx: &mut PgConnection,
    entity: &EntityKey,
    events: &[(String, String)],
) -> Result<(), StoreError> {
    let sources: Vec<&str> = events.iter().map(|(source, _)| source.as_str()).collect();
    let properties: Vec<&str> = events.iter().map(|(_, property)| property.as_str()).collect();
    sqlx::query!(
        "-- health.delete_events
        DELETE FROM health_event
        WHERE org = $1 AND entity_kind = $2 AND entity = $3 AND part = $4
          AND (source, property) IN (SELECT * FROM UNNEST($5::text[], $6::text[]))",
        entity.org(),
        entity.kind,
        entity.name,
        entity.part,
        &sources as &[&str],
        &properties as &[&str],
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Deletes all events of entities.
pub async fn delete_entities(tx: &mut PgConnection, entities: &[EntityKey]) -> Result<(), StoreError> {
    let (kinds, names, parts) = columns(entities);
    sqlx::query!(
        "-- health.delete_entities
        DELETE FROM health_event
        USING UNNEST($1::text[], $2::text[], $3::text[]) AS gone (kind, name, part)
        WHERE health_event.org = split_part(gone.name, '/', 1)
          AND entity_kind = gone.kind AND entity = gone.name AND health_event.part = gone.part",
        &kinds as &[&str],
        &names as &[&str],
        &parts as &[&str],
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Reads the events of entities.
pub async fn read_of_entities(
    conn: &mut PgConnection,
    entities: &[EntityKey],
) -> Result<Vec<HealthRow>, StoreError> {
    let (kinds, names, parts) = columns(entities);
    let rows = sqlx::query!(
        r#"-- health.read_of_entities
        SELECT health_event.entity_kind, health_event.entity, health_event.part, health_event.record
        FROM UNNEST($1::text[], $2::text[], $3::text[]) AS key (kind, name, part)
        JOIN health_event
            ON health_event.org = split_part(key.name, '/', 1)
           AND health_event.entity_kind = key.kind AND health_event.entity = key.name
           AND health_event.part = key.part"#,
        &kinds as &[&str],
        &names as &[&str],
        &parts as &[&str],
    )
    .fetch_all(conn)
    .await?;
    let entity = |kind, name, part| EntityKey { kind, name, part };
    let rows = rows.into_iter();
    let rows = rows.map(|row| (entity(row.entity_kind, row.entity, row.part), row.record));
    Ok(rows.map(|(entity, record)| HealthRow { entity, record }).collect())
}

/// Lists all events.
pub async fn list_events(conn: &mut PgConnection) -> Result<Vec<HealthRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- health.list_events
        SELECT entity_kind, entity, part, record
        FROM health_event
        ORDER BY org, entity_kind, entity, part"#
    )
    .fetch_all(conn)
    .await?;
    let entity = |kind, name, part| EntityKey { kind, name, part };
    let rows = rows.into_iter();
    let rows = rows.map(|row| (entity(row.entity_kind, row.entity, row.part), row.record));
    Ok(rows.map(|(entity, record)| HealthRow { entity, record }).collect())
}

/// Deletes at most so many events that have disappeared; returns how many there were.
pub async fn delete_expired(conn: &mut PgConnection, now: Timestamp, most: i64) -> Result<u64, StoreError> {
    // SKIP LOCKED: an event that is being replaced is not expired any more, and other agbots delete at the same time.
    let done = sqlx::query!(
        "-- health.delete_expired
        DELETE FROM health_event
        WHERE (org, entity_kind, entity, part, source, property) IN (
            SELECT org, entity_kind, entity, part, source, property
            FROM health_event
            WHERE expires_at <= $1
            ORDER BY expires_at
            LIMIT $2
            FOR UPDATE SKIP LOCKED
        )",
        to_sql(now) as _,
        most,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

fn columns(entities: &[EntityKey]) -> (Vec<&str>, Vec<&str>, Vec<&str>) {
    (
        entities.iter().map(|entity| entity.kind.as_str()).collect(),
        entities.iter().map(|entity| entity.name.as_str()).collect(),
        entities.iter().map(|entity| entity.part.as_str()).collect(),
    )
}

#[cfg(test)]
mod tests {
    use evenkeel_test_database::TestDatabase;
    use serde_json::json;

    use super::*;
    use crate::tests::{ROLES, at, shared};

    fn entity(org: &str, part: &str) -> EntityKey {
        EntityKey { kind: "unit".to_owned(), name: format!("{org}/p"), part: part.to_owned() }
    }

    /// A report whose record is its number.
    fn report(property: &str, sequence: i64, expires_at: Option<Timestamp>) -> NewHealthRow {
        NewHealthRow {
            source: "s".to_owned(),
            property: property.to_owned(),
            sequence,
            record: json!(sequence),
            expires_at,
        }
    }

    #[tokio::test]
    async fn report_replaces_only_those_with_smaller_numbers() {
        let mut connection = shared().await.connection().await;
        let entity = entity("health-sequence", "");
        let mut stored = Vec::new();
        for reports in [
            vec![report("a", 5, None), report("b", 5, None)],
            vec![report("a", 5, None), report("b", 6, None)],
            vec![report("b", 4, None)],
        ] {
            stored.push(upsert_events(&mut connection, &entity, &reports).await.unwrap());
        }
        assert_eq!(stored, [2, 1, 0]);
        assert_eq!(list_of_entity(&mut connection, &entity).await.unwrap(), [json!(5), json!(6)]);
    }

    #[tokio::test]
    async fn events_are_deleted_only_of_their_entity() {
        let mut connection = shared().await.connection().await;
        let (one, other) = (entity("health-delete", "1"), entity("health-delete", "2"));
        for entity in [&one, &other] {
            let reports = [report("a", 1, None), report("b", 2, None)];
            upsert_events(&mut connection, entity, &reports).await.unwrap();
        }
        delete_events(&mut connection, &one, &[("s".to_owned(), "a".to_owned())]).await.unwrap();
        assert_eq!(lock_of_entity(&mut connection, &one).await.unwrap(), [json!(2)]);
        delete_entities(&mut connection, std::slice::from_ref(&one)).await.unwrap();
        let left = read_of_entities(&mut connection, &[one, other.clone()]).await.unwrap();
        assert_eq!(left.len(), 2);
        assert!(left.iter().all(|row| row.entity == other));
    }

    #[tokio::test]
    async fn expired_events_disappear_the_oldest_first_and_a_bounded_number_at_once() {
        let database = TestDatabase::new(ROLES).await;
        let mut connection = database.connection().await;
        let entity = entity("o", "");
        let ends = [Some(at(3)), Some(at(1)), Some(at(2)), Some(at(9)), None];
        let reports: Vec<NewHealthRow> =
            (1..).zip(ends).map(|(number, end)| report(&number.to_string(), number, end)).collect();
        upsert_events(&mut connection, &entity, &reports).await.unwrap();
        assert_eq!(delete_expired(&mut connection, at(3), 2).await.unwrap(), 2);
        let left = list_of_entity(&mut connection, &entity).await.unwrap();
        assert_eq!(left, [json!(1), json!(4), json!(5)]);
        assert_eq!(delete_expired(&mut connection, at(3), 2).await.unwrap(), 1, "at its instant");
    }
}
