ALTER TABLE node ADD COLUMN fault_domain text, ADD COLUMN upgrade_domain text;
COMMENT ON COLUMN node.fault_domain IS 'what fails together with the node, with the domains around it: fd:/dc/rack; null when nobody said it';
COMMENT ON COLUMN node.upgrade_domain IS 'what is upgraded together with the node; null when nobody said it';
