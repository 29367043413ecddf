-- An organization that comes to be is served once; whether it stays so is the administrator's to say.
CREATE TABLE offered_organization (
    org text NOT NULL,
    CONSTRAINT offered_organization_org_key PRIMARY KEY (org)
);
COMMENT ON TABLE offered_organization IS 'organizations that the agbot began to serve by itself; it never adds one of them again';
