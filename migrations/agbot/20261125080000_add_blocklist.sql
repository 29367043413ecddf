-- The node blocklist: failures of a service version on a node, and whether the node is blocked for it.

CREATE TABLE blocklist (
    node    text  NOT NULL,
    service text  NOT NULL,
    version text  NOT NULL,
    record  jsonb NOT NULL,
    CONSTRAINT blocklist_node_service_version_key PRIMARY KEY (node, service, version)
);
COMMENT ON TABLE blocklist IS 'failures of service versions on nodes, and until when a node gets no start of one';
COMMENT ON COLUMN blocklist.node IS 'org/node';
COMMENT ON COLUMN blocklist.service IS 'org/url';

ALTER TABLE agbot_change
    DROP CONSTRAINT agbot_change_kind_check,
    ADD CONSTRAINT agbot_change_kind_check
        CHECK (kind IN ('agreement', 'usage', 'claim', 'rollout', 'workload', 'task', 'instance', 'health', 'blocklist'));
COMMENT ON COLUMN agbot_change.kind IS 'table of the record: agreement, usage, claim, rollout, workload, task, instance, health or blocklist';
COMMENT ON COLUMN agbot_change.first_key IS 'agreement or task id, org/node of a usage or blocklist, org/group of a claim or rollout, org/policy of a workload or instance, or kind and name of an entity with health events';
COMMENT ON COLUMN agbot_change.second_key IS 'empty for an agreement, workload or task, org/policy of a usage or rollout, scope of a claim, org/node of an instance, part of an entity with health events, version and service of a blocklist';

CREATE FUNCTION log_blocklist_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO agbot_change (kind, first_key, second_key) SELECT 'blocklist', node, version || ' ' || service FROM changed;
    RETURN NULL;
END
$$;
CREATE TRIGGER blocklist_inserted AFTER INSERT ON blocklist
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_blocklist_change();
CREATE TRIGGER blocklist_updated AFTER UPDATE ON blocklist
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_blocklist_change();
CREATE TRIGGER blocklist_deleted AFTER DELETE ON blocklist
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_blocklist_change();
