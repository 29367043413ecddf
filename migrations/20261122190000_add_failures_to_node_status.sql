-- Failures of services that an agent of this project reports with its status: exits, last output, errors of the driver.
ALTER TABLE node_status
    ADD COLUMN failures json NOT NULL DEFAULT '[]';
COMMENT ON COLUMN node_status.failures IS 'list of service failures as the node gave them; empty for agents of other makers';
