ALTER TABLE node ADD COLUMN capacities jsonb;
COMMENT ON COLUMN node.capacities IS 'what instances may use of the node, by name; null when nobody said it';
