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
