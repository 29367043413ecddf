-- Requests that a second person approves the plan of a write.
CREATE TABLE plan_approval (
    org         text        NOT NULL,
    id          uuid        NOT NULL,
    requester   text        NOT NULL,
    kind        text        NOT NULL,
    policy      text,
    title       text        NOT NULL,
    request     json        NOT NULL,
    plan        json        NOT NULL,
    token       text        NOT NULL,
    basis       text,
    reason      text        NOT NULL,
    state       text        NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    decided_by  text,
    decided_at  timestamptz,
    decision    text,
    used_by     text,
    used_at     timestamptz,
    CONSTRAINT plan_approval_org_id_key PRIMARY KEY (org, id),
    CONSTRAINT plan_approval_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE,
    CONSTRAINT plan_approval_state_check CHECK (state IN ('pending', 'approved', 'rejected', 'canceled', 'used')),
    CONSTRAINT plan_approval_decided_check CHECK ((decided_by IS NULL) = (decided_at IS NULL) AND (decided_by IS NULL) = (state = 'pending')),
    CONSTRAINT plan_approval_used_check CHECK ((used_by IS NULL) = (used_at IS NULL) AND (used_by IS NOT NULL) = (state = 'used'))
);
-- plan_approval.prune: requests of every organization by age.
CREATE INDEX plan_approval_expires_at_index ON plan_approval (expires_at);
COMMENT ON TABLE plan_approval IS 'requests that a second person approves the plan of a write; ids are ordered by time';
COMMENT ON COLUMN plan_approval.requester IS 'account of the organization that requested it';
COMMENT ON COLUMN plan_approval.title IS 'the write in words';
COMMENT ON COLUMN plan_approval.request IS 'the write, as the agbot received it';
COMMENT ON COLUMN plan_approval.plan IS 'the plan, as it is shown to the person who approves it';
COMMENT ON COLUMN plan_approval.token IS 'digest of the plan, which must still hold when the write is carried out';
COMMENT ON COLUMN plan_approval.basis IS 'when the object of the write was written last; null when it did not exist, and for settings';
COMMENT ON COLUMN plan_approval.decided_by IS 'account of the organization that approved, rejected or canceled it';
