-- The exchange's record of who and what exists. Org leads every key; typed columns, the wire's strings are made at the edge.

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
    CONSTRAINT account_org_name_key PRIMARY KEY (org, name),
    CONSTRAINT account_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE
);
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
    registered_services jsonb       NOT NULL,
    user_input          jsonb       NOT NULL,
    msg_end_point       text        NOT NULL DEFAULT '',
    software_versions   jsonb       NOT NULL,
    public_key          text        NOT NULL DEFAULT '',
    arch                text        NOT NULL DEFAULT '',
    heartbeat_intervals jsonb       NOT NULL,
    cluster_namespace   text        NOT NULL DEFAULT '',
    is_namespace_scoped boolean     NOT NULL DEFAULT false,
    updated_at          timestamptz NOT NULL,
    CONSTRAINT node_org_node_key PRIMARY KEY (org, node),
    CONSTRAINT node_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE,
    CONSTRAINT node_owner_fk FOREIGN KEY (owner_org, owner) REFERENCES account (org, name) ON DELETE CASCADE
);
-- The owner's nodes: cascades, per-owner limits, lists of a plain user.
CREATE INDEX node_owner_index ON node (owner_org, owner);
-- Policy search orders by last change.
CREATE INDEX node_org_updated_at_index ON node (org, updated_at, node);
CREATE INDEX node_org_pattern_index ON node (org, pattern);

CREATE TABLE node_heartbeat (
    org     text        NOT NULL,
    node    text        NOT NULL,
    seen_at timestamptz NOT NULL,
    CONSTRAINT node_heartbeat_org_node_key PRIMARY KEY (org, node),
    CONSTRAINT node_heartbeat_node_fk FOREIGN KEY (org, node) REFERENCES node (org, node) ON DELETE CASCADE
);
COMMENT ON TABLE node_heartbeat IS 'last sign of life; narrow because it is rewritten in batches every second';

CREATE TABLE node_policy (
    org         text        NOT NULL,
    node        text        NOT NULL,
    label       text        NOT NULL DEFAULT '',
    description text        NOT NULL DEFAULT '',
    properties  jsonb       NOT NULL,
    constraints jsonb       NOT NULL,
    deployment  jsonb       NOT NULL,
    management  jsonb       NOT NULL,
    version     text        NOT NULL DEFAULT '',
    updated_at  timestamptz NOT NULL,
    CONSTRAINT node_policy_org_node_key PRIMARY KEY (org, node),
    CONSTRAINT node_policy_node_fk FOREIGN KEY (org, node) REFERENCES node (org, node) ON DELETE CASCADE
);

CREATE TABLE node_status (
    org              text        NOT NULL,
    node             text        NOT NULL,
    connectivity     jsonb       NOT NULL,
    services         jsonb       NOT NULL,
    running_services text        NOT NULL,
    updated_at       timestamptz NOT NULL,
    CONSTRAINT node_status_org_node_key PRIMARY KEY (org, node),
    CONSTRAINT node_status_node_fk FOREIGN KEY (org, node) REFERENCES node (org, node) ON DELETE CASCADE
);

CREATE TABLE node_error (
    org        text        NOT NULL,
    node       text        NOT NULL,
    errors     jsonb       NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT node_error_org_node_key PRIMARY KEY (org, node),
    CONSTRAINT node_error_node_fk FOREIGN KEY (org, node) REFERENCES node (org, node) ON DELETE CASCADE
);

CREATE TABLE node_agreement (
    agreement         text        NOT NULL,
    org               text        NOT NULL,
    node              text        NOT NULL,
    services          jsonb       NOT NULL,
    agreement_service jsonb       NOT NULL,
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
    CONSTRAINT ha_group_org_name_key PRIMARY KEY (org, name),
    CONSTRAINT ha_group_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE
);

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
    service    jsonb       NOT NULL,
    state      text        NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT agbot_agreement_agreement_key PRIMARY KEY (agreement),
    CONSTRAINT agbot_agreement_agbot_fk FOREIGN KEY (org, agbot) REFERENCES agbot (org, agbot) ON DELETE CASCADE
);
CREATE INDEX agbot_agreement_org_agbot_index ON agbot_agreement (org, agbot);

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
    match_hardware               jsonb       NOT NULL,
    required_services            jsonb       NOT NULL,
    user_input                   jsonb       NOT NULL,
    deployment                   text        NOT NULL DEFAULT '',
    deployment_signature         text        NOT NULL DEFAULT '',
    cluster_deployment           text        NOT NULL DEFAULT '',
    cluster_deployment_signature text        NOT NULL DEFAULT '',
    image_store                  jsonb       NOT NULL,
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
    properties  jsonb       NOT NULL,
    constraints jsonb       NOT NULL,
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
    services            jsonb       NOT NULL,
    user_input          jsonb       NOT NULL,
    secret_binding      jsonb       NOT NULL,
    agreement_protocols jsonb       NOT NULL,
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
    service        jsonb       NOT NULL,
    user_input     jsonb       NOT NULL,
    secret_binding jsonb       NOT NULL,
    properties     jsonb       NOT NULL,
    constraints    jsonb       NOT NULL,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    CONSTRAINT deployment_policy_org_policy_key PRIMARY KEY (org, policy),
    CONSTRAINT deployment_policy_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE,
    CONSTRAINT deployment_policy_owner_fk FOREIGN KEY (owner_org, owner) REFERENCES account (org, name) ON DELETE CASCADE
);
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
COMMENT ON TABLE search_session IS 'where a paged policy search of an agbot stands';

CREATE TABLE management_policy (
    org                  text        NOT NULL,
    policy               text        NOT NULL,
    owner_org            text        NOT NULL,
    owner                text        NOT NULL,
    label                text        NOT NULL,
    description          text        NOT NULL,
    properties           jsonb       NOT NULL,
    constraints          jsonb       NOT NULL,
    patterns             jsonb       NOT NULL,
    is_enabled           boolean     NOT NULL,
    start                text        NOT NULL,
    start_window         bigint      NOT NULL,
    agent_upgrade_policy jsonb       NOT NULL,
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
    status     jsonb       NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT node_management_status_key PRIMARY KEY (org, node, policy),
    CONSTRAINT node_management_status_node_fk FOREIGN KEY (org, node) REFERENCES node (org, node) ON DELETE CASCADE,
    CONSTRAINT node_management_status_policy_fk FOREIGN KEY (org, policy) REFERENCES management_policy (org, policy) ON DELETE CASCADE
);

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
