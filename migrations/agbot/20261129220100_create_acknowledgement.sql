-- Acknowledgements of problems: who knows of one, since when, and why nothing has to be done now.

CREATE TABLE acknowledgement (
    org             text        NOT NULL,
    matter          text        NOT NULL,
    actor           text        NOT NULL,
    reason          text        NOT NULL,
    acknowledged_at timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    CONSTRAINT acknowledgement_org_matter_key PRIMARY KEY (org, matter),
    CONSTRAINT acknowledgement_reason_check CHECK (octet_length(reason) BETWEEN 1 AND 512)
);
COMMENT ON TABLE acknowledgement IS 'problems of the overview that somebody knows of';
COMMENT ON COLUMN acknowledgement.matter IS 'digest of the problem and of its cause';
COMMENT ON COLUMN acknowledgement.actor IS 'org/user';
