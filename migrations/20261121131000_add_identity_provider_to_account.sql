-- People who log in with tokens of an OpenID Connect provider: their accounts are found by who they are at the provider.
ALTER TABLE account
    ADD COLUMN identity_provider text,
    ADD COLUMN subject           text,
    ADD CONSTRAINT account_identity_provider_check CHECK ((identity_provider IS NULL) = (subject IS NULL));
COMMENT ON COLUMN account.identity_provider IS 'issuer of the tokens that this person logs in with; null for local accounts';
COMMENT ON COLUMN account.subject IS 'id of the person at the identity provider';
-- account.find_by_subject
CREATE UNIQUE INDEX account_org_identity_provider_subject_key ON account (org, identity_provider, subject)
    WHERE identity_provider IS NOT NULL;
