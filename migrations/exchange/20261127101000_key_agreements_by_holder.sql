-- An agreement belongs to whoever recorded it: recording its id for a node or agbot of another owner takes nothing away.

ALTER TABLE node_agreement
    DROP CONSTRAINT node_agreement_agreement_key,
    ADD CONSTRAINT node_agreement_org_node_agreement_key PRIMARY KEY (org, node, agreement);
DROP INDEX node_agreement_org_node_index;
-- agreement.release_of_node, agreement.is_deployed: the holders of an id.
CREATE INDEX node_agreement_agreement_index ON node_agreement (agreement);

ALTER TABLE agbot_agreement
    DROP CONSTRAINT agbot_agreement_agreement_key,
    ADD CONSTRAINT agbot_agreement_org_agbot_agreement_key PRIMARY KEY (org, agbot, agreement),
    ADD COLUMN node text;
DROP INDEX agbot_agreement_org_agbot_agreement_index;
-- agreement.release_of_agbot, agreement.is_active: the holders of an id.
CREATE INDEX agbot_agreement_agreement_index ON agbot_agreement (agreement);
COMMENT ON COLUMN agbot_agreement.node IS 'the node, as org/id, that the agreement is with; null when the agbot did not say';
