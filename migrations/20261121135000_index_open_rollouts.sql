-- Rollouts that still have something to do are read every second, because users act on them too.
CREATE INDEX rollout_open_index ON rollout (ha_group, policy) WHERE record ->> 'state' IN ('updating', 'held');
