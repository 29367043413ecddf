-- What an agbot must still do at the exchange because of a commit: messages to nodes, and its own records of agreements there.
-- A row is written in the transaction that decided it and deleted once it is delivered, so that no crash in between loses it.

CREATE TABLE agbot_outbox (
    sequence         bigint      GENERATED ALWAYS AS IDENTITY,
    partition_number integer     NOT NULL,
    node             text        NOT NULL,
    agreement        text        NOT NULL,
    effect           jsonb       NOT NULL,
    created_at       timestamptz NOT NULL,
    CONSTRAINT agbot_outbox_sequence_key PRIMARY KEY (sequence)
);
COMMENT ON TABLE agbot_outbox IS 'effects on the exchange that are not delivered yet; those of a node are delivered in order';
COMMENT ON COLUMN agbot_outbox.partition_number IS 'whoever holds this share of the work delivers the row';
COMMENT ON COLUMN agbot_outbox.node IS 'org/node';
-- outbox.list_deliverable: rows of the same node that come earlier.
CREATE INDEX agbot_outbox_node_sequence_index ON agbot_outbox (node, sequence);
-- outbox.insert_effects and outbox.delete_of_agreement: what the agreement has in the queue already.
CREATE INDEX agbot_outbox_agreement_index ON agbot_outbox (agreement);
