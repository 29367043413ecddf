-- event.list_of_policies: events about the policies of an organization, and about the conditions of its nodes, which name no policy.
CREATE INDEX agbot_event_policy_or_node_org_index ON agbot_event (split_part(COALESCE(policy, node), '/', 1), event_id)
    WHERE policy IS NOT NULL OR kind LIKE 'node.%';
