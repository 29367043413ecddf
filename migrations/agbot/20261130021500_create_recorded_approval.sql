-- What the events say about requests that a second person approves a plan, so that each step is one event.
CREATE TABLE recorded_approval (
    org        text        NOT NULL,
    approval   text        NOT NULL,
    state      text,
    expires_at timestamptz NOT NULL,
    CONSTRAINT recorded_approval_org_approval_key PRIMARY KEY (org, approval),
    CONSTRAINT recorded_approval_state_check
        CHECK (state IN ('pending', 'approved', 'rejected', 'canceled', 'used', 'expired'))
);
-- approval.list_due: open requests whose time is over; approval.delete_before: by age.
CREATE INDEX recorded_approval_expires_at_index ON recorded_approval (expires_at);
COMMENT ON TABLE recorded_approval IS 'requests for approvals, with the state up to which there are events';
COMMENT ON COLUMN recorded_approval.state IS 'null before the first event';
