-- Lists of groups are sorted by the bytes of the name and read page by page.
CREATE INDEX ha_group_org_name_order_index ON ha_group (org, name COLLATE "C");
