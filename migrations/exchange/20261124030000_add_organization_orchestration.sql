-- Settings of an organization for its workloads and nodes. Source: orchestration 1.6.

ALTER TABLE organization ADD COLUMN orchestration json;
COMMENT ON COLUMN organization.orchestration IS 'what the organization sets itself; null when it never set anything';
