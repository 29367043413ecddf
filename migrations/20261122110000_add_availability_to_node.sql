-- Whether services are placed on a node. Read with its row, written by node.set_availability only: a node that registers again keeps what
-- its operator asked for.
ALTER TABLE node
    ADD COLUMN availability text NOT NULL DEFAULT 'active',
    ADD CONSTRAINT node_availability_check CHECK (availability IN ('active', 'pause', 'drain'));
COMMENT ON COLUMN node.availability IS 'active: services are placed on it; pause: what runs stays, nothing new; drain: what runs leaves, too';
