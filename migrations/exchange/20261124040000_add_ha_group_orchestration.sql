ALTER TABLE ha_group ADD COLUMN orchestration jsonb;
COMMENT ON COLUMN ha_group.orchestration IS 'how many members may be disrupted at once; null holds the defaults';
