-- Claims are decided on what was read, and taken only if nothing changed since.
ALTER TABLE claim_group ADD COLUMN revision bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN claim_group.revision IS 'grows with every claim of the group that is taken or released';
COMMENT ON TABLE claim_group IS 'one row a group: its lock and its revision serialise check-and-insert of the group''s claims';
