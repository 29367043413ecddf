-- message.usage_of_agbot_by_sender
CREATE INDEX agbot_message_sender_index ON agbot_message (org, agbot, node_org, node);
