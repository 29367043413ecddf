ALTER TABLE node ADD COLUMN spec_updated_by text;
COMMENT ON COLUMN node.spec_updated_by IS 'who last said whether services are placed on the node, and whether it is frozen; null when nobody did';
