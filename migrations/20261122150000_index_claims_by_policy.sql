-- claim.list_groups_of_policy counts the groups in work of a policy whose update parallelism is limited.
CREATE INDEX claim_policy_index ON claim (scope) WHERE scope <> 'agent';
