-- What ran, and the conditions of nodes: states that are over. The states that hold now are those of the records themselves, so that the
-- history costs one row for each change, and nothing for what stays as it is.

CREATE TABLE history_segment (
    segment      integer     GENERATED ALWAYS AS IDENTITY,
    began_at     timestamptz NOT NULL DEFAULT now(),
    completed_at timestamptz,
    CONSTRAINT history_segment_segment_key PRIMARY KEY (segment)
);
COMMENT ON TABLE history_segment IS 'partitions of the history: all of one are removed at once';
COMMENT ON COLUMN history_segment.completed_at IS 'null for the one that is written';
-- One is written at a time.
CREATE UNIQUE INDEX history_segment_current_key ON history_segment ((completed_at IS NULL)) WHERE completed_at IS NULL;

CREATE TABLE history_retention (
    only_row       boolean     NOT NULL DEFAULT true,
    complete_since timestamptz NOT NULL,
    CONSTRAINT history_retention_only_row_key PRIMARY KEY (only_row),
    CONSTRAINT history_retention_only_row_check CHECK (only_row)
);
COMMENT ON TABLE history_retention IS 'the instant since which the history is complete';
INSERT INTO history_retention (complete_since) VALUES (now());

CREATE TABLE history (
    segment    integer     NOT NULL,
    kind       text        NOT NULL,
    org        text        NOT NULL,
    first_key  text        NOT NULL,
    second_key text        NOT NULL,
    third_key  text        NOT NULL,
    subject    text        NOT NULL,
    node       text,
    state      text        NOT NULL,
    detail     jsonb       NOT NULL,
    began_at   timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL,
    CONSTRAINT history_kind_check CHECK (kind IN ('task', 'agreement', 'claim', 'node'))
) PARTITION BY LIST (segment);
COMMENT ON TABLE history IS 'states of tasks, agreements, claims and nodes that are over';
COMMENT ON COLUMN history.first_key IS 'org/policy of a task, org/node of an agreement or a node, org/group of a claim';
COMMENT ON COLUMN history.second_key IS 'part of a task, org/policy of an agreement, scope of a claim, empty for a node';
COMMENT ON COLUMN history.third_key IS 'slot of a task, else empty';
COMMENT ON COLUMN history.subject IS 'id of a task or an agreement, condition of a node, else empty';
COMMENT ON COLUMN history.detail IS 'version and purpose, and what followed';
-- history.list_states: the states of an organization, page by page.
CREATE INDEX history_list_states_index ON history (org, kind, first_key, second_key, third_key, subject, ended_at);
-- history.list_states: those about a node.
CREATE INDEX history_node_index ON history (node, ended_at) WHERE node IS NOT NULL;

-- Completes the segment that is written and begins another one. Attaching a table, unlike creating it as a partition, makes no writer wait.
CREATE FUNCTION begin_history_segment() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    next_segment integer;
    next_table   text;
BEGIN
    UPDATE history_segment SET completed_at = clock_timestamp() WHERE completed_at IS NULL;
    INSERT INTO history_segment DEFAULT VALUES RETURNING segment INTO next_segment;
    next_table := 'history_' || next_segment;
    EXECUTE format('CREATE TABLE %I (LIKE history INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', next_table);
    EXECUTE format('ALTER TABLE history ATTACH PARTITION %I FOR VALUES IN (%s)', next_table, next_segment);
END
$$;

-- Begins another segment when the current one is a thirtieth of what is kept, by age or size, and removes segments that are too old or too
-- many. Returns the number of removed ones. One caller does it at a time; the others return at once.
CREATE FUNCTION rotate_history(kept interval, most_bytes bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    current_segment history_segment;
    old             history_segment;
    bytes           bigint;
    removed         integer := 0;
BEGIN
    -- A dump or a long read of the history must not make its writers wait behind this: it is tried again later.
    PERFORM set_config('lock_timeout', '1s', true);
    SELECT * INTO current_segment FROM history_segment WHERE completed_at IS NULL FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    IF current_segment.began_at <= clock_timestamp() - kept / 30
       OR pg_total_relation_size(('history_' || current_segment.segment)::regclass) > most_bytes / 30 THEN
        PERFORM begin_history_segment();
    END IF;
    SELECT COALESCE(sum(pg_total_relation_size(('history_' || segment)::regclass)), 0) INTO bytes FROM history_segment;
    FOR old IN SELECT * FROM history_segment WHERE completed_at IS NOT NULL ORDER BY segment LOOP
        EXIT WHEN old.completed_at > clock_timestamp() - kept AND bytes <= most_bytes;
        bytes := bytes - pg_total_relation_size(('history_' || old.segment)::regclass);
        EXECUTE format('DROP TABLE %I', 'history_' || old.segment);
        DELETE FROM history_segment WHERE segment = old.segment;
        -- A transaction of the time of the change may have written a moment after it.
        UPDATE history_retention
        SET complete_since = GREATEST(complete_since, LEAST(old.completed_at + interval '1 minute', clock_timestamp()));
        removed := removed + 1;
    END LOOP;
    RETURN removed;
END
$$;
SELECT begin_history_segment();

-- The conditions of nodes that hold now.
CREATE TABLE node_condition (
    node      text        NOT NULL,
    condition text        NOT NULL,
    org       text        NOT NULL GENERATED ALWAYS AS (split_part(node, '/', 1)) STORED,
    began_at  timestamptz NOT NULL,
    CONSTRAINT node_condition_node_condition_key PRIMARY KEY (node, condition),
    CONSTRAINT node_condition_condition_check CHECK (
        condition IN ('down', 'drained', 'frozen', 'away', 'overdue', 'conflict'))
);
COMMENT ON TABLE node_condition IS 'what is unusual about nodes, as the events of their changes state it';
COMMENT ON COLUMN node_condition.condition IS 'overdue: away longer than its grace period; conflict: two agents have the identity of the node';
-- history.list_states
CREATE INDEX node_condition_org_index ON node_condition (org, node, condition);

INSERT INTO node_condition (node, condition, began_at)
SELECT newest.node, condition.name, newest.happened_at
FROM (VALUES ('down', 'node.down', 'node.up'), ('drained', 'node.drained', 'node.active'), ('frozen', 'node.frozen', 'node.thawed'),
             ('away', 'node.maintenance', 'node.rejoin'), ('overdue', 'node.maintenance-expired', 'node.rejoin'),
             ('conflict', 'node.identity-conflict', 'node.identity-resolved')) AS condition (name, begin_kind, end_kind)
JOIN LATERAL (
    SELECT DISTINCT ON (agbot_event.node) agbot_event.node, agbot_event.kind, agbot_event.happened_at
    FROM agbot_event
    WHERE agbot_event.kind IN (condition.begin_kind, condition.end_kind) AND agbot_event.node IS NOT NULL
    ORDER BY agbot_event.node, agbot_event.event_id DESC
) AS newest ON newest.kind = condition.begin_kind;
DROP INDEX agbot_event_node_condition_index;

-- event.delete_surplus counts all events of an organization.
DROP INDEX agbot_event_policy_org_index;

ALTER TABLE task
    ADD COLUMN org        text NOT NULL GENERATED ALWAYS AS (split_part(policy, '/', 1)) STORED,
    ADD COLUMN node       text GENERATED ALWAYS AS (record ->> 'node') STORED,
    ADD COLUMN state      text NOT NULL
        GENERATED ALWAYS AS (COALESCE(record ->> 'impaired', record ->> 'end', record ->> 'state')) STORED,
    ADD COLUMN desired    text NOT NULL GENERATED ALWAYS AS (record ->> 'desired') STORED,
    -- An agbot of the version before, which may still run, does not name it.
    ADD COLUMN changed_at timestamptz NOT NULL DEFAULT now();
UPDATE task SET changed_at = GREATEST(
    (record ->> 'created_at')::timestamptz, (record ->> 'state_at')::timestamptz, (record ->> 'desired_at')::timestamptz);
COMMENT ON COLUMN task.state IS 'how it ended, what is wrong with it, or else its state';
COMMENT ON COLUMN task.changed_at IS 'when its state, desired state or node changed last';
-- history.list_states
CREATE INDEX task_list_states_index ON task (org, policy, part, slot, task);

-- Stable as what they call: a function with a stricter declaration is not inlined, and costs ten times as much.
CREATE FUNCTION task_detail(record jsonb) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT jsonb_build_object('desired', record -> 'desired', 'specVersion', record -> 'spec' -> 'number', 'cause', record -> 'cause' -> 'cause')
$$;
CREATE FUNCTION agreement_changed_at(record jsonb) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT COALESCE((record ->> 'at')::timestamptz, (record ->> 'created_at')::timestamptz)
$$;
CREATE FUNCTION agreement_detail(record jsonb) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT jsonb_build_object('version', record -> 'version', 'task', record -> 'task')
$$;

-- A state that held for no time was the state at no instant. Ended tasks are kept as long as restarts are counted from them; what ran is
-- over when they end.
CREATE FUNCTION record_task_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO history (segment, kind, org, first_key, second_key, third_key, subject, node, state, detail, began_at, ended_at)
    SELECT (SELECT segment FROM history_segment WHERE completed_at IS NULL),
           'task', before.org, before.policy, before.part, before.slot, before.task, before.node, before.state,
           task_detail(before.record) || jsonb_build_object('next', after.state, 'error', after.record -> 'error'),
           before.changed_at, after.changed_at
    FROM before
    JOIN after USING (task)
    WHERE (before.state, before.desired, before.node) IS DISTINCT FROM (after.state, after.desired, after.node)
      AND before.changed_at < after.changed_at
      AND before.record ->> 'state' <> 'ended';
    RETURN NULL;
END
$$;
CREATE FUNCTION record_task_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO history (segment, kind, org, first_key, second_key, third_key, subject, node, state, detail, began_at, ended_at)
    SELECT (SELECT segment FROM history_segment WHERE completed_at IS NULL),
           'task', before.org, before.policy, before.part, before.slot, before.task, before.node, before.state, task_detail(before.record), before.changed_at,
           GREATEST(before.changed_at, clock_timestamp())
    FROM before
    WHERE before.record ->> 'state' <> 'ended';
    RETURN NULL;
END
$$;
CREATE TRIGGER task_recorded AFTER UPDATE ON task
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION record_task_change();
CREATE TRIGGER task_removal_recorded AFTER DELETE ON task
    REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION record_task_removal();

CREATE FUNCTION record_agreement_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO history (segment, kind, org, first_key, second_key, third_key, subject, node, state, detail, began_at, ended_at)
    SELECT (SELECT segment FROM history_segment WHERE completed_at IS NULL),
           'agreement', before.org, before.node, before.policy, '', before.agreement, before.node,
           before.record ->> 'state',
           agreement_detail(before.record) || jsonb_build_object('next', after.record -> 'state', 'reason', after.record -> 'reason'),
           agreement_changed_at(before.record), agreement_changed_at(after.record)
    FROM before
    JOIN after USING (agreement)
    WHERE before.ended_at IS NULL
      AND before.record ->> 'state' IS DISTINCT FROM after.record ->> 'state'
      AND agreement_changed_at(before.record) < agreement_changed_at(after.record);
    RETURN NULL;
END
$$;
CREATE FUNCTION record_agreement_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO history (segment, kind, org, first_key, second_key, third_key, subject, node, state, detail, began_at, ended_at)
    SELECT (SELECT segment FROM history_segment WHERE completed_at IS NULL),
           'agreement', before.org, before.node, before.policy, '', before.agreement, before.node,
           before.record ->> 'state', agreement_detail(before.record),
           agreement_changed_at(before.record), GREATEST(agreement_changed_at(before.record), clock_timestamp())
    FROM before
    WHERE before.ended_at IS NULL;
    RETURN NULL;
END
$$;
CREATE TRIGGER agreement_recorded AFTER UPDATE ON agreement
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION record_agreement_change();
CREATE TRIGGER agreement_removal_recorded AFTER DELETE ON agreement
    REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION record_agreement_removal();

CREATE FUNCTION claim_detail(purpose jsonb, version text) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT jsonb_build_object('purpose', purpose -> 'purpose', 'version', version)
$$;
CREATE FUNCTION record_claim_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO history (segment, kind, org, first_key, second_key, third_key, subject, node, state, detail, began_at, ended_at)
    SELECT (SELECT segment FROM history_segment WHERE completed_at IS NULL),
           'claim', split_part(before.ha_group, '/', 1), before.ha_group, before.scope, '', '', before.node,
           before.phase, claim_detail(before.purpose, before.version) || jsonb_build_object('next', after.phase),
           before.phase_at, after.phase_at
    FROM before
    JOIN after USING (ha_group, scope)
    WHERE (before.node, before.phase) IS DISTINCT FROM (after.node, after.phase)
      AND before.phase_at < after.phase_at;
    RETURN NULL;
END
$$;
CREATE FUNCTION record_claim_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO history (segment, kind, org, first_key, second_key, third_key, subject, node, state, detail, began_at, ended_at)
    SELECT (SELECT segment FROM history_segment WHERE completed_at IS NULL),
           'claim', split_part(before.ha_group, '/', 1), before.ha_group, before.scope, '', '', before.node,
           before.phase, claim_detail(before.purpose, before.version), before.phase_at, GREATEST(before.phase_at, clock_timestamp())
    FROM before;
    RETURN NULL;
END
$$;
CREATE TRIGGER claim_recorded AFTER UPDATE ON claim
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION record_claim_change();
CREATE TRIGGER claim_removal_recorded AFTER DELETE ON claim
    REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION record_claim_removal();

CREATE FUNCTION record_node_condition_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO history (segment, kind, org, first_key, second_key, third_key, subject, node, state, detail, began_at, ended_at)
    SELECT (SELECT segment FROM history_segment WHERE completed_at IS NULL),
           'node', before.org, before.node, '', '', before.condition, before.node, before.condition, '{}',
           before.began_at, GREATEST(before.began_at, clock_timestamp())
    FROM before;
    RETURN NULL;
END
$$;
CREATE TRIGGER node_condition_end_recorded AFTER DELETE ON node_condition
    REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION record_node_condition_end();

-- Every state with the time that it held: those that are over, and those of the records. No part has a condition of its own, so that each
-- is read by its index in the order of the keys: what is no state ended before every instant, and readers select removed_at IS NULL.
CREATE VIEW state_period AS
SELECT segment, kind, org, first_key, second_key, third_key, subject, node, state, detail, began_at, ended_at,
       NULL::timestamptz AS removed_at
FROM history
UNION ALL
SELECT NULL, 'task', org, policy, part, slot, task, node, state, task_detail(record),
       changed_at, CASE record ->> 'state' WHEN 'ended' THEN '-infinity' ELSE 'infinity' END::timestamptz, NULL
FROM task
UNION ALL
SELECT NULL, 'agreement', org, node, policy, '', agreement, node, record ->> 'state', agreement_detail(record),
       agreement_changed_at(record), 'infinity', ended_at
FROM agreement
UNION ALL
SELECT NULL, 'claim', split_part(ha_group, '/', 1), ha_group, scope, '', '', node, phase, claim_detail(purpose, version), phase_at,
       'infinity', NULL
FROM claim
UNION ALL
SELECT NULL, 'node', org, node, '', '', condition, node, condition, '{}'::jsonb, began_at, 'infinity', NULL
FROM node_condition;
