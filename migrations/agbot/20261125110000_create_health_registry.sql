-- The health registry: HA groups and deployment policies with a health policy, each with the agbot that checks it.

CREATE TABLE health_registry (
    target_kind      text    NOT NULL,
    target           text    NOT NULL,
    org              text    NOT NULL GENERATED ALWAYS AS (split_part(target, '/', 1)) STORED,
    detection_modes  text[]  NOT NULL,
    interval_seconds bigint  NOT NULL,
    is_enabled       boolean NOT NULL,
    suspended_by     text,
    engine           text    NOT NULL,
    partition_number integer NOT NULL,
    fencing          bigint  NOT NULL,
    record           jsonb   NOT NULL,
    CONSTRAINT health_registry_org_target_kind_target_key PRIMARY KEY (org, target_kind, target)
);
COMMENT ON TABLE health_registry IS 'what is checked by a health policy, and by which agbot';
COMMENT ON COLUMN health_registry.target_kind IS 'hagroup or workload';
COMMENT ON COLUMN health_registry.target IS 'org/group or org/policy';
COMMENT ON COLUMN health_registry.suspended_by IS 'operation of a user during which nothing is checked; NULL when there is none';
COMMENT ON COLUMN health_registry.engine IS 'org/id/instance of the agbot that adopted the target';
COMMENT ON COLUMN health_registry.partition_number IS 'its owner checks the target: see work_partition';
COMMENT ON COLUMN health_registry.fencing IS 'fencing number of the lease under which the owner adopted the target';

ALTER TABLE agbot_change
    DROP CONSTRAINT agbot_change_kind_check,
    ADD CONSTRAINT agbot_change_kind_check CHECK (
        kind IN ('agreement', 'usage', 'claim', 'rollout', 'workload', 'task', 'instance', 'health', 'blocklist', 'registration')
    );
COMMENT ON COLUMN agbot_change.kind IS 'table of the record: agreement, usage, claim, rollout, workload, task, instance, health, blocklist or registration';
COMMENT ON COLUMN agbot_change.first_key IS 'agreement or task id, org/node of a usage or blocklist, org/group of a claim or rollout, org/policy of a workload or instance, or kind and name of an entity with health events or of a registration';

CREATE FUNCTION log_registration_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO agbot_change (kind, first_key, second_key)
    SELECT 'registration', target_kind || ' ' || target, '' FROM changed;
    RETURN NULL;
END
$$;
CREATE TRIGGER health_registry_inserted AFTER INSERT ON health_registry
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_registration_change();
CREATE TRIGGER health_registry_updated AFTER UPDATE ON health_registry
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_registration_change();
CREATE TRIGGER health_registry_deleted AFTER DELETE ON health_registry
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_registration_change();

-- event.find_of_group_action
CREATE INDEX agbot_event_group_action_index ON agbot_event (ha_group, event_id)
    WHERE policy IS NULL AND (detail ->> 'actionId') IS NOT NULL;
