-- Numbers the committed outbox rows, at most `most`, for the exchange `numberer`, and answers them, ascending; a last row without a number
-- holds the other exchanges that answer from memory and must see what was numbered until now. They are told when there are any.
-- One call is one round trip, and no other numbering waits for a slow network. The row of `change_sequence` is locked by a statement of
-- its own: the statements after it see what was committed while it waited, and no row that another numbering has taken.
CREATE FUNCTION number_changes(most bigint, numberer uuid)
RETURNS TABLE (change_id bigint, org text, id text, category text, resource text, operation text, is_public boolean,
               changed_at timestamptz, peers uuid[])
LANGUAGE plpgsql
AS $$
-- The columns of the answer have the names of the tables' columns.
#variable_conflict use_column
DECLARE
    last bigint;
    count bigint;
    others uuid[];
BEGIN
    SELECT last_id INTO STRICT last FROM change_sequence FOR UPDATE;
    RETURN QUERY
    WITH taken AS (
        DELETE FROM change_outbox
        WHERE outbox_id IN (SELECT outbox_id FROM change_outbox ORDER BY outbox_id LIMIT most)
        RETURNING outbox_id, org, id, category, resource, operation, is_public, changed_at
    ), numbered AS (
        INSERT INTO change (change_id, org, id, category, resource, operation, is_public, changed_at)
        SELECT last + row_number() OVER (ORDER BY outbox_id), org, id, category, resource, operation, is_public, changed_at
        FROM taken
        RETURNING change_id, org, id, category, resource, operation, is_public, changed_at
    )
    SELECT change_id, org, id, category, resource, operation, is_public, changed_at, NULL::uuid[] FROM numbered ORDER BY change_id;
    GET DIAGNOSTICS count = ROW_COUNT;
    others := ARRAY(SELECT instance FROM exchange_instance WHERE instance <> numberer AND expires_at > clock_timestamp());
    IF count > 0 THEN
        UPDATE change_sequence SET last_id = last + count;
        IF cardinality(others) > 0 THEN
            PERFORM pg_notify('evenkeel_change', (last + count)::text);
        END IF;
    END IF;
    peers := others;
    RETURN NEXT;
END
$$;
