-- Revisions of the documents that persons write, numbered by document.
CREATE TABLE document_revision (
    org         text        NOT NULL,
    kind        text        NOT NULL,
    name        text        NOT NULL,
    revision    bigint      NOT NULL,
    recorded_at timestamptz NOT NULL,
    author      text        NOT NULL,
    reason      text        NOT NULL,
    operation   text        NOT NULL,
    audience    text        NOT NULL,
    document    json,
    bytes       bigint      NOT NULL,
    is_current  boolean     NOT NULL,
    CONSTRAINT document_revision_key PRIMARY KEY (org, kind, name, revision),
    CONSTRAINT document_revision_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE,
    CONSTRAINT document_revision_operation_check CHECK (operation IN ('found', 'create', 'update', 'delete'))
);
-- audit_state.insert_revised_*, document_revision.prune_organization: the oldest that may be removed.
CREATE INDEX document_revision_org_recorded_at_index ON document_revision (org, recorded_at, kind, name, revision) WHERE NOT is_current;
-- document_revision.delete_before
CREATE INDEX document_revision_recorded_at_index ON document_revision (recorded_at) WHERE NOT is_current;
COMMENT ON TABLE document_revision IS 'documents as they were after each write of a person, and as such a write found them when no revision held that';
COMMENT ON COLUMN document_revision.kind IS 'the kind as the audit record names it';
COMMENT ON COLUMN document_revision.author IS 'who wrote it, org/id; empty for a document that was found';
COMMENT ON COLUMN document_revision.audience IS 'who may see it: the owner of the node or of the private service at that time, or administrators; empty for all who may read the document; of an HA group it concerns the description alone';
COMMENT ON COLUMN document_revision.document IS 'the body of a write that would store it; null after a removal';
COMMENT ON COLUMN document_revision.bytes IS 'bytes of document, reason and name, and a share for the row';
COMMENT ON COLUMN document_revision.is_current IS 'true for the newest revision of a document that exists: it is never removed';

CREATE TABLE document_revision_usage (
    org       text   NOT NULL,
    bytes     bigint NOT NULL,
    forgotten bigint NOT NULL,
    CONSTRAINT document_revision_usage_org_key PRIMARY KEY (org),
    CONSTRAINT document_revision_usage_org_fk FOREIGN KEY (org) REFERENCES organization (org) ON DELETE CASCADE
);
COMMENT ON COLUMN document_revision_usage.bytes IS 'bytes of all revisions of the organization';
COMMENT ON COLUMN document_revision_usage.forgotten IS 'greatest number of a revision that was removed as the last one of its document: later documents get greater ones';
