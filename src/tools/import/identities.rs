//! Organizations, accounts, API keys, nodes and agbots of a reference exchange.

use super::table::Check::{
    Flag, Hash, HashOrEmpty, Id, List, Object, OptionalHash, OptionalObject, OptionalText, Present, Text,
    Time, Uuid,
};
use super::table::{Feed, NO_NODE, NO_ORG, NO_OWNER, NO_OWNER_MESSAGE, Table, instant, parts_of};

pub(super) const ORGANIZATION: Table = Table {
    name: "orgs",
    source: "SELECT orgid, orgid, orgtype, label, description, tags, limits, heartbeatintervals, lastupdated FROM public.orgs",
    target: "organization",
    columns: &[
        ("org", Id),
        ("org_type", Text),
        ("label", Text),
        ("description", Text),
        ("tags", OptionalObject),
        ("limits", OptionalObject),
        ("heartbeat_intervals", OptionalObject),
        ("updated_at", Time),
    ],
    key: &["org"],
    rules: &[("strpos(s.org, '/') > 0", "the id of an organization has no slash")],
    feed: Some(Feed::private("org", "org", "org")),
    ..Table::USUAL
};

/// SQL condition: the user of the source is a single person of an identity provider that tokens can name as
/// their issuer.
macro_rules! linked {
    () => {
        "account.identity_provider LIKE 'http%' AND account.external_id <> ''
         AND count(*) OVER (PARTITION BY account.organization, account.identity_provider, account.external_id) = 1"
    };
}

pub(super) const ACCOUNT: Table = Table {
    name: "users",
    source: concat!(
        "SELECT account.organization || '/' || account.username, account.organization, account.username, account.\"user\",
                CASE WHEN account.organization = 'root' AND account.username = 'root' THEN NULL ELSE account.password END,
                account.email, account.is_org_admin, account.is_hub_admin,
                CASE WHEN ",
        linked!(),
        " THEN account.identity_provider END, CASE WHEN ",
        linked!(),
        " THEN account.external_id END, ",
        instant!("account.modified_at"),
        ", author.organization || '/' || author.username
         FROM public.users AS account
         LEFT JOIN public.users AS author ON author.\"user\" = account.modified_by"
    ),
    target: "account",
    columns: &[
        ("org", Id),
        ("name", Id),
        ("id", Uuid),
        ("password_hash", OptionalHash),
        ("email", Text),
        ("is_admin", Flag),
        ("is_hub_admin", Flag),
        ("identity_provider", OptionalText),
        ("subject", OptionalText),
        ("updated_at", Time),
        ("updated_by", Text),
    ],
    key: &["org", "name"],
    fixed: &["id"],
    rules: &[
        NO_ORG,
        ("strpos(s.name, '/') > 0", "the name of a user has no slash"),
        (
            "s.is_admin AND s.is_hub_admin AND NOT (s.org = 'root' AND s.name = 'root')",
            "only root/root is administrator of an organization and of the hub",
        ),
        ("s.is_hub_admin AND s.org <> 'root'", "administrators of the hub belong to the organization root"),
        (
            "EXISTS (SELECT FROM account AS a WHERE a.org = s.org AND a.identity_provider = s.identity_provider
                                                AND a.subject = s.subject AND a.name <> s.name)",
            "another user of this hub is the same person at the same identity provider",
        ),
        (
            "EXISTS (SELECT FROM node AS n WHERE n.org = s.org AND n.node = s.name)
             OR EXISTS (SELECT FROM agbot AS a WHERE a.org = s.org AND a.agbot = s.name)",
            "a node or agbot of this hub has the same name, and logins must be distinct",
        ),
    ],
    ..Table::USUAL
};

pub(super) const API_KEY: Table = Table {
    name: "apikeys",
    source: concat!(
        "SELECT key.id, key.id, key.orgid, account.username, key.label, key.description, key.hashedkey, ",
        instant!("key.modified_at"),
        " FROM public.apikeys AS key
          LEFT JOIN public.users AS account ON account.\"user\" = key.\"user\" AND account.organization = key.orgid"
    ),
    target: "api_key",
    columns: &[
        ("id", Uuid),
        ("org", Id),
        ("account", Present(NO_OWNER_MESSAGE)),
        ("label", OptionalText),
        ("description", OptionalText),
        ("key_hash", Hash),
        ("updated_at", Time),
    ],
    key: &["id"],
    rules: &[
        ("NOT EXISTS (SELECT FROM account AS a WHERE a.org = s.org AND a.name = s.account)", NO_OWNER_MESSAGE),
        (
            "EXISTS (SELECT FROM api_key AS k WHERE k.key_hash = s.key_hash AND k.id <> s.id)",
            "another API key has the same hash",
        ),
    ],
    ..Table::USUAL
};

pub(super) const NODE: Table = Table {
    name: "nodes",
    source: concat!(
        "SELECT node.id, ",
        parts_of!("node.id"),
        ", node.name, owner.organization, owner.username, node.token, node.nodetype, node.pattern, node.regservices,
          node.userinput, node.msgendpoint, node.swversions, node.publickey, node.arch, node.heartbeatintervals,
          node.cluster_namespace, node.is_namespace_scoped, node.lastupdated
          FROM public.nodes AS node
          LEFT JOIN public.users AS owner ON owner.\"user\" = node.owner"
    ),
    target: "node",
    columns: &[
        ("org", Id),
        ("node", Id),
        ("name", Text),
        ("owner_org", Present(NO_OWNER_MESSAGE)),
        ("owner", Present(NO_OWNER_MESSAGE)),
        ("token_hash", HashOrEmpty),
        ("node_type", Text),
        ("pattern", Text),
        ("registered_services", List),
        ("user_input", List),
        ("msg_end_point", Text),
        ("software_versions", Object),
        ("public_key", Text),
        ("arch", Text),
        ("heartbeat_intervals", Object),
        ("cluster_namespace", Text),
        ("is_namespace_scoped", Flag),
        ("updated_at", Time),
    ],
    key: &["org", "node"],
    rules: &[
        NO_ORG,
        NO_OWNER,
        (
            "EXISTS (SELECT FROM account AS a WHERE a.org = s.org AND a.name = s.node)
             OR EXISTS (SELECT FROM agbot AS a WHERE a.org = s.org AND a.agbot = s.node)",
            "a user or agbot has the same name, and logins must be distinct",
        ),
    ],
    feed: Some(Feed::private("node", "node", "node")),
    ..Table::USUAL
};

pub(super) const NODE_HEARTBEAT: Table = Table {
    name: "nodes (last heartbeat)",
    source: concat!(
        "SELECT node.id, ",
        parts_of!("node.id"),
        ", node.lastheartbeat FROM public.nodes AS node WHERE node.lastheartbeat <> ''"
    ),
    target: "node_heartbeat",
    columns: &[("org", Id), ("node", Id), ("seen_at", Time)],
    key: &["org", "node"],
    newer_by: Some("seen_at"),
    rules: &[NO_NODE],
    ..Table::USUAL
};

pub(super) const AGBOT: Table = Table {
    name: "agbots",
    source: concat!(
        "SELECT agbot.id, ",
        parts_of!("agbot.id"),
        ", agbot.name, owner.organization, owner.username, agbot.token, agbot.msgendpoint, agbot.publickey,
          agbot.lastheartbeat, agbot.lastheartbeat
          FROM public.agbots AS agbot
          LEFT JOIN public.users AS owner ON owner.\"user\" = agbot.owner"
    ),
    target: "agbot",
    columns: &[
        ("org", Id),
        ("agbot", Id),
        ("name", Text),
        ("owner_org", Present(NO_OWNER_MESSAGE)),
        ("owner", Present(NO_OWNER_MESSAGE)),
        ("token_hash", HashOrEmpty),
        ("msg_end_point", Text),
        ("public_key", Text),
        ("seen_at", Time),
        ("updated_at", Time),
    ],
    key: &["org", "agbot"],
    rules: &[
        NO_ORG,
        NO_OWNER,
        (
            "EXISTS (SELECT FROM account AS a WHERE a.org = s.org AND a.name = s.agbot)
             OR EXISTS (SELECT FROM node AS n WHERE n.org = s.org AND n.node = s.agbot)",
            "a user or node has the same name, and logins must be distinct",
        ),
    ],
    feed: Some(Feed::private("agbot", "agbot", "agbot")),
    ..Table::USUAL
};
