-- Tasks are few beside nodes, and both columns are read with their task only: no index.
ALTER TABLE node_task ADD COLUMN supervision jsonb;
ALTER TABLE node_task ADD COLUMN health jsonb;
COMMENT ON COLUMN node_task.supervision IS 'what the agent does to supervise the task: check, lease and command; null for nothing';
COMMENT ON COLUMN node_task.health IS 'what the node reported: the last check, life-cycle event and ended command';
