//! Statements about the state of one kind of resource. Macros, because a checked query is a literal.

/// Returns true for a kind with a document.
macro_rules! has_document {
    () => {
        false
    };
    ($document:literal) => {
        true
    };
}

/// Reads the state of a resource, and its document if it has one.
macro_rules! get {
    ($tx:ident, ($org:ident, $id:ident, $part:ident), $name:literal, $order:literal, $rows:literal, $lock:literal) => {
        get!($tx, ($org, $id, $part), $name, $order, $rows, $lock, "NULL")
    };
    ($tx:ident, ($org:ident, $id:ident, $part:ident), $name:literal, $order:literal, $rows:literal, $lock:literal, $document:literal) => {
        Ok(sqlx::query_as!(
            State,
            "-- audit_state.get_"
                + $name
                + "
            SELECT sha256(convert_to(string_agg(row_to_json(shown)::text, E'\\n' ORDER BY shown."
                + $order
                + "), 'UTF8')) AS hash,
                   string_agg(("
                + $document
                + ")::text, '') AS document
            FROM (SELECT $1::text AS org, $2::text AS id, $3::text AS part) AS audited
            CROSS JOIN LATERAL ("
                + $rows
                + " "
                + $lock
                + ") AS shown",
            $org,
            $id,
            $part,
        )
        .fetch_one($tx)
        .await?)
    };
}

/// Inserts a record with a state, and changes.
macro_rules! insert {
    ($tx:ident, $record:ident, $resource:ident, $changes:ident, $name:literal, $rows:literal, $order:literal) => {{
        let columns = Columns::of($changes);
        sqlx::query!(
            "-- audit_state.insert_" + $name + "
            WITH recorded AS (
                INSERT INTO audit_outbox (org, recorded_at, caller, caller_role, address, request, method, operation, resource, status,
                                          state_before, state_after)
                SELECT $12, $10, $13, $14, $15, $16, $17, $18, $19, $20, $21, (
                    SELECT sha256(convert_to(string_agg(row_to_json(shown)::text, E'\\n' ORDER BY shown." + $order + "), 'UTF8'))
                    FROM (" + $rows + ") AS shown
                )
                FROM (SELECT $1::text AS org, $2::text AS id, $3::text AS part) AS audited
            )
            INSERT INTO change_outbox (org, id, category, resource, operation, is_public, changed_at)
            SELECT row.org, row.id, row.category, row.resource, row.operation, row.is_public, $10
            FROM UNNEST($4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::boolean[])
                WITH ORDINALITY AS row (org, id, category, resource, operation, is_public, position)
            -- Here and not in a statement of its own: it costs no round trip.
            CROSS JOIN (SELECT CASE WHEN $11 THEN set_config('synchronous_commit', 'off', true) END) AS relaxed
            ORDER BY row.position",
            $resource.map_or("", |resource| &resource.org),
            $resource.map_or("", |resource| &resource.id),
            $resource.map_or("", |resource| &resource.part),
            &columns.orgs as &[&str],
            &columns.ids as &[&str],
            &columns.categories as &[&str],
            &columns.resources as &[&str],
            &columns.operations as &[&str],
            &columns.publics,
            to_sql($record.recorded_at) as _,
            !$changes.is_empty(),
            $record.org,
            $record.caller,
            &$record.caller_role,
            $record.address,
            $record.request,
            $record.method,
            &$record.operation,
            $record.resource,
            $record.status,
            $record.state_before.as_deref(),
        )
        .execute($tx)
        .await?;
    }};
}

/// Inserts a record with a state, changes, and a revision of the document if that has changed.
macro_rules! insert_revised {
    ($tx:ident, $record:ident, ($resource:ident, $revision:ident), $changes:ident, $name:literal, $rows:literal, $order:literal) => {{
        let (resource, _) = (Some($resource), $revision);
        insert!($tx, $record, resource, $changes, $name, $rows, $order)
    }};
    ($tx:ident, $record:ident, ($resource:ident, $revision:ident), $changes:ident, $name:literal, $rows:literal, $order:literal,
     $document:literal, $audience:literal) => {{
        let columns = Columns::of($changes);
        sqlx::query!(
            "-- audit_state.insert_revised_" + $name + "
            WITH shown AS MATERIALIZED (
                SELECT shown.*
                FROM (SELECT $1::text AS org, $2::text AS id, $3::text AS part) AS audited
                CROSS JOIN LATERAL (" + $rows + ") AS shown
            ), recorded AS (
                INSERT INTO audit_outbox (org, recorded_at, caller, caller_role, address, request, method, operation, resource, status,
                                          state_before, state_after)
                SELECT $12, $10, $13, $14, $15, $16, $17, $18, $19, $20, $21, (
                    SELECT sha256(convert_to(string_agg(row_to_json(shown)::text, E'\\n' ORDER BY shown." + $order + "), 'UTF8'))
                    FROM shown
                )
            ), own AS MATERIALIZED (
                SELECT revision, recorded_at, bytes, row_number() OVER newest_first AS place, sum(bytes) OVER newest_first AS total
                FROM document_revision
                WHERE org = $1 AND kind = '" + $name + "' AND name = $2
                WINDOW newest_first AS (ORDER BY revision DESC)
            ), state AS MATERIALIZED (
                SELECT (SELECT (" + $document + ")::text FROM shown) AS after, $22::text AS before, known.document::text AS known,
                       COALESCE(" + $audience + ", known.audience, 'administrators') AS audience,
                       COALESCE(known.revision, usage.forgotten, 0) AS last, COALESCE(usage.bytes, 0) AS used
                FROM (SELECT 1) AS one
                LEFT JOIN document_revision_usage AS usage ON usage.org = $1
                LEFT JOIN document_revision AS known
                    ON known.org = $1 AND known.kind = '" + $name + "' AND known.name = $2 AND known.revision = (SELECT max(revision) FROM own)
            ), written AS (
                SELECT 1 AS step, 'found' AS operation, '' AS author, '' AS reason, before AS document
                FROM state
                WHERE before IS NOT NULL AND before IS DISTINCT FROM known AND before IS DISTINCT FROM after
                UNION ALL
                SELECT 2, CASE WHEN after IS NULL THEN 'delete' WHEN before IS NULL THEN 'create' ELSE 'update' END, $13::text, $23::text, after
                FROM state
                WHERE before IS DISTINCT FROM after
            ), added AS MATERIALIZED (
                SELECT state.last + row_number() OVER (ORDER BY step) AS revision, operation, author, reason, document,
                       COALESCE(octet_length(document), 0) + octet_length(reason) + octet_length($2) + 256 AS bytes,
                       step = 2 AND operation <> 'delete' AS is_current
                FROM written
                CROSS JOIN state
            ), growth AS MATERIALIZED (
                SELECT count(*) AS count, COALESCE(sum(bytes), 0) AS bytes FROM added
            ), inserted AS (
                INSERT INTO document_revision (org, kind, name, revision, recorded_at, author, reason, operation, audience, document, bytes,
                                               is_current)
                SELECT $1, '" + $name + "', $2, revision, $10, author, reason, operation, (SELECT audience FROM state), document::json, bytes,
                       is_current
                FROM added
            ), outdated AS MATERIALIZED (
                SELECT own.revision
                FROM own
                CROSS JOIN growth
                WHERE growth.count > 0
                  AND (own.place + growth.count > $24::bigint OR own.total + growth.bytes > $25::bigint OR own.recorded_at < $27)
            ), superseded AS (
                UPDATE document_revision
                SET is_current = false
                WHERE org = $1 AND kind = '" + $name + "' AND name = $2 AND is_current AND EXISTS (SELECT FROM added)
                  AND revision NOT IN (SELECT revision FROM outdated)
            ), removed AS (
                DELETE FROM document_revision AS old
                USING (
                    SELECT '" + $name + "'::text AS kind, $2::text AS name, revision FROM outdated
                    UNION ALL
                    SELECT kind, name, revision
                    FROM (
                        SELECT kind, name, revision, sum(bytes) OVER oldest_first - bytes AS freed
                        FROM document_revision
                        WHERE org = $1 AND NOT is_current AND (kind, name) <> ('" + $name + "', $2)
                          AND (SELECT used + growth.bytes > $26::bigint AND growth.count > 0 FROM state CROSS JOIN growth)
                        WINDOW oldest_first AS (ORDER BY recorded_at, kind, name, revision)
                        ORDER BY recorded_at, kind, name, revision
                        LIMIT 100
                    ) AS oldest
                    WHERE freed < (SELECT used + growth.bytes - $26::bigint FROM state CROSS JOIN growth)
                ) AS surplus
                WHERE old.org = $1 AND old.kind = surplus.kind AND old.name = surplus.name AND old.revision = surplus.revision
                RETURNING old.kind, old.name, old.revision, old.bytes
            ), counted AS (
                INSERT INTO document_revision_usage AS usage (org, bytes, forgotten)
                SELECT $1, growth.bytes - (SELECT COALESCE(sum(bytes), 0) FROM removed), (
                           SELECT COALESCE(max(revision), 0)
                           FROM removed
                           WHERE (kind, name) <> ('" + $name + "', $2) AND NOT EXISTS (
                               SELECT FROM document_revision AS newer
                               WHERE newer.org = $1 AND newer.kind = removed.kind AND newer.name = removed.name
                                 AND newer.revision > removed.revision))
                FROM growth
                WHERE growth.count > 0
                ON CONFLICT (org) DO UPDATE
                SET bytes = usage.bytes + excluded.bytes, forgotten = GREATEST(usage.forgotten, excluded.forgotten)
            )
            INSERT INTO change_outbox (org, id, category, resource, operation, is_public, changed_at)
            SELECT row.org, row.id, row.category, row.resource, row.operation, row.is_public, $10
            FROM UNNEST($4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::boolean[])
                WITH ORDINALITY AS row (org, id, category, resource, operation, is_public, position)
            CROSS JOIN (SELECT CASE WHEN $11 THEN set_config('synchronous_commit', 'off', true) END) AS relaxed
            ORDER BY row.position",
            &$resource.org,
            &$resource.id,
            &$resource.part,
            &columns.orgs as &[&str],
            &columns.ids as &[&str],
            &columns.categories as &[&str],
            &columns.resources as &[&str],
            &columns.operations as &[&str],
            &columns.publics,
            to_sql($record.recorded_at) as _,
            !$changes.is_empty(),
            $record.org,
            $record.caller,
            &$record.caller_role,
            $record.address,
            $record.request,
            $record.method,
            &$record.operation,
            $record.resource,
            $record.status,
            $record.state_before.as_deref(),
            $revision.before,
            $revision.reason,
            $revision.limits.count,
            $revision.limits.document_bytes,
            $revision.limits.org_bytes,
            to_sql($revision.kept_since) as _,
        )
        .execute($tx)
        .await?;
    }};
}

pub(super) use {get, has_document, insert, insert_revised};
