-- The agbot's own records. They may live in any PostgreSQL, so nothing here refers to a table of the exchange.

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
    node       text        NOT NULL,
    policy     text        NOT NULL,
    record     jsonb       NOT NULL,
    created_at timestamptz NOT NULL,
    ended_at   timestamptz,
    CONSTRAINT agreement_agreement_key PRIMARY KEY (agreement)
);
COMMENT ON COLUMN agreement.node IS 'org/node';
COMMENT ON COLUMN agreement.policy IS 'org/deployment policy';
-- One live agreement for a node and policy.
CREATE UNIQUE INDEX agreement_node_policy_live_key ON agreement (node, policy) WHERE ended_at IS NULL;
-- Removal of old history.
CREATE INDEX agreement_ended_at_index ON agreement (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE workload_usage (
    node    text NOT NULL,
    policy  text NOT NULL,
    usage   jsonb,
    backoff jsonb,
    CONSTRAINT workload_usage_node_policy_key PRIMARY KEY (node, policy)
);

CREATE SEQUENCE claim_fencing;

CREATE TABLE claim_group (
    ha_group text NOT NULL,
    CONSTRAINT claim_group_ha_group_key PRIMARY KEY (ha_group)
);
COMMENT ON TABLE claim_group IS 'one row a group: its lock serialises check-and-insert of the group''s claims';

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
    CONSTRAINT claim_ha_group_scope_key PRIMARY KEY (ha_group, scope)
);
COMMENT ON TABLE claim IS 'which member of a group is being upgraded: service and agent upgrades share this one domain';
COMMENT ON COLUMN claim.scope IS 'agent, or org/deployment policy';

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

CREATE TABLE agbot_event (
    event_id    bigint      GENERATED ALWAYS AS IDENTITY,
    happened_at timestamptz NOT NULL,
    kind        text        NOT NULL,
    ha_group    text,
    node        text,
    policy      text,
    detail      jsonb       NOT NULL,
    CONSTRAINT agbot_event_event_id_key PRIMARY KEY (event_id)
);
COMMENT ON TABLE agbot_event IS 'what the agbot did and why, in order';
CREATE INDEX agbot_event_happened_at_index ON agbot_event (happened_at);
