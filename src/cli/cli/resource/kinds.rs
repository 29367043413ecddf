//! Kinds of resources, with the columns of their tables.

use evenkeel_client::Resource;

use super::Kind;

/// Organizations.
pub const ORGS: Kind = Kind {
    noun: "organization",
    resource: Resource::Organization,
    list_with: "hzn exchange org list",
    columns: &[
        ("type", "orgType"),
        ("label", "label"),
        ("description", "description"),
        ("changed", "lastUpdated"),
    ],
};

/// Users.
pub const USERS: Kind = Kind {
    noun: "user",
    resource: Resource::User,
    list_with: "hzn exchange user list -a",
    columns: &[
        ("admin", "admin"),
        ("hub admin", "hubAdmin"),
        ("role", "role"),
        ("email", "email"),
        ("changed", "lastUpdated"),
    ],
};

/// Nodes.
pub const NODES: Kind = Kind {
    noun: "node",
    resource: Resource::Node,
    list_with: "hzn exchange node list",
    columns: &[
        ("state", "state"),
        ("last heartbeat", "heartbeatAge"),
        ("type", "nodeType"),
        ("arch", "arch"),
        ("HA group", "ha_group"),
        ("pattern", "pattern"),
        ("owner", "owner"),
    ],
};

/// Agbots.
pub const AGBOTS: Kind = Kind {
    noun: "agbot",
    resource: Resource::Agbot,
    list_with: "hzn exchange agbot list",
    columns: &[("name", "name"), ("owner", "owner"), ("last heartbeat", "lastHeartbeat")],
};

/// Services.
pub const SERVICES: Kind = Kind {
    noun: "service",
    resource: Resource::Service,
    list_with: "hzn exchange service list",
    columns: &[
        ("name", "url"),
        ("version", "version"),
        ("arch", "arch"),
        ("sharable", "sharable"),
        ("public", "public"),
        ("changed", "lastUpdated"),
    ],
};

/// Patterns.
pub const PATTERNS: Kind = Kind {
    noun: "pattern",
    resource: Resource::Pattern,
    list_with: "hzn exchange pattern list",
    columns: &[("label", "label"), ("public", "public"), ("owner", "owner"), ("changed", "lastUpdated")],
};

/// Deployment policies.
pub const POLICIES: Kind = Kind {
    noun: "deployment policy",
    resource: Resource::DeploymentPolicy,
    list_with: "hzn exchange deployment listpolicy",
    columns: &[
        ("service", "/service/name"),
        ("organization", "/service/org"),
        ("first version", "/service/serviceVersions/0/version"),
        ("arch", "/service/arch"),
        ("constraints", "constraints"),
        ("changed", "lastUpdated"),
    ],
};

/// Management policies.
pub const NMPS: Kind = Kind {
    noun: "management policy",
    resource: Resource::ManagementPolicy,
    list_with: "hzn exchange nmp list",
    columns: &[
        ("enabled", "enabled"),
        ("manifest", "/agentUpgradePolicy/manifest"),
        ("start", "start"),
        ("constraints", "constraints"),
        ("patterns", "patterns"),
        ("changed", "lastUpdated"),
    ],
};

/// HA groups.
pub const GROUPS: Kind = Kind {
    noun: "HA group",
    resource: Resource::HaGroup,
    list_with: "hzn exchange hagroup list",
    columns: &[("members", "members"), ("description", "description"), ("changed", "lastUpdated")],
};
