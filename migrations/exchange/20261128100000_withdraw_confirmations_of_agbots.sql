-- An entry is confirmed by administrators only, and for the organization that it names. Two kinds were confirmed otherwise: those that an
-- agbot wrote itself, and those without an organization of the nodes, which were compared with the organization of the policy.

UPDATE agbot_pattern AS entry SET confirmed_by = NULL, confirmed_at = NULL
FROM agbot
WHERE agbot.org || '/' || agbot.agbot = entry.confirmed_by
  AND NOT EXISTS (SELECT FROM account WHERE account.org || '/' || account.name = entry.confirmed_by);

UPDATE agbot_policy AS entry SET confirmed_by = NULL, confirmed_at = NULL
FROM agbot
WHERE agbot.org || '/' || agbot.agbot = entry.confirmed_by
  AND NOT EXISTS (SELECT FROM account WHERE account.org || '/' || account.name = entry.confirmed_by);

UPDATE agbot_policy AS entry SET confirmed_by = NULL, confirmed_at = NULL
WHERE entry.node_org <> entry.policy_org
  AND entry.entry = entry.policy_org || '_' || entry.policy || '_' || entry.policy_org;
