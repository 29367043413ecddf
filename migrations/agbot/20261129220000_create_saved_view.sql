-- Saved views: selections of nodes under a name, shared by the accounts of an organization.

CREATE TABLE saved_view (
    org        text        NOT NULL,
    name       text        NOT NULL,
    owner      text        NOT NULL,
    selection  jsonb       NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT saved_view_org_name_key PRIMARY KEY (org, name),
    CONSTRAINT saved_view_name_check CHECK (octet_length(name) BETWEEN 1 AND 64)
);
COMMENT ON TABLE saved_view IS 'selections of nodes that users saved';
COMMENT ON COLUMN saved_view.owner IS 'org/user who saved it first';
COMMENT ON COLUMN saved_view.selection IS 'description, state, availability, group and filter, as far as they are given';
