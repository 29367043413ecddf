-- What the agent of a node said last about itself. Written by the agent (PATCH agentState), so that a node that was stopped on purpose is
-- not taken for one that runs until its heartbeats are missed.
ALTER TABLE node
    ADD COLUMN agent_state text NOT NULL DEFAULT 'running',
    ADD CONSTRAINT node_agent_state_check CHECK (agent_state IN ('running', 'stopped'));
COMMENT ON COLUMN node.agent_state IS 'running: also of agents that never say it; stopped: the agent ended and stopped its services before';
