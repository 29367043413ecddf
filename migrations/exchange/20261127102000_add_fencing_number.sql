-- Fencing numbers are given out, so that nobody publishes a task under a number that no lease has.

CREATE TABLE fencing_number (
    is_only boolean NOT NULL DEFAULT true,
    last    bigint  NOT NULL,
    CONSTRAINT fencing_number_is_only_key PRIMARY KEY (is_only),
    CONSTRAINT fencing_number_is_only_check CHECK (is_only)
);
COMMENT ON TABLE fencing_number IS 'one row: the last fencing number that was given out, for any agbot';
-- Numbers that are in use stay below those given out from now on.
INSERT INTO fencing_number (last) SELECT GREATEST(0, max(fencing)) FROM node_task;

CREATE TABLE agbot_fencing (
    org      text        NOT NULL,
    agbot    text        NOT NULL,
    fencing  bigint      NOT NULL,
    given_at timestamptz NOT NULL,
    CONSTRAINT agbot_fencing_org_agbot_fencing_key PRIMARY KEY (org, agbot, fencing),
    CONSTRAINT agbot_fencing_agbot_fk FOREIGN KEY (org, agbot) REFERENCES agbot (org, agbot) ON DELETE CASCADE
);
COMMENT ON TABLE agbot_fencing IS 'fencing numbers that leases of an agbot were given, the newest of each';

ALTER TABLE node_task ADD COLUMN agbot text;
COMMENT ON COLUMN node_task.agbot IS 'the agbot, as org/id, that published the task; null when it was published before this was recorded';
