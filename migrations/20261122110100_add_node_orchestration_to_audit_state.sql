-- As before, with the kind node_orchestration. The kind node does not show the availability: hashes of nodes stay comparable with those of
-- records from before that column.
CREATE OR REPLACE FUNCTION audit_state(kind text, in_org text, in_id text, in_part text, locks boolean) RETURNS bytea
LANGUAGE plpgsql AS $$
DECLARE
    state text;
BEGIN
    IF locks THEN
        IF kind LIKE 'node%' THEN
            PERFORM 1 FROM node WHERE org = in_org AND node.node = in_id FOR NO KEY UPDATE;
        ELSIF kind = 'ha_group' THEN
            PERFORM 1 FROM ha_group WHERE org = in_org AND name = in_id FOR NO KEY UPDATE;
        ELSIF kind = 'agbot' OR (kind LIKE 'agbot%' AND in_part = '') THEN
            PERFORM 1 FROM agbot WHERE org = in_org AND agbot.agbot = in_id FOR NO KEY UPDATE;
        ELSIF kind = 'agbot_agreement' THEN
            PERFORM 1 FROM agbot_agreement WHERE agreement = in_part FOR NO KEY UPDATE;
        ELSIF kind LIKE 'service%' THEN
            PERFORM 1 FROM service WHERE org = in_org AND service.service = in_id FOR NO KEY UPDATE;
        ELSIF kind LIKE 'pattern%' THEN
            PERFORM 1 FROM pattern WHERE org = in_org AND pattern.pattern = in_id FOR NO KEY UPDATE;
        ELSIF kind = 'deployment_policy' THEN
            PERFORM 1 FROM deployment_policy WHERE org = in_org AND policy = in_id FOR NO KEY UPDATE;
        ELSIF kind = 'management_policy' THEN
            PERFORM 1 FROM management_policy WHERE org = in_org AND policy = in_id FOR NO KEY UPDATE;
        ELSIF kind IN ('account', 'api_key') THEN
            PERFORM 1 FROM account WHERE org = in_org AND name = in_id FOR NO KEY UPDATE;
        ELSIF kind IN ('organization', 'agent_file_version') THEN
            PERFORM 1 FROM organization WHERE org = in_org FOR NO KEY UPDATE;
        END IF;
    END IF;

    IF kind = 'node' THEN
        SELECT row_to_json(shown)::text INTO state FROM (
            SELECT org, node.node, name, owner_org, owner, node_type, pattern, registered_services, user_input, msg_end_point,
                   software_versions, public_key, arch, heartbeat_intervals, cluster_namespace, is_namespace_scoped, updated_at
            FROM node
            WHERE org = in_org AND node.node = in_id
        ) AS shown;
    ELSIF kind = 'node_orchestration' THEN
        SELECT row_to_json(shown)::text INTO state FROM (
            SELECT org, node.node, availability
            FROM node
            WHERE org = in_org AND node.node = in_id
        ) AS shown;
    ELSIF kind = 'node_policy' THEN
        SELECT row_to_json(shown)::text INTO state FROM node_policy AS shown WHERE org = in_org AND node = in_id;
    ELSIF kind = 'node_status' THEN
        SELECT row_to_json(shown)::text INTO state FROM node_status AS shown WHERE org = in_org AND node = in_id;
    ELSIF kind = 'node_error' THEN
        SELECT row_to_json(shown)::text INTO state FROM node_error AS shown WHERE org = in_org AND node = in_id;
    ELSIF kind = 'node_agreement' THEN
        SELECT string_agg(row_to_json(shown)::text, E'\n' ORDER BY agreement) INTO state
        FROM node_agreement AS shown
        WHERE org = in_org AND node = in_id AND (in_part = '' OR agreement = in_part);
    ELSIF kind = 'node_management_status' THEN
        SELECT row_to_json(shown)::text INTO state FROM node_management_status AS shown
        WHERE org = in_org AND node = in_id AND policy = in_part;
    ELSIF kind = 'ha_group' THEN
        SELECT row_to_json(shown)::text INTO state FROM (
            SELECT ha_group.*, ARRAY(
                SELECT node FROM ha_group_member AS member
                WHERE member.org = in_org AND member.ha_group = in_id
                ORDER BY node
            ) AS members
            FROM ha_group
            WHERE org = in_org AND name = in_id
        ) AS shown;
    ELSIF kind = 'agbot' THEN
        SELECT row_to_json(shown)::text INTO state FROM (
            SELECT org, agbot.agbot, name, owner_org, owner, msg_end_point, public_key, updated_at
            FROM agbot
            WHERE org = in_org AND agbot.agbot = in_id
        ) AS shown;
    ELSIF kind = 'agbot_agreement' THEN
        SELECT string_agg(row_to_json(shown)::text, E'\n' ORDER BY agreement) INTO state
        FROM agbot_agreement AS shown
        WHERE org = in_org AND agbot = in_id AND (in_part = '' OR agreement = in_part);
    ELSIF kind = 'agbot_pattern' THEN
        SELECT string_agg(row_to_json(shown)::text, E'\n' ORDER BY entry) INTO state
        FROM agbot_pattern AS shown
        WHERE org = in_org AND agbot = in_id AND (in_part = '' OR entry = in_part);
    ELSIF kind = 'agbot_policy' THEN
        SELECT string_agg(row_to_json(shown)::text, E'\n' ORDER BY entry) INTO state
        FROM agbot_policy AS shown
        WHERE org = in_org AND agbot = in_id AND (in_part = '' OR entry = in_part);
    ELSIF kind = 'service' THEN
        SELECT row_to_json(shown)::text INTO state FROM service AS shown WHERE org = in_org AND service = in_id;
    ELSIF kind = 'service_policy' THEN
        SELECT row_to_json(shown)::text INTO state FROM service_policy AS shown WHERE org = in_org AND service = in_id;
    ELSIF kind = 'service_key' THEN
        SELECT string_agg(row_to_json(shown)::text, E'\n' ORDER BY key_id) INTO state
        FROM service_key AS shown
        WHERE org = in_org AND service = in_id AND (in_part = '' OR key_id = in_part);
    ELSIF kind = 'service_dockauth' THEN
        SELECT string_agg(row_to_json(shown)::text, E'\n' ORDER BY dockauth_id) INTO state FROM (
            SELECT dockauth_id, org, service, registry, username, updated_at
            FROM service_dockauth
            WHERE org = in_org AND service = in_id AND (in_part = '' OR dockauth_id::text = in_part)
        ) AS shown;
    ELSIF kind = 'pattern' THEN
        SELECT row_to_json(shown)::text INTO state FROM pattern AS shown WHERE org = in_org AND pattern = in_id;
    ELSIF kind = 'pattern_key' THEN
        SELECT string_agg(row_to_json(shown)::text, E'\n' ORDER BY key_id) INTO state
        FROM pattern_key AS shown
        WHERE org = in_org AND pattern = in_id AND (in_part = '' OR key_id = in_part);
    ELSIF kind = 'deployment_policy' THEN
        SELECT row_to_json(shown)::text INTO state FROM deployment_policy AS shown WHERE org = in_org AND policy = in_id;
    ELSIF kind = 'management_policy' THEN
        SELECT row_to_json(shown)::text INTO state FROM management_policy AS shown WHERE org = in_org AND policy = in_id;
    ELSIF kind = 'account' THEN
        SELECT row_to_json(shown)::text INTO state FROM (
            SELECT org, name, account.id, email, is_admin, is_hub_admin, updated_at, updated_by
            FROM account
            WHERE org = in_org AND name = in_id
        ) AS shown;
    ELSIF kind = 'api_key' THEN
        SELECT string_agg(row_to_json(shown)::text, E'\n' ORDER BY key_id) INTO state FROM (
            SELECT api_key.id AS key_id, org, account, label, description, updated_at
            FROM api_key
            WHERE org = in_org AND account = in_id AND (in_part = '' OR api_key.id::text = in_part)
        ) AS shown;
    ELSIF kind = 'organization' THEN
        SELECT row_to_json(shown)::text INTO state FROM organization AS shown WHERE org = in_org;
    ELSIF kind = 'agent_file_version' THEN
        SELECT row_to_json(shown)::text INTO state FROM agent_file_version AS shown WHERE org = in_org;
    END IF;
    RETURN sha256(convert_to(state, 'UTF8'));
END
$$;
