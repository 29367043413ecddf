-- Update parallelism counts the claims of one policy in all groups; the row's lock serializes count and insert.
CREATE TABLE claim_policy (
    policy text NOT NULL,
    CONSTRAINT claim_policy_policy_key PRIMARY KEY (policy)
);
COMMENT ON TABLE claim_policy IS 'one row a policy whose update parallelism is limited: its lock serializes check-and-insert of the policy''s claims';
COMMENT ON COLUMN claim_policy.policy IS 'org/policy';
