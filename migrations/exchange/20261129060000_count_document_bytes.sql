-- Bytes of a text as JSON. It depends on its argument alone, which to_json of any type does not promise.
CREATE FUNCTION json_text_bytes(given text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT octet_length(to_json($1)::text)::bigint $$;

ALTER TABLE node ADD COLUMN record_bytes bigint NOT NULL GENERATED ALWAYS AS (
    json_text_bytes(name) + json_text_bytes(node_type) + json_text_bytes(pattern) + octet_length(registered_services::text)
    + octet_length(user_input::text) + json_text_bytes(msg_end_point) + octet_length(software_versions::text)
    + json_text_bytes(public_key) + json_text_bytes(arch) + octet_length(heartbeat_intervals::text) + json_text_bytes(cluster_namespace)
) STORED;
COMMENT ON COLUMN node.record_bytes IS 'bytes of the record as JSON; what exceeds the share of every node counts against the limit of its owner';
-- document_bytes.of_nodes
CREATE INDEX node_large_index ON node (owner_org, owner) INCLUDE (record_bytes) WHERE record_bytes > 4096;

ALTER TABLE node_policy ADD COLUMN bytes bigint NOT NULL GENERATED ALWAYS AS (
    json_text_bytes(label) + json_text_bytes(description) + octet_length(properties::text) + octet_length(constraints::text)
    + octet_length(deployment::text) + octet_length(management::text) + json_text_bytes(version)
) STORED;
CREATE INDEX node_policy_large_index ON node_policy (org, node) INCLUDE (bytes) WHERE bytes > 4096;

ALTER TABLE node_status ADD COLUMN bytes bigint NOT NULL GENERATED ALWAYS AS (
    octet_length(connectivity::text) + octet_length(services::text) + json_text_bytes(running_services) + octet_length(failures::text)
) STORED;
CREATE INDEX node_status_large_index ON node_status (org, node) INCLUDE (bytes) WHERE bytes > 16384;

ALTER TABLE node_error ADD COLUMN bytes bigint NOT NULL GENERATED ALWAYS AS (octet_length(errors::text)) STORED;
CREATE INDEX node_error_large_index ON node_error (org, node) INCLUDE (bytes) WHERE bytes > 16384;

ALTER TABLE service ADD COLUMN bytes bigint NOT NULL GENERATED ALWAYS AS (
    json_text_bytes(label) + json_text_bytes(description) + json_text_bytes(documentation) + json_text_bytes(url) + json_text_bytes(version)
    + json_text_bytes(arch) + octet_length(match_hardware::text) + octet_length(required_services::text) + octet_length(user_input::text)
    + json_text_bytes(deployment) + json_text_bytes(deployment_signature) + json_text_bytes(cluster_deployment)
    + json_text_bytes(cluster_deployment_signature) + octet_length(image_store::text)
) STORED;
-- document_bytes.of_services
CREATE INDEX service_large_index ON service (owner_org, owner) INCLUDE (bytes) WHERE bytes > 8192;

ALTER TABLE service_policy ADD COLUMN bytes bigint NOT NULL GENERATED ALWAYS AS (
    json_text_bytes(label) + json_text_bytes(description) + octet_length(properties::text) + octet_length(constraints::text)
) STORED;
CREATE INDEX service_policy_large_index ON service_policy (org, service) INCLUDE (bytes) WHERE bytes > 8192;

ALTER TABLE pattern ADD COLUMN bytes bigint NOT NULL GENERATED ALWAYS AS (
    json_text_bytes(label) + json_text_bytes(description) + octet_length(services::text) + octet_length(user_input::text)
    + octet_length(secret_binding::text) + octet_length(agreement_protocols::text) + json_text_bytes(cluster_namespace)
) STORED;
-- document_bytes.of_policies
CREATE INDEX pattern_large_index ON pattern (owner_org, owner) INCLUDE (bytes) WHERE bytes > 8192;

ALTER TABLE deployment_policy ADD COLUMN bytes bigint NOT NULL GENERATED ALWAYS AS (
    json_text_bytes(label) + json_text_bytes(description) + octet_length(service::text) + octet_length(user_input::text)
    + octet_length(secret_binding::text) + octet_length(properties::text) + octet_length(constraints::text)
    + COALESCE(octet_length(orchestration::text), 0)
) STORED;
CREATE INDEX deployment_policy_large_index ON deployment_policy (owner_org, owner) INCLUDE (bytes) WHERE bytes > 8192;

ALTER TABLE management_policy ADD COLUMN bytes bigint NOT NULL GENERATED ALWAYS AS (
    json_text_bytes(label) + json_text_bytes(description) + octet_length(properties::text) + octet_length(constraints::text)
    + octet_length(patterns::text) + json_text_bytes(start) + octet_length(agent_upgrade_policy::text)
) STORED;
CREATE INDEX management_policy_large_index ON management_policy (owner_org, owner) INCLUDE (bytes) WHERE bytes > 8192;
