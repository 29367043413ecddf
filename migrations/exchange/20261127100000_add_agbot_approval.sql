-- An agbot has the rights of agbots after an administrator approved it, and what it serves makes other agbots yield after an administrator
-- of the nodes confirmed it. Whatever administrators wrote before counts as approved and confirmed by them.

ALTER TABLE agbot
    ADD COLUMN approved_by text,
    ADD COLUMN approved_at timestamptz,
    ADD CONSTRAINT agbot_approved_check CHECK ((approved_by IS NULL) = (approved_at IS NULL));
COMMENT ON COLUMN agbot.approved_by IS 'administrator, as org/user, who gave it the rights of agbots; null when it has those of its owner only';

ALTER TABLE agbot_pattern
    ADD COLUMN confirmed_by text,
    ADD COLUMN confirmed_at timestamptz,
    ADD CONSTRAINT agbot_pattern_confirmed_check CHECK ((confirmed_by IS NULL) = (confirmed_at IS NULL));
COMMENT ON COLUMN agbot_pattern.confirmed_by IS 'administrator, as org/user, of the nodes or of the hub; null when other agbots do not yield to the entry';

ALTER TABLE agbot_policy
    ADD COLUMN confirmed_by text,
    ADD COLUMN confirmed_at timestamptz,
    ADD CONSTRAINT agbot_policy_confirmed_check CHECK ((confirmed_by IS NULL) = (confirmed_at IS NULL));
COMMENT ON COLUMN agbot_policy.confirmed_by IS 'administrator, as org/user, of the nodes or of the hub; null when other agbots do not yield to the entry';

-- served_entry.list_served_to: entries of all agbots for the nodes of one organization.
CREATE INDEX agbot_pattern_node_org_index ON agbot_pattern (node_org, org, agbot, entry);
CREATE INDEX agbot_policy_node_org_index ON agbot_policy (node_org, org, agbot, entry);

UPDATE agbot SET approved_by = account.org || '/' || account.name, approved_at = agbot.updated_at
FROM account
WHERE account.org = agbot.owner_org AND account.name = agbot.owner
  AND (account.is_hub_admin OR (account.is_admin AND account.org = agbot.org));

UPDATE agbot_pattern SET confirmed_by = agbot.approved_by, confirmed_at = agbot_pattern.updated_at
FROM agbot
JOIN account ON account.org || '/' || account.name = agbot.approved_by
WHERE agbot.org = agbot_pattern.org AND agbot.agbot = agbot_pattern.agbot
  AND (account.is_hub_admin OR account.org = agbot_pattern.node_org);

UPDATE agbot_policy SET confirmed_by = agbot.approved_by, confirmed_at = agbot_policy.updated_at
FROM agbot
JOIN account ON account.org || '/' || account.name = agbot.approved_by
WHERE agbot.org = agbot_policy.org AND agbot.agbot = agbot_policy.agbot
  AND (account.is_hub_admin OR account.org = agbot_policy.node_org);
