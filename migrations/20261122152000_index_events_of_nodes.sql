-- event.insert_node_events and event.list_node_conditions look for the newest change of a node.
CREATE INDEX agbot_event_node_condition_index ON agbot_event (node, event_id) WHERE kind LIKE 'node.%';
