-- What is kept about a task beside its state, in columns: to build a document for every change was half of what its history cost. Documents
-- are built when they are read.
ALTER TABLE history
    ALTER COLUMN detail DROP NOT NULL,
    ADD COLUMN desired     text,
    ADD COLUMN spec_number bigint,
    ADD COLUMN cause       text,
    ADD COLUMN next        text,
    ADD COLUMN error       text,
    ADD CONSTRAINT history_detail_check CHECK (detail IS NOT NULL OR desired IS NOT NULL);
COMMENT ON COLUMN history.detail IS 'version and purpose, and what followed; null for a task, of which the columns desired to error state it';
COMMENT ON COLUMN history.next IS 'state that followed; null if the task was removed';

CREATE OR REPLACE FUNCTION record_task_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO history (segment, kind, org, first_key, second_key, third_key, subject, node, state, desired, spec_number, cause, next, error, began_at,
                         ended_at)
    SELECT (SELECT segment FROM history_segment WHERE completed_at IS NULL),
           'task', before.org, before.policy, before.part, before.slot, before.task, before.node, before.state,
           before.desired, before.spec_number, before.record -> 'cause' ->> 'cause', after.state, after.record ->> 'error',
           before.changed_at, after.changed_at
    FROM before
    JOIN after USING (task)
    WHERE (before.state, before.desired, before.node) IS DISTINCT FROM (after.state, after.desired, after.node)
      AND before.changed_at < after.changed_at
      AND before.record ->> 'state' <> 'ended';
    RETURN NULL;
END
$$;
CREATE OR REPLACE FUNCTION record_task_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO history (segment, kind, org, first_key, second_key, third_key, subject, node, state, desired, spec_number, cause, began_at, ended_at)
    SELECT (SELECT segment FROM history_segment WHERE completed_at IS NULL),
           'task', before.org, before.policy, before.part, before.slot, before.task, before.node, before.state,
           before.desired, before.spec_number, before.record -> 'cause' ->> 'cause', before.changed_at,
           GREATEST(before.changed_at, clock_timestamp())
    FROM before
    WHERE before.record ->> 'state' <> 'ended';
    RETURN NULL;
END
$$;

CREATE FUNCTION task_history_detail(desired text, spec_number bigint, cause text, next text, error text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT jsonb_build_object('desired', desired, 'specVersion', spec_number, 'cause', cause)
        || CASE WHEN next IS NULL THEN '{}' ELSE jsonb_build_object('next', next, 'error', error) END
$$;

CREATE OR REPLACE VIEW state_period AS
SELECT segment, kind, org, first_key, second_key, third_key, subject, node, state,
       COALESCE(detail, task_history_detail(desired, spec_number, cause, next, error)) AS detail, began_at, ended_at,
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
