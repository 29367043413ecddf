-- agreement.list_of_agbot: an agbot has an agreement with every node it serves, and a page of them must not sort them all.
CREATE INDEX agbot_agreement_org_agbot_agreement_index ON agbot_agreement (org, agbot, agreement);
DROP INDEX agbot_agreement_org_agbot_index;
