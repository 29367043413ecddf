-- The change feed: a write leaves its rows here without a number, in its own transaction.
CREATE TABLE change_outbox (
    outbox_id   bigint      GENERATED ALWAYS AS IDENTITY,
    org         text        NOT NULL,
    id          text        NOT NULL,
    category    text        NOT NULL,
    resource    text        NOT NULL,
    operation   text        NOT NULL,
    is_public   boolean     NOT NULL,
    changed_at  timestamptz NOT NULL,
    CONSTRAINT change_outbox_outbox_id_key PRIMARY KEY (outbox_id)
);

-- Numbered rows: consecutive numbers, given after the commit of the write, so that a reader at n never misses something below n.
CREATE TABLE change (
    change_id   bigint      NOT NULL,
    org         text        NOT NULL,
    id          text        NOT NULL,
    category    text        NOT NULL,
    resource    text        NOT NULL,
    operation   text        NOT NULL,
    is_public   boolean     NOT NULL,
    changed_at  timestamptz NOT NULL,
    CONSTRAINT change_change_id_key PRIMARY KEY (change_id)
);
COMMENT ON COLUMN change.category IS 'visibility class; internal rows tell other exchanges what to forget and are never shown';
-- Pruning by age and reading from an instant.
CREATE INDEX change_changed_at_index ON change (changed_at);

CREATE TABLE change_sequence (
    only_row  boolean NOT NULL DEFAULT true,
    last_id   bigint  NOT NULL,
    CONSTRAINT change_sequence_only_row_key PRIMARY KEY (only_row),
    CONSTRAINT change_sequence_only_row_check CHECK (only_row)
);
COMMENT ON TABLE change_sequence IS 'the last number given; its row lock is the sequencer lease';
INSERT INTO change_sequence (last_id) VALUES (0);
