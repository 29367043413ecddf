-- Who made a group: the only plain user that may change it while it has no members.
ALTER TABLE ha_group
    ADD COLUMN owner_org text,
    ADD COLUMN owner     text,
    ADD CONSTRAINT ha_group_owner_fk FOREIGN KEY (owner_org, owner) REFERENCES account (org, name) ON DELETE SET NULL;
COMMENT ON COLUMN ha_group.owner IS 'null when the account is gone: then only administrators change the group while it is empty';
-- Needed when an account is deleted.
CREATE INDEX ha_group_owner_index ON ha_group (owner_org, owner);
