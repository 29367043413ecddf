-- Rows of every kind, for the recorded hashes of their state. Changing a row changes its hash.
INSERT INTO organization (org, org_type, label, description, tags, limits, heartbeat_intervals, updated_at) VALUES
    ('o', 'IBM', 'An "organization"', 'ünï', '{"b": 1, "a": [2]}', '{"maxNodes": 3}', NULL, '2026-02-03 04:05:06.789Z');
INSERT INTO account (org, name, id, password_hash, email, is_admin, updated_at, updated_by) VALUES
    ('o', 'u', '00000000-0000-0000-0000-000000000001', 'secret', 'u@example.com', true, '2026-02-03 04:05:06Z', 'root/root');
INSERT INTO api_key (id, org, account, label, description, key_hash, updated_at) VALUES
    ('00000000-0000-0000-0000-000000000003', 'o', 'u', 'second', NULL, 'secret b', '2026-02-03 04:05:06Z'),
    ('00000000-0000-0000-0000-000000000002', 'o', 'u', NULL, 'first', 'secret a', '2026-02-03 04:05:06.5Z');
INSERT INTO node (org, node, name, owner_org, owner, token_hash, node_type, pattern, registered_services, user_input, msg_end_point,
                  software_versions, public_key, arch, heartbeat_intervals, cluster_namespace, is_namespace_scoped, updated_at) VALUES
    ('o', 'n', 'node', 'o', 'u', 'secret', 'device', 'o/p', '[{"url": "x",  "numAgreements":1}]', '[]', 'edge', '{"horizon":"1"}', 'key',
     'amd64', '{}', '', false, '2026-02-03 04:05:06Z'),
    ('o', 'm', 'other', 'o', 'u', 'secret', 'cluster', '', '[]', '[]', '', '{}', '', '', '{}', 'ns', true, '2026-02-03 04:05:06Z');
INSERT INTO node_policy (org, node, label, description, properties, constraints, deployment, management, version, updated_at) VALUES
    ('o', 'n', 'l', 'd', '[{"name":"a","value":1}]', '["a == 1"]', '{}', '{}', '2', '2026-02-03 04:05:06Z');
INSERT INTO node_status (org, node, connectivity, services, running_services, updated_at, failures) VALUES
    ('o', 'n', '{"a":true}', '[]', '|o/s|', '2026-02-03 04:05:06Z', '[1]');
INSERT INTO node_error (org, node, errors, updated_at) VALUES ('o', 'n', '[{"record_id":"1"}]', '2026-02-03 04:05:06Z');
INSERT INTO node_agreement (agreement, org, node, services, agreement_service, service_url, state, updated_at) VALUES
    ('b', 'o', 'n', '[]', '{"pattern":""}', 'url', 'made', '2026-02-03 04:05:06Z'),
    ('a', 'o', 'n', '[{"url":"x"}]', '{}', '', 'finalized', '2026-02-03 04:05:06Z');
INSERT INTO ha_group (org, name, description, is_admin, updated_at, owner_org, owner) VALUES
    ('o', 'g', 'two nodes', true, '2026-02-03 04:05:06Z', 'o', 'u'),
    ('o', 'h', NULL, false, '2026-02-03 04:05:06Z', NULL, NULL);
INSERT INTO ha_group_member (org, node, ha_group) VALUES ('o', 'n', 'g'), ('o', 'm', 'g');
INSERT INTO agbot (org, agbot, name, owner_org, owner, token_hash, msg_end_point, public_key, seen_at, updated_at) VALUES
    ('o', 'b', 'agbot', 'o', 'u', 'secret', 'end', 'key', '2026-02-03 04:05:06Z', '2026-02-03 04:05:06Z');
UPDATE agbot SET approved_by = 'o/u', approved_at = '2026-02-03 04:05:06Z' WHERE org = 'o' AND agbot = 'b';
INSERT INTO agbot_agreement (agreement, org, agbot, service, state, updated_at) VALUES
    ('b', 'o', 'b', '{"orgid":"o"}', 'made', '2026-02-03 04:05:06Z'),
    ('a', 'o', 'b', '{}', '', '2026-02-03 04:05:06Z');
INSERT INTO agbot_pattern (org, agbot, entry, pattern_org, pattern, node_org, updated_at) VALUES
    ('o', 'b', 'o_q_o', 'o', 'q', 'o', '2026-02-03 04:05:06Z'),
    ('o', 'b', 'o_p_o', 'o', 'p', 'o', '2026-02-03 04:05:06Z');
INSERT INTO agbot_policy (org, agbot, entry, policy_org, policy, node_org, updated_at) VALUES
    ('o', 'b', 'o_q_o', 'o', 'q', 'o', '2026-02-03 04:05:06Z'),
    ('o', 'b', 'o_*_o', 'o', '*', 'o', '2026-02-03 04:05:06Z');
INSERT INTO service (org, service, owner_org, owner, label, description, is_public, documentation, url, version, arch, sharable,
                     match_hardware, required_services, user_input, deployment, deployment_signature, cluster_deployment,
                     cluster_deployment_signature, image_store, updated_at) VALUES
    ('o', 's', 'o', 'u', 'l', 'd', true, 'doc', 'url', '1.0.0', 'amd64', 'singleton', '{}', '[]', '[]', '{"services":{}}', 'sig', 'cd', 'cs',
     '{}', '2026-02-03 04:05:06Z');
INSERT INTO service_policy (org, service, label, description, properties, constraints, updated_at) VALUES
    ('o', 's', 'l', 'd', '[]', '["true"]', '2026-02-03 04:05:06Z');
INSERT INTO service_key (org, service, key_id, content, updated_at) VALUES
    ('o', 's', 'k2', 'two', '2026-02-03 04:05:06Z'), ('o', 's', 'k1', 'one', '2026-02-03 04:05:06Z');
INSERT INTO service_dockauth (dockauth_id, org, service, registry, username, token, updated_at) VALUES
    (10, 'o', 's', 'r2', 'u', 'secret', '2026-02-03 04:05:06Z'), (9, 'o', 's', 'r1', 'u', 'secret', '2026-02-03 04:05:06Z');
INSERT INTO pattern (org, pattern, owner_org, owner, label, description, is_public, services, user_input, secret_binding,
                     agreement_protocols, cluster_namespace, updated_at) VALUES
    ('o', 'p', 'o', 'u', 'l', 'd', false, '[]', '[]', '[]', '[{"name":"Basic"}]', 'ns', '2026-02-03 04:05:06Z');
INSERT INTO pattern_key (org, pattern, key_id, content, updated_at) VALUES
    ('o', 'p', 'k2', 'two', '2026-02-03 04:05:06Z'), ('o', 'p', 'k1', 'one', '2026-02-03 04:05:06Z');
INSERT INTO deployment_policy (org, policy, owner_org, owner, label, description, service, user_input, secret_binding, properties,
                               constraints, created_at, updated_at, orchestration) VALUES
    ('o', 'p', 'o', 'u', 'l', 'd', '{"name":"s"}', '[]', '[]', '[]', '[]', '2026-01-01 00:00:00Z', '2026-02-03 04:05:06Z',
     '{"instances":2}');
INSERT INTO management_policy (org, policy, owner_org, owner, label, description, properties, constraints, patterns, is_enabled, start,
                               start_window, agent_upgrade_policy, created_at, updated_at) VALUES
    ('o', 'p', 'o', 'u', 'l', 'd', '[]', '[]', '[]', true, 'now', 30, '{}', '2026-01-01 00:00:00Z', '2026-02-03 04:05:06Z');
INSERT INTO node_management_status (org, node, policy, status, updated_at) VALUES
    ('o', 'n', 'p', '{"agentUpgradePolicyStatus":{}}', '2026-02-03 04:05:06Z');
INSERT INTO node_task (org, node, task, policy, workload_unit, slot, spec_version, desired, agreement, fencing, state, seq,
                       reported_at, message, error, exit_code, updated_at) VALUES
    ('o', 'n', 't', 'o/p', 'all', 1, 2, 'running', 'a', 3, 'failed', 4, '2026-02-03 04:05:06Z', 'm', 'e', 5, '2026-02-03 04:05:06Z');
INSERT INTO agent_file_version (org, software_versions, config_versions, cert_versions, updated_at) VALUES
    ('o', '{"2.30.0","2.31.0"}', '{}', '{"1"}', '2026-02-03 04:05:06Z');
