//! Parts of nodes and agbots: policies, status, errors, agreements, HA groups, messages, served entries.

use super::table::Check::{Flag, Id, List, Object, OptionalText, Text, Time, Whole};
use super::table::{Feed, NO_AGBOT_ANYWHERE, NO_NODE, NO_ORG, Rule, Table, parts_of};

const NO_AGBOT: Rule = (
    "NOT EXISTS (SELECT FROM agbot AS a WHERE a.org = s.org AND a.agbot = s.agbot)",
    "its agbot is not there",
);

pub(super) const NODE_POLICY: Table = Table {
    name: "nodepolicies",
    source: concat!(
        "SELECT nodeid, ",
        parts_of!("nodeid"),
        ", label, description, properties, constraints, deployment, management, nodepolicyversion, \"lastUpdated\"
          FROM public.nodepolicies"
    ),
    target: "node_policy",
    columns: &[
        ("org", Id),
        ("node", Id),
        ("label", Text),
        ("description", Text),
        ("properties", List),
        ("constraints", List),
        ("deployment", Object),
        ("management", Object),
        ("version", Text),
        ("updated_at", Time),
    ],
    key: &["org", "node"],
    rules: &[NO_NODE],
    feed: Some(Feed::private("node", "nodepolicies", "node")),
    ..Table::USUAL
};

pub(super) const NODE_STATUS: Table = Table {
    name: "nodestatus",
    source: concat!(
        "SELECT nodeid, ",
        parts_of!("nodeid"),
        ", connectivity, services, runningservices, \"lastUpdated\" FROM public.nodestatus"
    ),
    target: "node_status",
    columns: &[
        ("org", Id),
        ("node", Id),
        ("connectivity", Object),
        ("services", List),
        ("running_services", Text),
        ("updated_at", Time),
    ],
    key: &["org", "node"],
    rules: &[NO_NODE],
    feed: Some(Feed::private("node", "nodestatus", "node")),
    ..Table::USUAL
};

pub(super) const NODE_ERROR: Table = Table {
    name: "nodeerror",
    source: concat!(
        "SELECT nodeid, ",
        parts_of!("nodeid"),
        ", errors, \"lastUpdated\" FROM public.nodeerror"
    ),
    target: "node_error",
    columns: &[("org", Id), ("node", Id), ("errors", List), ("updated_at", Time)],
    key: &["org", "node"],
    rules: &[NO_NODE],
    feed: Some(Feed::private("node", "nodeerrors", "node")),
    ..Table::USUAL
};

pub(super) const NODE_AGREEMENT: Table = Table {
    name: "nodeagreements",
    source: concat!(
        "SELECT agid, agid, ",
        parts_of!("nodeid"),
        ", services,
          '{\"orgid\":' || to_json(agrsvcorgid) || ',\"pattern\":' || to_json(agrsvcpattern) || ',\"url\":' || to_json(agrsvcurl) || '}',
          agrsvcurl, state, \"lastUpdated\" FROM public.nodeagreements"
    ),
    target: "node_agreement",
    columns: &[
        ("agreement", Id),
        ("org", Id),
        ("node", Id),
        ("services", List),
        ("agreement_service", Object),
        ("service_url", Text),
        ("state", Text),
        ("updated_at", Time),
    ],
    key: &["org", "node", "agreement"],
    rules: &[NO_NODE],
    feed: Some(Feed::private("node", "nodeagreements", "node")),
    ..Table::USUAL
};

pub(super) const AGBOT_AGREEMENT: Table = Table {
    name: "agbotagreements",
    source: concat!(
        "SELECT agrid, agrid, ",
        parts_of!("agbotid"),
        ", '{\"orgid\":' || to_json(serviceorgid) || ',\"pattern\":' || to_json(servicepattern) || ',\"url\":' || to_json(serviceurl) || '}',
          state, \"lastUpdated\" FROM public.agbotagreements"
    ),
    target: "agbot_agreement",
    columns: &[
        ("agreement", Id),
        ("org", Id),
        ("agbot", Id),
        ("service", Object),
        ("state", Text),
        ("updated_at", Time),
    ],
    key: &["org", "agbot", "agreement"],
    rules: &[NO_AGBOT],
    feed: Some(Feed::private("agbot", "agbotagreements", "agbot")),
    ..Table::USUAL
};

pub(super) const AGBOT_PATTERN: Table = Table {
    name: "agbotpatterns",
    source: concat!(
        "SELECT agbotid || ' ' || patid, ",
        parts_of!("agbotid"),
        ", patid, patternorgid, pattern, nodeorgid, lastupdated FROM public.agbotpatterns"
    ),
    target: "agbot_pattern",
    columns: &[
        ("org", Id),
        ("agbot", Id),
        ("entry", Id),
        ("pattern_org", Text),
        ("pattern", Text),
        ("node_org", Text),
        ("updated_at", Time),
    ],
    key: &["org", "agbot", "entry"],
    rules: &[NO_AGBOT],
    feed: Some(Feed::private("agbot", "agbotpatterns", "agbot")),
    ..Table::USUAL
};

pub(super) const AGBOT_POLICY: Table = Table {
    name: "agbotbusinesspols",
    source: concat!(
        "SELECT agbotid || ' ' || buspolid, ",
        parts_of!("agbotid"),
        ", buspolid, businesspolorgid, businesspol, nodeorgid, lastupdated FROM public.agbotbusinesspols"
    ),
    target: "agbot_policy",
    columns: &[
        ("org", Id),
        ("agbot", Id),
        ("entry", Id),
        ("policy_org", Text),
        ("policy", Text),
        ("node_org", Text),
        ("updated_at", Time),
    ],
    key: &["org", "agbot", "entry"],
    rules: &[NO_AGBOT],
    feed: Some(Feed::private("agbot", "agbotbusinesspols", "agbot")),
    ..Table::USUAL
};

pub(super) const HA_GROUP: Table = Table {
    name: "node_group",
    source: "SELECT orgid || '/' || name, orgid, name, description, admin, \"lastUpdated\" FROM public.node_group",
    target: "ha_group",
    columns: &[
        ("org", Id),
        ("name", Id),
        ("description", OptionalText),
        ("is_admin", Flag),
        ("updated_at", Time),
    ],
    key: &["org", "name"],
    rules: &[
        NO_ORG,
        (
            "EXISTS (SELECT FROM import_ha_group AS o WHERE o.org = s.org AND o.name = s.name AND o.ctid < s.ctid)",
            "another group of the organization has the same name",
        ),
    ],
    feed: Some(Feed::private("ha_group", "ha_group", "name")),
    ..Table::USUAL
};

pub(super) const HA_GROUP_MEMBER: Table = Table {
    name: "node_group_assignment",
    source: concat!(
        "SELECT member.node, ",
        parts_of!("member.node"),
        ", grp.orgid, grp.name FROM public.node_group_assignment AS member
          LEFT JOIN public.node_group AS grp ON grp.\"group\" = member.\"group\""
    ),
    target: "ha_group_member",
    columns: &[("org", Id), ("node", Id), ("staged_org", Text), ("ha_group", Text)],
    key: &["org", "node"],
    newer_by: None,
    rules: &[
        NO_NODE,
        ("s.staged_org <> s.org", "its group belongs to another organization, or is not there"),
        (
            "NOT EXISTS (SELECT FROM ha_group AS g WHERE g.org = s.org AND g.name = s.ha_group)",
            "its group is not there",
        ),
        (
            "EXISTS (SELECT FROM import_ha_group_member AS o
                     WHERE o.org = s.org AND o.node = s.node AND o.ha_group <> s.ha_group)",
            "a node is in one group at most, and this one is in several",
        ),
        (
            "EXISTS (SELECT FROM import_ha_group_member AS o
                     WHERE o.org = s.org AND o.node = s.node AND o.ctid < s.ctid)",
            "the same membership twice",
        ),
        (
            "EXISTS (SELECT FROM ha_group_member AS m
                     WHERE m.org = s.org AND m.node = s.node AND m.ha_group <> s.ha_group)",
            "here the node is in another group",
        ),
    ],
    feed: Some(Feed::private("node", "node", "node")),
    ..Table::USUAL
};

pub(super) const NODE_MESSAGE: Table = Table {
    name: "nodemsgs",
    source: concat!(
        "SELECT msgid, msgid, ",
        parts_of!("nodeid"),
        ", ",
        parts_of!("agbotid"),
        ", agbotpubkey, message, timesent, timeexpires FROM public.nodemsgs"
    ),
    target: "node_message",
    columns: &[
        ("message_id", Whole),
        ("org", Id),
        ("node", Id),
        ("agbot_org", Id),
        ("agbot", Id),
        ("public_key", Text),
        ("message", Text),
        ("sent_at", Time),
        ("expires_at", Time),
    ],
    key: &["message_id"],
    newer_by: None,
    rules: &[NO_NODE, NO_AGBOT_ANYWHERE, ("s.expires_at <= clock_timestamp()", "it has expired")],
    feed: Some(Feed::private("node", "nodemsgs", "node")),
    ..Table::USUAL
};

pub(super) const AGBOT_MESSAGE: Table = Table {
    name: "agbotmsgs",
    source: concat!(
        "SELECT msgid, msgid, ",
        parts_of!("agbotid"),
        ", ",
        parts_of!("nodeid"),
        ", nodepubkey, message, timesent, timeexpires FROM public.agbotmsgs"
    ),
    target: "agbot_message",
    columns: &[
        ("message_id", Whole),
        ("org", Id),
        ("agbot", Id),
        ("node_org", Id),
        ("node", Id),
        ("public_key", Text),
        ("message", Text),
        ("sent_at", Time),
        ("expires_at", Time),
    ],
    key: &["message_id"],
    newer_by: None,
    rules: &[NO_AGBOT, ("s.expires_at <= clock_timestamp()", "it has expired")],
    feed: Some(Feed::private("agbot", "agbotmsgs", "agbot")),
    ..Table::USUAL
};
