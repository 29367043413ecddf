ALTER TABLE node ADD COLUMN is_drain_forced boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN node.is_drain_forced IS 'whether the last instance of an HA group is taken off the drained node as well';
