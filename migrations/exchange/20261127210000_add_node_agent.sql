-- Which run of which agent reports for a node, so that two agents with one identity are told apart.

ALTER TABLE node
    ADD COLUMN agent_runs json;
COMMENT ON COLUMN node.agent_runs IS 'the run of its agent that reports for it, whether its guardian enforces leases, and earlier runs; null for agents that do not name themselves';
