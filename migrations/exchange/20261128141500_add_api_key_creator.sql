ALTER TABLE api_key ADD COLUMN creator_org text, ADD COLUMN creator text;
COMMENT ON COLUMN api_key.creator IS 'account of creator_org that created the key, or the key by means of which it was created; null for keys from before the column and imported ones';
-- api_key.delete_made_for_others
CREATE INDEX api_key_creator_index ON api_key (creator_org, creator);
