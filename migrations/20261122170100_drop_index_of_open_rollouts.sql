-- Open rollouts are no longer listed every second: agbots tail agbot_change.
DROP INDEX rollout_open_index;
