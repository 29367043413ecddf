-- Leases that guardians enforced on nodes that were deleted while they were silent: a lease that is over needs no confirmation.

ALTER TABLE node_departure
    ADD COLUMN leases jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN node_departure.leases IS 'seconds without contact after which the guardian has killed a task, by task; empty without a running guardian';
COMMENT ON TABLE node_departure IS 'deleted nodes on which instances may still run: neither their agents nor administrators have confirmed that everything has stopped';
