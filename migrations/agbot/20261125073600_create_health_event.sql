-- Health events: the newest report of a source about a property of an entity.

CREATE TABLE health_event (
    entity_kind text        NOT NULL,
    entity      text        NOT NULL,
    part        text        NOT NULL,
    source      text        NOT NULL,
    property    text        NOT NULL,
    org         text        NOT NULL GENERATED ALWAYS AS (split_part(entity, '/', 1)) STORED,
    sequence    bigint      NOT NULL,
    record      jsonb       NOT NULL,
    expires_at  timestamptz,
    CONSTRAINT health_event_org_entity_key PRIMARY KEY (org, entity_kind, entity, part, source, property)
);
COMMENT ON TABLE health_event IS 'what nodes, people and the engine report about organizations, nodes, groups and workloads';
COMMENT ON COLUMN health_event.entity_kind IS 'org, node, hagroup, workload, unit or instance';
COMMENT ON COLUMN health_event.entity IS 'org, org/node, org/group, or org/policy of a workload, unit or instance';
COMMENT ON COLUMN health_event.part IS 'org/group of a unit, empty for the only unit; org/node of an instance';
COMMENT ON COLUMN health_event.sequence IS 'number of the report: an older one never replaces a newer one';
COMMENT ON COLUMN health_event.expires_at IS 'when the event disappears; NULL when it stays';
-- health.delete_expired finds what has disappeared without reading the rest.
CREATE INDEX health_event_expires_at_index ON health_event (expires_at) WHERE expires_at IS NOT NULL;

ALTER TABLE agbot_change DROP CONSTRAINT agbot_change_kind_check;
ALTER TABLE agbot_change ADD CONSTRAINT agbot_change_kind_check CHECK (
    kind IN ('agreement', 'usage', 'claim', 'rollout', 'workload', 'task', 'instance', 'health')
);
COMMENT ON COLUMN agbot_change.kind IS 'table of the record: agreement, usage, claim, rollout, workload, task, instance or health';
COMMENT ON COLUMN agbot_change.first_key IS 'agreement or task id, org/node of a usage, org/group of a claim or rollout, org/policy of a workload or instance, or kind and name of an entity with health events';
COMMENT ON COLUMN agbot_change.second_key IS 'empty for an agreement, workload or task, org/policy of a usage or rollout, scope of a claim, org/node of an instance, part of an entity with health events';

CREATE FUNCTION log_health_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO agbot_change (kind, first_key, second_key)
    SELECT DISTINCT 'health', entity_kind || ' ' || entity, part FROM changed;
    RETURN NULL;
END
$$;
CREATE TRIGGER health_event_inserted AFTER INSERT ON health_event
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_health_change();
CREATE TRIGGER health_event_updated AFTER UPDATE ON health_event
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_health_change();
CREATE TRIGGER health_event_deleted AFTER DELETE ON health_event
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION log_health_change();
