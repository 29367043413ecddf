-- The last import from a reference exchange: whether the numbers of the change feed are still those that it brought.
CREATE TABLE import_run (
    only_row       boolean     NOT NULL DEFAULT true,
    last_change_id bigint      NOT NULL,
    finished_at    timestamptz NOT NULL,
    CONSTRAINT import_run_only_row_key PRIMARY KEY (only_row),
    CONSTRAINT import_run_only_row_check CHECK (only_row)
);
