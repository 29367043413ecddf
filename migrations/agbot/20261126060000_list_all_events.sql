ALTER TABLE agbot_event ADD COLUMN subject_org text;
COMMENT ON COLUMN agbot_event.subject_org IS 'organization of an event that names neither policy, node nor group';
DROP INDEX agbot_event_policy_or_node_org_index;
-- event.list_of_org
CREATE INDEX agbot_event_list_of_org_index
    ON agbot_event (split_part(COALESCE(policy, node, ha_group, subject_org), '/', 1), event_id);
-- event.insert_states looks for the newest state of its kind.
CREATE INDEX agbot_event_state_index ON agbot_event (kind, COALESCE(node, subject_org), event_id)
    WHERE kind IN ('node.availability', 'settings.changed');
