-- Nodes that were deleted while their agents were alive: whether what ran there has stopped is not known until the agent says so.

CREATE TABLE node_departure (
    org        text        NOT NULL,
    node       text        NOT NULL,
    token_hash text        NOT NULL,
    deleted_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL,
    CONSTRAINT node_departure_org_node_key PRIMARY KEY (org, node),
    CONSTRAINT node_departure_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE
);
COMMENT ON TABLE node_departure IS 'deleted nodes whose agents have not confirmed that they stopped everything';
COMMENT ON COLUMN node_departure.token_hash IS 'that of the deleted node: with its token the agent may confirm, and nothing else';
COMMENT ON COLUMN node_departure.seen_at IS 'the last heartbeat';
