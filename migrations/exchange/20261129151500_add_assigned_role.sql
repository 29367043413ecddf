ALTER TABLE account ADD COLUMN role text, ADD COLUMN role_policies text[] NOT NULL DEFAULT '{}';
ALTER TABLE account
    ADD CONSTRAINT account_role_check CHECK (role IN ('viewer', 'deployer')),
    ADD CONSTRAINT account_role_policies_check CHECK ((cardinality(role_policies) > 0) = (role IS NOT DISTINCT FROM 'deployer')),
    ADD CONSTRAINT account_role_of_user_check CHECK (role IS NULL OR NOT (is_admin OR is_hub_admin OR org = 'root'));
COMMENT ON COLUMN account.role IS 'limits the account to reading, or to reading and some deployment policies; null for ordinary users and administrators';
COMMENT ON COLUMN account.role_policies IS 'names of deployment policies that a deployer writes, or beginnings of names that end in *';

ALTER TABLE api_key ADD COLUMN role text, ADD COLUMN role_policies text[] NOT NULL DEFAULT '{}';
ALTER TABLE api_key
    ADD CONSTRAINT api_key_role_check CHECK (role IN ('viewer', 'deployer')),
    ADD CONSTRAINT api_key_role_policies_check CHECK ((cardinality(role_policies) > 0) = (role IS NOT DISTINCT FROM 'deployer')),
    ADD CONSTRAINT api_key_role_org_check CHECK (role IS NULL OR org <> 'root');
COMMENT ON COLUMN api_key.role IS 'limits logins with the key to what both its account and the role may; null for keys with the rights of their account';
COMMENT ON COLUMN api_key.role_policies IS 'names of deployment policies that a deployer writes, or beginnings of names that end in *';
