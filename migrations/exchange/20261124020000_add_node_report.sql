-- What nodes report about themselves. Source: orchestration 1.7.

ALTER TABLE node
    ADD COLUMN monitor_state       text NOT NULL DEFAULT 'idle',
    ADD COLUMN monitor_state_since timestamptz,
    ADD COLUMN compat_version      bigint,
    ADD CONSTRAINT node_monitor_state_check CHECK (monitor_state IN ('idle', 'init', 'maintenance', 'upgrade', 'shutting'));
COMMENT ON COLUMN node.monitor_state IS 'what its agent reports that it is doing; idle for agents that never report it';
COMMENT ON COLUMN node.monitor_state_since IS 'when the agent reported the monitor state; null before the first report';
COMMENT ON COLUMN node.compat_version IS 'version of what must be the same on all nodes of a workload; null when never reported';

CREATE TABLE node_report (
    org           text NOT NULL,
    node          text NOT NULL,
    statistics    json,
    statistics_at timestamptz,
    engine        json,
    engine_at     timestamptz,
    CONSTRAINT node_report_org_node_key PRIMARY KEY (org, node),
    CONSTRAINT node_report_node_fk FOREIGN KEY (org, node) REFERENCES node (org, node) ON DELETE CASCADE,
    CONSTRAINT node_report_statistics_check CHECK ((statistics IS NULL) = (statistics_at IS NULL)),
    CONSTRAINT node_report_engine_check CHECK ((engine IS NULL) = (engine_at IS NULL))
);
COMMENT ON TABLE node_report IS 'last statistics of nodes, and their container engines; apart from node because it is rewritten in batches like heartbeats';
