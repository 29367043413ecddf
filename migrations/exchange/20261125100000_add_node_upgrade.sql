ALTER TABLE node ADD COLUMN is_in_upgrade boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN node.is_in_upgrade IS 'whether the node is drained for an upgrade, after which its instances return';
