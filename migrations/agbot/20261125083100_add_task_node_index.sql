-- task.list_all_on_nodes
CREATE INDEX task_node_index ON task ((record ->> 'node'));
