ALTER TABLE api_key ADD COLUMN expires_at timestamptz;
COMMENT ON COLUMN api_key.expires_at IS 'from then on the key is no login; null for keys without an end';
-- api_key.delete_expired
CREATE INDEX api_key_expires_index ON api_key (expires_at) WHERE expires_at IS NOT NULL;
