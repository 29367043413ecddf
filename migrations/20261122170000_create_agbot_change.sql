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
    CONSTRAINT agbot_change_transaction_change_id_key PRIMARY KEY (transaction, change_id)
);
COMMENT ON TABLE agbot_change IS 'changed records of the agbots, in no order: a reader asks for what its last snapshot did not show';
COMMENT ON COLUMN agbot_change.kind IS 'table of the record: agreement, usage, claim or rollout';
COMMENT ON COLUMN agbot_change.first_key IS 'agreement id, org/node of a usage, or org/group of a claim or rollout';
COMMENT ON COLUMN agbot_change.second_key IS 'empty for an agreement, org/policy of a usage or rollout, scope of a claim';

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
