-- What a deployment policy says over the hub's settings for updates; null when it says nothing. Read and written with its row, by
-- deployment_policy.select, insert and update.
ALTER TABLE deployment_policy ADD COLUMN orchestration json;
COMMENT ON COLUMN deployment_policy.orchestration IS 'object orchestration of the policy; null when it was not given';
