-- Tables of the agbot. They may live in any PostgreSQL database, so nothing here refers to a table of the exchange.

CREATE TABLE work_partition (
    partition_number integer     NOT NULL,
    owner            uuid,
    fencing          bigint      NOT NULL DEFAULT 0,
    expires_at       timestamptz,
    CONSTRAINT work_partition_partition_number_key PRIMARY KEY (partition_number)
);
COMMENT ON TABLE work_partition IS 'shares of the work, leased by one agbot at a time; fencing grows with every hand-over';

CREATE TABLE agbot_instance (
    instance   uuid        NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT agbot_instance_instance_key PRIMARY KEY (instance)
);
COMMENT ON TABLE agbot_instance IS 'agbots that are alive, so that each takes its fair number of partitions';

CREATE TABLE agreement (
    agreement  text        NOT NULL,
    org        text        NOT NULL GENERATED ALWAYS AS (split_part(node, '/', 1)) STORED,
    node       text        NOT NULL,
    policy     text        NOT NULL,
    record     jsonb       NOT NULL,
    created_at timestamptz NOT NULL,
    ended_at   timestamptz,
    CONSTRAINT agreement_agreement_key PRIMARY KEY (agreement)
);
COMMENT ON COLUMN agreement.org IS 'organization of the node';
COMMENT ON COLUMN agreement.node IS 'org/node';
COMMENT ON COLUMN agreement.policy IS 'org/deployment policy';
-- One live agreement for a node and policy; agreement.list_live_of_org.
CREATE UNIQUE INDEX agreement_node_policy_live_key
    ON agreement (org, node, policy, (CASE record ->> 'is_side_by_side' WHEN 'true' THEN agreement ELSE '' END))
    WHERE ended_at IS NULL;
-- agreement.list_ended
CREATE INDEX agreement_org_ended_at_index ON agreement (org, ended_at) WHERE ended_at IS NOT NULL;
-- Removal of old history.
CREATE INDEX agreement_ended_at_index ON agreement (ended_at) WHERE ended_at IS NOT NULL;
-- agreement.list_recent reads them, however long ago they ended; there are hardly ever any.
CREATE INDEX agreement_awaits_stop_index ON agreement (agreement) WHERE record ->> 'awaits_stop' = 'true';

CREATE TABLE workload_usage (
    node    text NOT NULL,
    policy  text NOT NULL,
    usage   jsonb,
    backoff jsonb,
    CONSTRAINT workload_usage_node_policy_key PRIMARY KEY (node, policy)
);

CREATE SEQUENCE claim_fencing;

CREATE TABLE claim_group (
    ha_group    text        NOT NULL,
    released_at timestamptz,
    revision    bigint      NOT NULL DEFAULT 0,
    CONSTRAINT claim_group_ha_group_key PRIMARY KEY (ha_group)
);
COMMENT ON TABLE claim_group IS 'one row a group: its lock and its revision serialize check-and-insert of the group''s claims';
COMMENT ON COLUMN claim_group.released_at IS 'when an agent claim of the group was released last: the member that was refused longest ago goes first';
COMMENT ON COLUMN claim_group.revision IS 'grows with every claim of the group that is taken or released';

CREATE TABLE claim (
    ha_group text        NOT NULL,
    scope    text        NOT NULL,
    node     text        NOT NULL,
    purpose  jsonb       NOT NULL,
    version  text        NOT NULL,
    fencing  bigint      NOT NULL,
    phase    text        NOT NULL,
    since    timestamptz NOT NULL,
    phase_at timestamptz NOT NULL,
    deadline timestamptz NOT NULL,
    CONSTRAINT claim_ha_group_scope_key PRIMARY KEY (ha_group, scope),
    CONSTRAINT claim_phase_check CHECK (phase IN ('stopping', 'starting', 'verifying'))
);
COMMENT ON TABLE claim IS 'which member of a group is being upgraded: service and agent upgrades share this one domain';
COMMENT ON COLUMN claim.scope IS 'agent, or org/deployment policy';
-- claim.list_groups_of_policy counts the groups in work of a policy whose update parallelism is limited.
CREATE INDEX claim_policy_index ON claim (scope) WHERE scope <> 'agent';

-- Update parallelism counts the claims of one policy in all groups; the row's lock serializes count and insert.
CREATE TABLE claim_policy (
    policy text NOT NULL,
    CONSTRAINT claim_policy_policy_key PRIMARY KEY (policy)
);
COMMENT ON TABLE claim_policy IS 'one row a policy whose update parallelism is limited: its lock serializes check-and-insert of the policy''s claims';
COMMENT ON COLUMN claim_policy.policy IS 'org/policy';

CREATE TABLE upgrade_wait (
    ha_group     text        NOT NULL,
    node         text        NOT NULL,
    since        timestamptz NOT NULL,
    refreshed_at timestamptz NOT NULL,
    CONSTRAINT upgrade_wait_ha_group_node_key PRIMARY KEY (ha_group, node)
);
COMMENT ON TABLE upgrade_wait IS 'members whose agent upgrade was refused lately: the one that waits longest goes first';

CREATE TABLE rollout (
    ha_group text  NOT NULL,
    policy   text  NOT NULL,
    record   jsonb NOT NULL,
    CONSTRAINT rollout_ha_group_policy_key PRIMARY KEY (ha_group, policy)
);

-- Policies with tasks. The row of a workload is shared by all of its parts; its lock serializes what they write.
CREATE TABLE workload (
    policy text  NOT NULL,
    record jsonb NOT NULL,
    CONSTRAINT workload_policy_key PRIMARY KEY (policy)
);
COMMENT ON TABLE workload IS 'versions and update status of each deployment policy with tasks';
COMMENT ON COLUMN workload.policy IS 'org/policy';

CREATE TABLE task_spec (
    policy      text   NOT NULL,
    spec_number bigint NOT NULL,
    document    jsonb  NOT NULL,
    CONSTRAINT task_spec_policy_spec_number_key PRIMARY KEY (policy, spec_number)
);
COMMENT ON TABLE task_spec IS 'what each version of a workload runs: a copy, because the policy may say something else by now';

CREATE TABLE task (
    task        text    NOT NULL,
    policy      text    NOT NULL,
    part        text    NOT NULL,
    slot        text    NOT NULL,
    spec_number bigint  NOT NULL,
    record      jsonb   NOT NULL,
    CONSTRAINT task_task_key PRIMARY KEY (task)
);
COMMENT ON TABLE task IS 'attempts to run an instance in a slot, with the history that restarts are counted from';
COMMENT ON COLUMN task.part IS 'org/group, or all';
COMMENT ON COLUMN task.slot IS 'a number, or org/node';
-- task.lock_slots; task.delete_of_policy and workload.delete_task_specs by the policy alone.
CREATE INDEX task_policy_part_slot_index ON task (policy, part, slot);

CREATE TABLE instance (
    policy text  NOT NULL,
    node   text  NOT NULL,
    record jsonb NOT NULL,
    CONSTRAINT instance_policy_node_key PRIMARY KEY (policy, node)
);
COMMENT ON TABLE instance IS 'what is exceptional about a workload on a node: frozen, pinned, failed, cleared';

CREATE TABLE agbot_event (
    event_id    bigint      GENERATED ALWAYS AS IDENTITY,
    happened_at timestamptz NOT NULL,
    kind        text        NOT NULL,
    ha_group    text,
    node        text,
    policy      text,
    org         text        GENERATED ALWAYS AS (split_part(COALESCE(node, ha_group), '/', 1)) STORED,
    policy_org  text        GENERATED ALWAYS AS (split_part(policy, '/', 1)) STORED,
    detail      jsonb       NOT NULL,
    CONSTRAINT agbot_event_event_id_key PRIMARY KEY (event_id)
);
COMMENT ON TABLE agbot_event IS 'what the agbot did and why, in order';
COMMENT ON COLUMN agbot_event.org IS 'organization of the node and the group';
CREATE INDEX agbot_event_happened_at_index ON agbot_event (happened_at);
-- event.list_of_policy
CREATE INDEX agbot_event_policy_index ON agbot_event (policy, event_id) WHERE policy IS NOT NULL;
-- event.list_of_policies
CREATE INDEX agbot_event_policy_org_index ON agbot_event (policy_org, event_id) WHERE policy IS NOT NULL;
-- event.insert_node_events and event.list_node_conditions look for the newest change of a node.
CREATE INDEX agbot_event_node_condition_index ON agbot_event (node, event_id) WHERE kind LIKE 'node.%';

-- An organization that comes to be is served once; whether it stays so is the administrator's to say.
CREATE TABLE offered_organization (
    org text NOT NULL,
    CONSTRAINT offered_organization_org_key PRIMARY KEY (org)
);
COMMENT ON TABLE offered_organization IS 'organizations that the agbot began to serve by itself; it never adds one of them again';

-- What an agbot must still do at the exchange because of a commit: messages to nodes, and its own records of agreements there.
-- A row is written in the transaction that decided it and deleted once it is delivered, so that no crash in between loses it.

CREATE TABLE agbot_outbox (
    sequence         bigint      GENERATED ALWAYS AS IDENTITY,
    partition_number integer     NOT NULL,
    node             text        NOT NULL,
    subject          text        NOT NULL,
    effect           jsonb       NOT NULL,
    created_at       timestamptz NOT NULL,
    CONSTRAINT agbot_outbox_sequence_key PRIMARY KEY (sequence)
);
COMMENT ON TABLE agbot_outbox IS 'effects on the exchange that are not delivered yet; those of a node are delivered in order';
COMMENT ON COLUMN agbot_outbox.partition_number IS 'whoever holds this share of the work delivers the row';
COMMENT ON COLUMN agbot_outbox.node IS 'org/node';
COMMENT ON COLUMN agbot_outbox.subject IS 'agreement or task';
-- outbox.list_deliverable: rows of the same node that come earlier.
CREATE INDEX agbot_outbox_node_sequence_index ON agbot_outbox (node, sequence);
-- outbox.insert_effects and outbox.delete_of_agreement: what the agreement has in the queue already.
CREATE INDEX agbot_outbox_subject_index ON agbot_outbox (subject);

-- The log of changed records. Every agbot on the database tails it, and so knows the agreements, claims, rollouts and usage of all agbots.
-- Triggers append to it in the transaction of the change, so no writer can forget it. A row names the record; readers read it as it is then.
CREATE TABLE agbot_change (
    transaction xid8        NOT NULL DEFAULT pg_current_xact_id(),
    change_id   bigint      GENERATED ALWAYS AS IDENTITY,
    kind        text        NOT NULL,
    first_key   text        NOT NULL,
    second_key  text        NOT NULL,
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The order of the columns serves agbot_change.list_after.
    CONSTRAINT agbot_change_transaction_change_id_key PRIMARY KEY (transaction, change_id),
    CONSTRAINT agbot_change_kind_check CHECK (kind IN ('agreement', 'usage', 'claim', 'rollout', 'workload', 'task', 'instance'))
);
COMMENT ON TABLE agbot_change IS 'changed records of the agbots, in no order: a reader asks for what its last snapshot did not show';
COMMENT ON COLUMN agbot_change.kind IS 'table of the record: agreement, usage, claim, rollout, workload, task or instance';
COMMENT ON COLUMN agbot_change.first_key IS 'agreement or task id, org/node of a usage, org/group of a claim or rollout, or org/policy of a workload or instance';
COMMENT ON COLUMN agbot_change.second_key IS 'empty for an agreement, workload or task, org/policy of a usage or rollout, scope of a claim, org/node of an instance';

-- Each round removes the rows that the snapshot of the round before showed. A reader that has seen round n has seen all that round n + 1 removes.
CREATE TABLE agbot_change_retention (
    only_row boolean     NOT NULL DEFAULT true,
    round    bigint      NOT NULL,
    snapshot pg_snapshot NOT NULL,
    taken_at timestamptz NOT NULL,
    CONSTRAINT agbot_change_retention_only_row_key PRIMARY KEY (only_row),
    CONSTRAINT agbot_change_retention_only_row_check CHECK (only_row)
);
COMMENT ON TABLE agbot_change_retention IS 'how often rows of agbot_change were removed, and which rows the next round removes';
INSERT INTO agbot_change_retention (round, snapshot, taken_at) VALUES (0, pg_current_snapshot(), now());

CREATE FUNCTION log_agreement_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO agbot_change (kind, first_key, second_key) SELECT 'agreement', agreement, '' FROM changed;
    RETURN NULL;
END
$$;
-- The end of an agreement was logged; that its history is removed later concerns nobody.
CREATE FUNCTION log_agreement_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO agbot_change (kind, first_key, second_key) SELECT 'agreement', agreement, '' FROM changed WHERE ended_at IS NULL;
    RETURN NULL;
END
$$;
CREATE FUNCTION log_usage_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO agbot_change (kind, first_key, second_key) SELECT 'usage', node, policy FROM changed;
    RETURN NULL;
END
$$;
CREATE FUNCTION log_claim_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO agbot_change (kind, first_key, second_key) SELECT 'claim', ha_group, scope FROM changed;
    RETURN NULL;
END
$$;
CREATE FUNCTION log_rollout_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO agbot_change (kind, first_key, second_key) SELECT 'rollout', ha_group, policy FROM changed;
    RETURN NULL;
END
$$;
CREATE FUNCTION log_workload_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO agbot_change (kind, first_key, second_key) SELECT 'workload', policy, '' FROM changed;
    RETURN NULL;
END
$$;
CREATE FUNCTION log_task_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO agbot_change (kind, first_key, second_key) SELECT 'task', task, '' FROM changed;
    RETURN NULL;
END
$$;
CREATE FUNCTION log_instance_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO agbot_change (kind, first_key, second_key) SELECT 'instance', policy, node FROM changed;
    RETURN NULL;
END
$$;

-- One trigger a statement and event: batches of claims cost one insert.
CREATE TRIGGER agreement_inserted AFTER INSERT ON agreement
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_agreement_change();
CREATE TRIGGER agreement_updated AFTER UPDATE ON agreement
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_agreement_change();
CREATE TRIGGER agreement_deleted AFTER DELETE ON agreement
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_agreement_removal();
CREATE TRIGGER workload_usage_inserted AFTER INSERT ON workload_usage
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_usage_change();
CREATE TRIGGER workload_usage_updated AFTER UPDATE ON workload_usage
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_usage_change();
CREATE TRIGGER workload_usage_deleted AFTER DELETE ON workload_usage
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_usage_change();
CREATE TRIGGER claim_inserted AFTER INSERT ON claim
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_claim_change();
CREATE TRIGGER claim_updated AFTER UPDATE ON claim
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_claim_change();
CREATE TRIGGER claim_deleted AFTER DELETE ON claim
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_claim_change();
CREATE TRIGGER rollout_inserted AFTER INSERT ON rollout
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_rollout_change();
CREATE TRIGGER rollout_updated AFTER UPDATE ON rollout
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_rollout_change();
CREATE TRIGGER rollout_deleted AFTER DELETE ON rollout
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_rollout_change();
CREATE TRIGGER workload_inserted AFTER INSERT ON workload
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_workload_change();
CREATE TRIGGER workload_updated AFTER UPDATE ON workload
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_workload_change();
CREATE TRIGGER workload_deleted AFTER DELETE ON workload
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_workload_change();
CREATE TRIGGER task_inserted AFTER INSERT ON task
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_task_change();
CREATE TRIGGER task_updated AFTER UPDATE ON task
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_task_change();
CREATE TRIGGER task_deleted AFTER DELETE ON task
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_task_change();
CREATE TRIGGER instance_inserted AFTER INSERT ON instance
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_instance_change();
CREATE TRIGGER instance_updated AFTER UPDATE ON instance
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_instance_change();
CREATE TRIGGER instance_deleted AFTER DELETE ON instance
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_instance_change();
