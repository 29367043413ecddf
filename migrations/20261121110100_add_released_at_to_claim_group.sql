-- After a release the member that was refused longest ago goes first.
ALTER TABLE claim_group ADD COLUMN released_at timestamptz;
COMMENT ON COLUMN claim_group.released_at IS 'when an agent claim of the group was released last';
