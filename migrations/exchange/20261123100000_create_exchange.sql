-- Tables of the exchange. The organization leads every key. Objects that reads return as given are json, which keeps order and spelling.

CREATE TABLE organization (
    org                 text        NOT NULL,
    org_type            text        NOT NULL DEFAULT '',
    label               text        NOT NULL,
    description         text        NOT NULL,
    tags                jsonb,
    limits              jsonb,
    heartbeat_intervals jsonb,
    updated_at          timestamptz NOT NULL,
    CONSTRAINT organization_org_key PRIMARY KEY (org)
);
COMMENT ON COLUMN organization.limits IS 'as given, null when never set; maxNodes 0 means no own limit';

CREATE TABLE account (
    org           text        NOT NULL,
    name          text        NOT NULL,
    id            uuid        NOT NULL,
    password_hash text,
    email         text        NOT NULL DEFAULT '',
    is_admin      boolean     NOT NULL DEFAULT false,
    is_hub_admin  boolean     NOT NULL DEFAULT false,
    updated_at    timestamptz NOT NULL,
    updated_by    text        NOT NULL DEFAULT '',
    author_org    text        NOT NULL GENERATED ALWAYS AS (split_part(updated_by, '/', 1)) STORED,
    author        text        NOT NULL GENERATED ALWAYS AS (substr(updated_by, strpos(updated_by, '/') + 1)) STORED,
    identity_provider text,
    subject           text,
    CONSTRAINT account_org_name_key PRIMARY KEY (org, name),
    CONSTRAINT account_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE,
    CONSTRAINT account_identity_provider_check CHECK ((identity_provider IS NULL) = (subject IS NULL))
);
COMMENT ON COLUMN account.author_org IS 'organization of updated_by; account.list_accounts looks up whether that account exists';
COMMENT ON COLUMN account.identity_provider IS 'issuer of the tokens that this person logs in with; null for local accounts';
COMMENT ON COLUMN account.subject IS 'id of the person at the identity provider';
-- account.find_by_subject
CREATE UNIQUE INDEX account_org_identity_provider_subject_key ON account (org, identity_provider, subject)
    WHERE identity_provider IS NOT NULL;
COMMENT ON TABLE account IS 'people who may log in (the wire calls them users)';
COMMENT ON COLUMN account.password_hash IS 'PHC string; null disables the login';

CREATE TABLE api_key (
    id          uuid        NOT NULL,
    org         text        NOT NULL,
    account     text        NOT NULL,
    label       text,
    description text,
    key_hash    text        NOT NULL,
    updated_at  timestamptz NOT NULL,
    CONSTRAINT api_key_id_key PRIMARY KEY (id),
    CONSTRAINT api_key_account_fk FOREIGN KEY (org, account) REFERENCES account (org, name) ON DELETE CASCADE
);
COMMENT ON COLUMN api_key.key_hash IS 'keyed hash of a generated key (one per value), or a PHC string brought over by an import';
CREATE UNIQUE INDEX api_key_key_hash_key ON api_key (key_hash);
CREATE INDEX api_key_org_account_index ON api_key (org, account);

CREATE TABLE node (
    org                 text        NOT NULL,
    node                text        NOT NULL,
    name                text        NOT NULL,
    owner_org           text        NOT NULL,
    owner               text        NOT NULL,
    token_hash          text        NOT NULL,
    node_type           text        NOT NULL,
    pattern             text        NOT NULL DEFAULT '',
    registered_services json        NOT NULL,
    user_input          json        NOT NULL,
    msg_end_point       text        NOT NULL DEFAULT '',
    software_versions   json        NOT NULL,
    public_key          text        NOT NULL DEFAULT '',
    arch                text        NOT NULL DEFAULT '',
    heartbeat_intervals json        NOT NULL,
    cluster_namespace   text        NOT NULL DEFAULT '',
    is_namespace_scoped boolean     NOT NULL DEFAULT false,
    updated_at          timestamptz NOT NULL,
    availability        text        NOT NULL DEFAULT 'active',
    is_frozen           boolean     NOT NULL DEFAULT false,
    agent_state         text        NOT NULL DEFAULT 'running',
    CONSTRAINT node_org_node_key PRIMARY KEY (org, node),
    CONSTRAINT node_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE,
    CONSTRAINT node_owner_fk FOREIGN KEY (owner_org, owner) REFERENCES account (org, name) ON DELETE CASCADE,
    CONSTRAINT node_availability_check CHECK (availability IN ('active', 'pause', 'drain')),
    CONSTRAINT node_agent_state_check CHECK (agent_state IN ('running', 'stopped'))
);
COMMENT ON COLUMN node.availability IS 'active: services are placed on it; pause: running services stay, nothing new; drain: running services leave. A node that registers again keeps it';
COMMENT ON COLUMN node.is_frozen IS 'nothing starts, stops or moves there by itself. A node that registers again keeps it';
COMMENT ON COLUMN node.agent_state IS 'running: also for agents that never report it; stopped: the agent stopped its services and ended on purpose';
-- The owner's nodes: cascades, per-owner limits, lists of a plain user.
CREATE INDEX node_owner_index ON node (owner_org, owner);
-- search.list_by_policy orders by last change.
CREATE INDEX node_org_updated_at_index ON node (org, updated_at, node);
CREATE INDEX node_org_pattern_index ON node (org, pattern);

CREATE TABLE node_heartbeat (
    org     text        NOT NULL,
    node    text        NOT NULL,
    seen_at timestamptz NOT NULL,
    CONSTRAINT node_heartbeat_org_node_key PRIMARY KEY (org, node),
    CONSTRAINT node_heartbeat_node_fk FOREIGN KEY (org, node) REFERENCES node (org, node) ON DELETE CASCADE
);
COMMENT ON TABLE node_heartbeat IS 'last heartbeat; narrow because it is rewritten in batches every second';

CREATE TABLE node_policy (
    org         text        NOT NULL,
    node        text        NOT NULL,
    label       text        NOT NULL DEFAULT '',
    description text        NOT NULL DEFAULT '',
    properties  json        NOT NULL,
    constraints json        NOT NULL,
    deployment  json        NOT NULL,
    management  json        NOT NULL,
    version     text        NOT NULL DEFAULT '',
    updated_at  timestamptz NOT NULL,
    CONSTRAINT node_policy_org_node_key PRIMARY KEY (org, node),
    CONSTRAINT node_policy_node_fk FOREIGN KEY (org, node) REFERENCES node (org, node) ON DELETE CASCADE
);

CREATE TABLE node_status (
    org              text        NOT NULL,
    node             text        NOT NULL,
    connectivity     json        NOT NULL,
    services         json        NOT NULL,
    running_services text        NOT NULL,
    updated_at       timestamptz NOT NULL,
    failures         json        NOT NULL DEFAULT '[]',
    CONSTRAINT node_status_org_node_key PRIMARY KEY (org, node),
    CONSTRAINT node_status_node_fk FOREIGN KEY (org, node) REFERENCES node (org, node) ON DELETE CASCADE
);
COMMENT ON COLUMN node_status.failures IS 'service failures as the node reported them: exits, last output, driver errors; empty for third-party agents';

CREATE TABLE node_error (
    org        text        NOT NULL,
    node       text        NOT NULL,
    errors     json        NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT node_error_org_node_key PRIMARY KEY (org, node),
    CONSTRAINT node_error_node_fk FOREIGN KEY (org, node) REFERENCES node (org, node) ON DELETE CASCADE
);

CREATE TABLE node_agreement (
    agreement         text        NOT NULL,
    org               text        NOT NULL,
    node              text        NOT NULL,
    services          json        NOT NULL,
    agreement_service json        NOT NULL,
    service_url       text        NOT NULL,
    state             text        NOT NULL,
    updated_at        timestamptz NOT NULL,
    CONSTRAINT node_agreement_agreement_key PRIMARY KEY (agreement),
    CONSTRAINT node_agreement_node_fk FOREIGN KEY (org, node) REFERENCES node (org, node) ON DELETE CASCADE
);
COMMENT ON COLUMN node_agreement.service_url IS 'agreement_service.url, which searches compare';
CREATE INDEX node_agreement_org_node_index ON node_agreement (org, node);

CREATE TABLE ha_group (
    org         text        NOT NULL,
    name        text        NOT NULL,
    description text,
    is_admin    boolean     NOT NULL,
    updated_at  timestamptz NOT NULL,
    owner_org   text,
    owner       text,
    CONSTRAINT ha_group_org_name_key PRIMARY KEY (org, name),
    CONSTRAINT ha_group_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE,
    CONSTRAINT ha_group_owner_fk FOREIGN KEY (owner_org, owner) REFERENCES account (org, name) ON DELETE SET NULL
);
COMMENT ON COLUMN ha_group.owner IS 'who created the group: the only plain user that may change it while it has no members; null when the account is gone';
-- Cascades of a deleted account.
CREATE INDEX ha_group_owner_index ON ha_group (owner_org, owner);
-- ha_group.list_groups: sorted by the bytes of the name, page by page.
CREATE INDEX ha_group_org_name_order_index ON ha_group (org, name COLLATE "C");

CREATE TABLE ha_group_member (
    org      text NOT NULL,
    node     text NOT NULL,
    ha_group text NOT NULL,
    CONSTRAINT ha_group_member_org_node_key PRIMARY KEY (org, node),
    CONSTRAINT ha_group_member_node_fk FOREIGN KEY (org, node) REFERENCES node (org, node) ON DELETE CASCADE,
    CONSTRAINT ha_group_member_ha_group_fk FOREIGN KEY (org, ha_group) REFERENCES ha_group (org, name) ON DELETE CASCADE
);
COMMENT ON TABLE ha_group_member IS 'the one fact of membership: the primary key is the rule that a node is in 0 or 1 groups';
CREATE INDEX ha_group_member_org_ha_group_index ON ha_group_member (org, ha_group);

CREATE TABLE agbot (
    org           text        NOT NULL,
    agbot         text        NOT NULL,
    name          text        NOT NULL,
    owner_org     text        NOT NULL,
    owner         text        NOT NULL,
    token_hash    text        NOT NULL,
    msg_end_point text        NOT NULL DEFAULT '',
    public_key    text        NOT NULL DEFAULT '',
    seen_at       timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    CONSTRAINT agbot_org_agbot_key PRIMARY KEY (org, agbot),
    CONSTRAINT agbot_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE,
    CONSTRAINT agbot_owner_fk FOREIGN KEY (owner_org, owner) REFERENCES account (org, name) ON DELETE CASCADE
);
CREATE INDEX agbot_owner_index ON agbot (owner_org, owner);

CREATE TABLE agbot_agreement (
    agreement  text        NOT NULL,
    org        text        NOT NULL,
    agbot      text        NOT NULL,
    service    json        NOT NULL,
    state      text        NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT agbot_agreement_agreement_key PRIMARY KEY (agreement),
    CONSTRAINT agbot_agreement_agbot_fk FOREIGN KEY (org, agbot) REFERENCES agbot (org, agbot) ON DELETE CASCADE
);
-- agreement.list_of_agbot: an agbot has an agreement with every node it serves, and a page of them must not sort them all.
CREATE INDEX agbot_agreement_org_agbot_agreement_index ON agbot_agreement (org, agbot, agreement);

CREATE TABLE agbot_pattern (
    org         text        NOT NULL,
    agbot       text        NOT NULL,
    entry       text        NOT NULL,
    pattern_org text        NOT NULL,
    pattern     text        NOT NULL,
    node_org    text        NOT NULL,
    updated_at  timestamptz NOT NULL,
    CONSTRAINT agbot_pattern_org_agbot_entry_key PRIMARY KEY (org, agbot, entry),
    CONSTRAINT agbot_pattern_agbot_fk FOREIGN KEY (org, agbot) REFERENCES agbot (org, agbot) ON DELETE CASCADE
);

CREATE TABLE agbot_policy (
    org        text        NOT NULL,
    agbot      text        NOT NULL,
    entry      text        NOT NULL,
    policy_org text        NOT NULL,
    policy     text        NOT NULL,
    node_org   text        NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT agbot_policy_org_agbot_entry_key PRIMARY KEY (org, agbot, entry),
    CONSTRAINT agbot_policy_agbot_fk FOREIGN KEY (org, agbot) REFERENCES agbot (org, agbot) ON DELETE CASCADE
);
COMMENT ON TABLE agbot_policy IS 'deployment policies an agbot serves; * stands for all of the org';

CREATE SEQUENCE message_id;

CREATE TABLE node_message (
    message_id  bigint      NOT NULL DEFAULT nextval('message_id'),
    org         text        NOT NULL,
    node        text        NOT NULL,
    agbot_org   text        NOT NULL,
    agbot       text        NOT NULL,
    public_key  text        NOT NULL,
    message     text        NOT NULL,
    sent_at     timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    CONSTRAINT node_message_message_id_key PRIMARY KEY (message_id),
    CONSTRAINT node_message_node_fk FOREIGN KEY (org, node) REFERENCES node (org, node) ON DELETE CASCADE,
    CONSTRAINT node_message_agbot_fk FOREIGN KEY (agbot_org, agbot) REFERENCES agbot (org, agbot) ON DELETE CASCADE
);
CREATE INDEX node_message_org_node_index ON node_message (org, node, message_id);
CREATE INDEX node_message_agbot_index ON node_message (agbot_org, agbot);
CREATE INDEX node_message_expires_at_index ON node_message (expires_at);

CREATE TABLE agbot_message (
    message_id bigint      NOT NULL DEFAULT nextval('message_id'),
    org        text        NOT NULL,
    agbot      text        NOT NULL,
    node_org   text        NOT NULL,
    node       text        NOT NULL,
    public_key text        NOT NULL,
    message    text        NOT NULL,
    sent_at    timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT agbot_message_message_id_key PRIMARY KEY (message_id),
    CONSTRAINT agbot_message_agbot_fk FOREIGN KEY (org, agbot) REFERENCES agbot (org, agbot) ON DELETE CASCADE
);
COMMENT ON TABLE agbot_message IS 'messages outlive the node that sent them, so there is no reference to the node';
CREATE INDEX agbot_message_org_agbot_index ON agbot_message (org, agbot, message_id);
CREATE INDEX agbot_message_expires_at_index ON agbot_message (expires_at);

CREATE TABLE service (
    org                          text        NOT NULL,
    service                      text        NOT NULL,
    owner_org                    text        NOT NULL,
    owner                        text        NOT NULL,
    label                        text        NOT NULL,
    description                  text        NOT NULL,
    is_public                    boolean     NOT NULL,
    documentation                text        NOT NULL DEFAULT '',
    url                          text        NOT NULL,
    version                      text        NOT NULL,
    arch                         text        NOT NULL,
    sharable                     text        NOT NULL,
    match_hardware               json        NOT NULL,
    required_services            json        NOT NULL,
    user_input                   json        NOT NULL,
    deployment                   text        NOT NULL DEFAULT '',
    deployment_signature         text        NOT NULL DEFAULT '',
    cluster_deployment           text        NOT NULL DEFAULT '',
    cluster_deployment_signature text        NOT NULL DEFAULT '',
    image_store                  json        NOT NULL,
    updated_at                   timestamptz NOT NULL,
    CONSTRAINT service_org_service_key PRIMARY KEY (org, service),
    CONSTRAINT service_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE,
    CONSTRAINT service_owner_fk FOREIGN KEY (owner_org, owner) REFERENCES account (org, name) ON DELETE CASCADE
);
CREATE INDEX service_owner_index ON service (owner_org, owner);
-- References from policies, patterns, user input and required services name url and arch.
CREATE INDEX service_org_url_arch_index ON service (org, url, arch);

CREATE TABLE service_policy (
    org         text        NOT NULL,
    service     text        NOT NULL,
    label       text        NOT NULL DEFAULT '',
    description text        NOT NULL DEFAULT '',
    properties  json        NOT NULL,
    constraints json        NOT NULL,
    updated_at  timestamptz NOT NULL,
    CONSTRAINT service_policy_org_service_key PRIMARY KEY (org, service),
    CONSTRAINT service_policy_service_fk FOREIGN KEY (org, service) REFERENCES service (org, service) ON DELETE CASCADE
);

CREATE TABLE service_key (
    org        text        NOT NULL,
    service    text        NOT NULL,
    key_id     text        NOT NULL,
    content    bytea       NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT service_key_org_service_key_id_key PRIMARY KEY (org, service, key_id),
    CONSTRAINT service_key_service_fk FOREIGN KEY (org, service) REFERENCES service (org, service) ON DELETE CASCADE
);

CREATE TABLE service_dockauth (
    dockauth_id integer GENERATED BY DEFAULT AS IDENTITY,
    org         text        NOT NULL,
    service     text        NOT NULL,
    registry    text        NOT NULL,
    username    text        NOT NULL,
    token       text        NOT NULL,
    updated_at  timestamptz NOT NULL,
    CONSTRAINT service_dockauth_dockauth_id_key PRIMARY KEY (dockauth_id),
    CONSTRAINT service_dockauth_service_fk FOREIGN KEY (org, service) REFERENCES service (org, service) ON DELETE CASCADE
);
CREATE INDEX service_dockauth_org_service_index ON service_dockauth (org, service);

CREATE TABLE pattern (
    org                 text        NOT NULL,
    pattern             text        NOT NULL,
    owner_org           text        NOT NULL,
    owner               text        NOT NULL,
    label               text        NOT NULL,
    description         text        NOT NULL,
    is_public           boolean     NOT NULL,
    services            json        NOT NULL,
    user_input          json        NOT NULL,
    secret_binding      json        NOT NULL,
    agreement_protocols json        NOT NULL,
    cluster_namespace   text        NOT NULL DEFAULT '',
    updated_at          timestamptz NOT NULL,
    CONSTRAINT pattern_org_pattern_key PRIMARY KEY (org, pattern),
    CONSTRAINT pattern_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE,
    CONSTRAINT pattern_owner_fk FOREIGN KEY (owner_org, owner) REFERENCES account (org, name) ON DELETE CASCADE
);
CREATE INDEX pattern_owner_index ON pattern (owner_org, owner);

CREATE TABLE pattern_key (
    org        text        NOT NULL,
    pattern    text        NOT NULL,
    key_id     text        NOT NULL,
    content    bytea       NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pattern_key_org_pattern_key_id_key PRIMARY KEY (org, pattern, key_id),
    CONSTRAINT pattern_key_pattern_fk FOREIGN KEY (org, pattern) REFERENCES pattern (org, pattern) ON DELETE CASCADE
);

CREATE TABLE deployment_policy (
    org            text        NOT NULL,
    policy         text        NOT NULL,
    owner_org      text        NOT NULL,
    owner          text        NOT NULL,
    label          text        NOT NULL,
    description    text        NOT NULL,
    service        json        NOT NULL,
    user_input     json        NOT NULL,
    secret_binding json        NOT NULL,
    properties     json        NOT NULL,
    constraints    json        NOT NULL,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    orchestration  json,
    CONSTRAINT deployment_policy_org_policy_key PRIMARY KEY (org, policy),
    CONSTRAINT deployment_policy_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE,
    CONSTRAINT deployment_policy_owner_fk FOREIGN KEY (owner_org, owner) REFERENCES account (org, name) ON DELETE CASCADE
);
COMMENT ON COLUMN deployment_policy.orchestration IS 'object orchestration of the policy; null when it was not given';
CREATE INDEX deployment_policy_owner_index ON deployment_policy (owner_org, owner);

CREATE TABLE search_session (
    org       text NOT NULL,
    policy    text NOT NULL,
    agbot_org text NOT NULL,
    agbot     text NOT NULL,
    since     timestamptz,
    session   text,
    CONSTRAINT search_session_key PRIMARY KEY (org, policy, agbot_org, agbot),
    CONSTRAINT search_session_policy_fk FOREIGN KEY (org, policy) REFERENCES deployment_policy (org, policy) ON DELETE CASCADE,
    CONSTRAINT search_session_agbot_fk FOREIGN KEY (agbot_org, agbot) REFERENCES agbot (org, agbot) ON DELETE CASCADE
);
-- Cascades of a deleted agbot.
CREATE INDEX search_session_agbot_index ON search_session (agbot_org, agbot);
COMMENT ON TABLE search_session IS 'where a paged policy search of an agbot stands';

CREATE TABLE management_policy (
    org                  text        NOT NULL,
    policy               text        NOT NULL,
    owner_org            text        NOT NULL,
    owner                text        NOT NULL,
    label                text        NOT NULL,
    description          text        NOT NULL,
    properties           json        NOT NULL,
    constraints          json        NOT NULL,
    patterns             json        NOT NULL,
    is_enabled           boolean     NOT NULL,
    start                text        NOT NULL,
    start_window         bigint      NOT NULL,
    agent_upgrade_policy json        NOT NULL,
    created_at           timestamptz NOT NULL,
    updated_at           timestamptz NOT NULL,
    CONSTRAINT management_policy_org_policy_key PRIMARY KEY (org, policy),
    CONSTRAINT management_policy_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE,
    CONSTRAINT management_policy_owner_fk FOREIGN KEY (owner_org, owner) REFERENCES account (org, name) ON DELETE CASCADE
);
CREATE INDEX management_policy_owner_index ON management_policy (owner_org, owner);

CREATE TABLE node_management_status (
    org        text        NOT NULL,
    node       text        NOT NULL,
    policy     text        NOT NULL,
    status     json        NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT node_management_status_key PRIMARY KEY (org, node, policy),
    CONSTRAINT node_management_status_node_fk FOREIGN KEY (org, node) REFERENCES node (org, node) ON DELETE CASCADE,
    CONSTRAINT node_management_status_policy_fk FOREIGN KEY (org, policy) REFERENCES management_policy (org, policy) ON DELETE CASCADE
);
-- Cascades of a deleted management policy.
CREATE INDEX node_management_status_org_policy_index ON node_management_status (org, policy);

CREATE TABLE node_task (
    org           text        NOT NULL,
    node          text        NOT NULL,
    task          text        NOT NULL,
    policy        text        NOT NULL,
    workload_unit text        NOT NULL,
    slot          bigint,
    spec_version  bigint      NOT NULL,
    desired       text        NOT NULL,
    agreement     text,
    fencing       bigint      NOT NULL,
    state         text        NOT NULL DEFAULT 'assigned',
    seq           bigint      NOT NULL DEFAULT 0,
    reported_at   timestamptz,
    message       text,
    error         text,
    exit_code     integer,
    updated_at    timestamptz NOT NULL,
    CONSTRAINT node_task_key PRIMARY KEY (org, node, task),
    CONSTRAINT node_task_node_fk FOREIGN KEY (org, node) REFERENCES node (org, node) ON DELETE CASCADE,
    CONSTRAINT node_task_desired_check CHECK (desired IN ('ready', 'running', 'shutdown', 'remove')),
    CONSTRAINT node_task_state_check CHECK (state IN ('assigned', 'accepted', 'preparing', 'ready', 'starting', 'running',
        'complete', 'shutdown', 'failed', 'rejected'))
);
-- node_task.has_live_of_policy
CREATE INDEX node_task_policy_index ON node_task (policy);
COMMENT ON TABLE node_task IS 'tasks of nodes: wanted by an agbot, which holds the record of them; the state is the last that the node reported';
COMMENT ON COLUMN node_task.policy IS 'org/policy; no reference, because a task outlives its policy until it has stopped';
COMMENT ON COLUMN node_task.fencing IS 'of the lease under which an agbot wrote last; writes with a smaller one are refused';
COMMENT ON COLUMN node_task.reported_at IS 'by the clock of the node';

CREATE TABLE agent_file_version (
    org               text        NOT NULL,
    software_versions text[]      NOT NULL,
    config_versions   text[]      NOT NULL,
    cert_versions     text[]      NOT NULL,
    updated_at        timestamptz NOT NULL,
    CONSTRAINT agent_file_version_org_key PRIMARY KEY (org),
    CONSTRAINT agent_file_version_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE
);

CREATE TABLE exchange_secret (
    name  text  NOT NULL,
    value bytea NOT NULL,
    CONSTRAINT exchange_secret_name_key PRIMARY KEY (name)
);
COMMENT ON TABLE exchange_secret IS 'keys shared by all exchanges of this database, for instance of the hash of generated tokens';

-- The change feed: a write leaves its rows here without a number, in its own transaction.
CREATE TABLE change_outbox (
    outbox_id   bigint      GENERATED ALWAYS AS IDENTITY,
    org         text        NOT NULL,
    id          text        NOT NULL,
    category    text        NOT NULL,
    resource    text        NOT NULL,
    operation   text        NOT NULL,
    is_public   boolean     NOT NULL,
    changed_at  timestamptz NOT NULL,
    CONSTRAINT change_outbox_outbox_id_key PRIMARY KEY (outbox_id)
);

-- Numbered rows: consecutive numbers, given after the commit of the write, so that a reader at n never misses something below n.
CREATE TABLE change (
    change_id   bigint      NOT NULL,
    org         text        NOT NULL,
    id          text        NOT NULL,
    category    text        NOT NULL,
    resource    text        NOT NULL,
    operation   text        NOT NULL,
    is_public   boolean     NOT NULL,
    changed_at  timestamptz NOT NULL,
    CONSTRAINT change_change_id_key PRIMARY KEY (change_id)
);
COMMENT ON COLUMN change.category IS 'visibility class; internal rows name what other exchanges must drop from their caches and are never returned';
-- Pruning by age and reading from an instant.
CREATE INDEX change_changed_at_index ON change (changed_at);

CREATE TABLE change_sequence (
    only_row  boolean NOT NULL DEFAULT true,
    last_id   bigint  NOT NULL,
    CONSTRAINT change_sequence_only_row_key PRIMARY KEY (only_row),
    CONSTRAINT change_sequence_only_row_check CHECK (only_row)
);
COMMENT ON TABLE change_sequence IS 'the last number given; its row lock is the sequencer lease';
INSERT INTO change_sequence (last_id) VALUES (0);

-- The exchanges that answer from memory now. A write is acknowledged when all of them have seen it, or their time is over.
CREATE TABLE exchange_instance (
    instance   uuid        NOT NULL,
    seen_id    bigint      NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT exchange_instance_instance_key PRIMARY KEY (instance)
);
COMMENT ON COLUMN exchange_instance.seen_id IS 'Number up to which this exchange has seen the change feed.';
COMMENT ON COLUMN exchange_instance.expires_at IS 'After this instant it answers nothing before it has joined again.';

-- Numbers the committed outbox rows, at most `most`, for the exchange `numberer`, and answers them, ascending; a last row without a number
-- holds the other exchanges that answer from memory and must see what was numbered until now. They are notified when there are any.
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

-- Who did what from where: one record for each write, in the transaction of the write, sealed into a chain per organization afterwards.

-- A write leaves its record here without a number, in its own transaction.
CREATE TABLE audit_outbox (
    outbox_id    bigint      GENERATED ALWAYS AS IDENTITY,
    org          text        NOT NULL,
    recorded_at  timestamptz NOT NULL,
    caller       text        NOT NULL,
    caller_role  text        NOT NULL,
    address      text        NOT NULL,
    request      text        NOT NULL,
    method       text        NOT NULL,
    operation    text        NOT NULL,
    resource     text        NOT NULL,
    status       smallint    NOT NULL,
    state_before bytea,
    state_after  bytea,
    CONSTRAINT audit_outbox_outbox_id_key PRIMARY KEY (outbox_id)
);

-- Sealed records. There is no reference to the organization: what was done to it outlives it.
CREATE TABLE audit_record (
    org           text        NOT NULL,
    number        bigint      NOT NULL,
    recorded_at   timestamptz NOT NULL,
    caller        text        NOT NULL,
    caller_role   text        NOT NULL,
    address       text        NOT NULL,
    request       text        NOT NULL,
    method        text        NOT NULL,
    operation     text        NOT NULL,
    resource      text        NOT NULL,
    status        smallint    NOT NULL,
    state_before  bytea,
    state_after   bytea,
    previous_hash bytea       NOT NULL,
    hash          bytea       NOT NULL,
    CONSTRAINT audit_record_org_number_key PRIMARY KEY (org, number)
);
COMMENT ON COLUMN audit_record.number IS 'consecutive in the organization, in the order of sealing, which follows commits';
COMMENT ON COLUMN audit_record.caller IS 'org/id of the login';
COMMENT ON COLUMN audit_record.address IS 'of the client; empty when the request came from inside the process';
COMMENT ON COLUMN audit_record.state_before IS 'SHA-256 of the resource, without secrets, before the write; null when there was none';
COMMENT ON COLUMN audit_record.state_after IS 'the same after the write; null when there is none any more';
COMMENT ON COLUMN audit_record.previous_hash IS 'hash of the record with the number below; 32 zero bytes for the first one';
COMMENT ON COLUMN audit_record.hash IS 'SHA-256 of all other columns in the canonical form of evenkeel_wire::audit';
-- Lists by caller and by resource.
CREATE INDEX audit_record_org_caller_index ON audit_record (org, caller, number);
CREATE INDEX audit_record_org_resource_index ON audit_record (org, resource text_pattern_ops, number);
-- Lists by time, and pruning by age: records come nearly in the order of time.
CREATE INDEX audit_record_recorded_at_index ON audit_record USING brin (recorded_at);

CREATE TABLE audit_chain (
    org          text   NOT NULL,
    last_number  bigint NOT NULL,
    last_hash    bytea  NOT NULL,
    begin_number bigint NOT NULL DEFAULT 0,
    begin_hash   bytea  NOT NULL,
    opened_at    bigint NOT NULL DEFAULT 0,
    CONSTRAINT audit_chain_org_key PRIMARY KEY (org)
);
COMMENT ON TABLE audit_chain IS 'both ends of each chain; locking a row is the right to lengthen or shorten the chain';
COMMENT ON COLUMN audit_chain.begin_number IS 'last record that was pruned: the chain is checked from there on';
COMMENT ON COLUMN audit_chain.opened_at IS 'record of the creation of the organization that exists now: its administrators see none before';

-- One sealer at a time; its row lock is the lease.
CREATE TABLE audit_lease (
    only_row boolean NOT NULL DEFAULT true,
    CONSTRAINT audit_lease_only_row_key PRIMARY KEY (only_row),
    CONSTRAINT audit_lease_only_row_check CHECK (only_row)
);
INSERT INTO audit_lease DEFAULT VALUES;

-- The last import from a reference exchange: whether the numbers of the change feed are still those that it brought.
CREATE TABLE import_run (
    only_row       boolean     NOT NULL DEFAULT true,
    last_change_id bigint      NOT NULL,
    finished_at    timestamptz NOT NULL,
    CONSTRAINT import_run_only_row_key PRIMARY KEY (only_row),
    CONSTRAINT import_run_only_row_check CHECK (only_row)
);
