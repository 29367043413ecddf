-- An entry is confirmed by administrators only, and for the organization that it names. Two kinds were confirmed otherwise: those that an
-- agbot wrote itself, which count as written by its owner, and those without an organization of the nodes, which were compared with the
-- organization of the policy.

UPDATE agbot_pattern AS entry SET confirmed_by = NULL, confirmed_at = NULL
FROM agbot
WHERE agbot.org = entry.org AND agbot.agbot = entry.agbot AND entry.confirmed_by = agbot.org || '/' || agbot.agbot
  AND NOT EXISTS (
      SELECT FROM account
      WHERE account.org = agbot.owner_org AND account.name = agbot.owner
        AND (account.is_hub_admin OR (account.is_admin AND account.org = entry.node_org)));

UPDATE agbot_pattern AS entry SET confirmed_by = agbot.owner_org || '/' || agbot.owner
FROM agbot
WHERE agbot.org = entry.org AND agbot.agbot = entry.agbot AND entry.confirmed_by = agbot.org || '/' || agbot.agbot;

UPDATE agbot_policy AS entry SET confirmed_by = NULL, confirmed_at = NULL
FROM agbot
WHERE agbot.org = entry.org AND agbot.agbot = entry.agbot AND entry.confirmed_by = agbot.org || '/' || agbot.agbot
  AND NOT EXISTS (
      SELECT FROM account
      WHERE account.org = agbot.owner_org AND account.name = agbot.owner
        AND (account.is_hub_admin OR (account.is_admin AND account.org = entry.node_org)));

UPDATE agbot_policy AS entry SET confirmed_by = agbot.owner_org || '/' || agbot.owner
FROM agbot
WHERE agbot.org = entry.org AND agbot.agbot = entry.agbot AND entry.confirmed_by = agbot.org || '/' || agbot.agbot;

UPDATE agbot_policy AS entry SET confirmed_by = NULL, confirmed_at = NULL
WHERE entry.node_org <> entry.policy_org
  AND entry.entry = entry.policy_org || '_' || entry.policy || '_' || entry.policy_org;
