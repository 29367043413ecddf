-- When the hub last heard its nodes: after a start only those that were up then may be late.

CREATE TABLE hub_life (
    is_the_row         boolean     PRIMARY KEY DEFAULT true CHECK (is_the_row),
    heartbeats_read_at timestamptz NOT NULL
);
COMMENT ON TABLE hub_life IS 'one row: when an agbot was last known to be alive';
COMMENT ON COLUMN hub_life.heartbeats_read_at IS 'when an agbot last read the heartbeats of all nodes, by its clock';
