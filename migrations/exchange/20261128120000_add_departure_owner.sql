ALTER TABLE node_departure ADD COLUMN owner text;
COMMENT ON COLUMN node_departure.owner IS 'account that owned the node, as org/user: each keeps a bounded number; null for departures from before the column';
-- departure.delete_oldest: the newest of an account are kept.
CREATE INDEX node_departure_owner_index ON node_departure (owner, deleted_at);
