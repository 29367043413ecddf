-- audit.insert_action, audit.delete_actions
CREATE TABLE audit_action (
    action      uuid        NOT NULL,
    recorded_at timestamptz NOT NULL,
    CONSTRAINT audit_action_action_key PRIMARY KEY (action)
);
CREATE INDEX audit_action_recorded_at_index ON audit_action (recorded_at);
COMMENT ON TABLE audit_action IS 'actions of agbots that have an audit record: a repeated request adds no other';
