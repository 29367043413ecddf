ALTER TABLE api_key ADD COLUMN of_session boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN api_key.of_session IS 'true for keys that were created by means of a session of the console, which is a key with an end, or of such a key; they end with the password of their creator';
