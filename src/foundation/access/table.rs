//! The permission table.

use crate::{Caller, MULTI_TENANT_ORG, Role};

/// A cell of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    Yes,
    No,
    /// Only the owner of the row (absent rows count as owned).
    OnlyOwned,
    /// Only the caller's own row.
    OnlySelf,
    /// Only the owner of the row, unless it is public.
    OnlyVisible,
    /// Only a public row.
    OnlyPublic,
    /// Only a row that is public, that the owner of the calling node may read, or that an approved agbot deploys to the node.
    OnlyDeployed,
}

/// A row: columns are root, hub admin, org admin, user, node, agbot, multi-tenant agbot, unapproved agbot.
/// `Y` yes, `-` no, `o` if owned, `v` if owned or public, `s` if it is the caller itself, `p` if public, `d` if deployed to the caller.
///
/// The last column never allows more than that of the user, its owner, apart from the agbot's own row, the number of the last change, which
/// the owner reads with the feed, and searches and messages, which reach the nodes of the owner only.
struct Row {
    access: Access,
    /// Words of the refusal: access and type.
    words: (&'static str, &'static str),
    own: &'static [u8; 8],
    other: &'static [u8; 8],
    /// The cells for targets in the multi-tenant organization, for callers of another one.
    shared: &'static [u8; 8],
}

macro_rules! table {
    ($($access:ident, $verb:tt, $kind:literal, $own:literal, $other:literal, $shared:literal, $doc:literal;)*) => {
        /// The access that a request needs, the first column of the permission table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Access { $(#[doc = $doc] $access,)* }

        impl Access {
            /// All values, in the order of the table.
            pub const ALL: &'static [Access] = &[$(Access::$access,)*];

            /// Returns the name of the right, as in the table.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Access::$access => stringify!($access),)*
                }
            }
        }

        const TABLE: &[Row] = &[$(Row {
            access: Access::$access, words: ($verb, $kind), own: $own, other: $other, shared: $shared,
        },)*];

        /// The rows of the permission table as types, for [`Permission`](crate::Permission).
        pub mod right {
            use super::Access;
            use crate::permission::{Right, WriteRight};

            $(
                #[doc = $doc]
                #[derive(Debug, Clone, Copy)]
                pub enum $access {}

                impl Right for $access {
                    const ACCESS: Access = Access::$access;
                }

                write_right!($access $verb);
            )*

            // A search stores the positions of the searches of its agbot.
            impl WriteRight for NodesSearch {}
        }
    };
}

/// Marks a right that allows changes, by the verb of its row.
macro_rules! write_right {
    ($access:ident "READ") => {};
    ($access:ident "READ_AGENT_CONFIG_MGMT") => {};
    ($access:ident "READ_MY_ORG") => {};
    ($access:ident "READ_AUDIT") => {};
    ($access:ident "STATUS") => {};
    ($access:ident "ORGSTATUS") => {};
    ($access:ident "MAXCHANGEID") => {};
    ($access:ident $verb:tt) => {
        impl WriteRight for $access {}
    };
}

table! {
    OrgRead, "READ", "org", b"YYYYYYYY", b"YY----Y-", b"YY--Y-Y-", "Read an organization, its change feed and its status.";
    OrgChange, "WRITE", "org", b"YYY-----", b"YY------", b"YY------", "Replace or patch an organization.";
    OrgCreate, "CREATE", "org", b"YY------", b"YY------", b"YY------", "Create an organization.";
    OrgDelete, "DELETE_ORG", "org", b"YY------", b"YY------", b"YY------", "Delete an organization.";
    OrgSetSharedType, "SET_IBM_ORG_TYPE", "org", b"YY------", b"YY------", b"YY------", "Give an organization the type IBM.";
    UsersList, "READ", "user", b"YYY-----", b"YY------", b"YY------", "List the users of an organization.";
    UserRead, "READ", "user", b"YYYs----", b"YY------", b"YY------", "Read one user.";
    UserCreate, "CREATE", "user", b"YYY-----", b"YY------", b"YY------", "Create a user.";
    UserWrite, "WRITE", "user", b"YYYs----", b"YY------", b"YY------", "Change or delete a user, its password and API keys.";
    NodesRead, "READ", "node", b"Y-YY-YYY", b"Y-----Y-", b"Y-----Y-", "List nodes, their details and HA groups; searches by users.";
    NodeRead, "READ", "node", b"Y-YosYYo", b"Y-----Y-", b"Y-----Y-", "Read one node and all that belongs to it.";
    NodeWrite, "WRITE", "node", b"Y-Yos---", b"Y-------", b"Y-------", "Create, change or delete a node and all that belongs to it.";
    NodeOrchestrationWrite, "WRITE", "node", b"Y-Yo----", b"Y-------", b"Y-------", "Say whether services are placed on a node; not for the node itself.";
    NodeTaskPublish, "WRITE", "node", b"Y----YY-", b"Y-----Y-", b"Y-----Y-", "Publish the desired state of a node's tasks; only for approved agbots, each for the policies that it serves.";
    NodeTaskReport, "WRITE", "node", b"Y---s---", b"Y-------", b"Y-------", "Report the state of a node's tasks; only for the node itself.";
    NodeReport, "WRITE", "node", b"Y---s---", b"Y-------", b"Y-------", "Report the state and the statistics of a node; only for the node itself.";
    NodeMessage, "SEND_MSG_TO_NODE", "node", b"Y-Y--YYo", b"Y----YY-", b"Y----YY-", "Send a message to a node.";
    NodesSearch, "READ", "node", b"Y-Y--YYY", b"Y-----Y-", b"Y-----Y-", "Search nodes for a pattern or policy; node health (rows are filtered).";
    NodeReportsRead, "READ", "node", b"Y-Y--YY-", b"Y-----Y-", b"Y-----Y-", "Read the reports of all nodes of an organization or a group; not for agbots without approval.";
    HaGroupWrite, "WRITE", "node", b"Y-YY----", b"Y-------", b"Y-------", "Create, change or delete an HA group (its own rules follow).";
    AgbotRead, "READ", "agbot", b"YYYYYYYY", b"YY----Y-", b"YY--Y-Y-", "Read agbots and all that belongs to them.";
    AgbotWrite, "WRITE", "agbot", b"YYYo-sss", b"YY------", b"YY------", "Create, change or delete an agbot and all that belongs to it.";
    AgbotApprove, "APPROVE", "agbot", b"YYY-----", b"YY------", b"YY------", "Approve agbots, and confirm entries that agbots serve to the nodes of the organization.";
    AgbotMessage, "SEND_MSG_TO_AGBOT", "agbot", b"Y-Y-Y---", b"Y---Y---", b"Y---Y---", "Send a message to an agbot.";
    AgreementConfirm, "READ", "agbot", b"YYYY-YYY", b"YY----Y-", b"YY----Y-", "Confirm an agreement of an agbot.";
    ServicesList, "READ", "service", b"Y-YYYYYY", b"Y-YYYYYY", b"Y-YYYYYY", "List services (rows are filtered).";
    ServiceRead, "READ", "service", b"Y-YYYYYY", b"Y-ppppYp", b"Y-ppYpYp", "Read one service, its policy and its signing keys.";
    ServiceSecretsRead, "READ", "service", b"Y-YvdYYv", b"Y-ppppYp", b"Y-ppdpYp", "Read the registry credentials of a service.";
    ServiceCreate, "CREATE", "service", b"Y-YY----", b"Y-pp----", b"Y-pp----", "Publish a service.";
    ServiceWrite, "WRITE", "service", b"Y-Yo----", b"Y-------", b"Y-------", "Change or delete a service and all that belongs to it.";
    PatternsList, "READ", "pattern", b"Y-YYYYYY", b"Y-YYYYYY", b"Y-YYYYYY", "List patterns (rows are filtered).";
    PatternRead, "READ", "pattern", b"Y-YYYYYY", b"Y-ppppYp", b"Y-ppYpYp", "Read one pattern and its keys.";
    PatternCreate, "CREATE", "pattern", b"Y-YY----", b"Y-pp----", b"Y-pp----", "Publish a pattern.";
    PatternWrite, "WRITE", "pattern", b"Y-Yo----", b"Y-------", b"Y-------", "Change or delete a pattern and its keys.";
    DeploymentPolicyRead, "READ", "business policy", b"Y-YYYYYY", b"Y-----Y-", b"Y---Y-Y-", "Read deployment policies.";
    DeploymentPolicyCreate, "CREATE", "business policy", b"Y-YY----", b"Y-------", b"Y-------", "Create a deployment policy.";
    DeploymentPolicyWrite, "WRITE", "business policy", b"Y-Yo----", b"Y-------", b"Y-------", "Change or delete a deployment policy.";
    ManagementPolicyRead, "READ", "management policy", b"Y-YYYYYY", b"Y-----Y-", b"Y---Y-Y-", "Read management policies.";
    ManagementPolicyWrite, "WRITE", "management policy", b"Y-Y-----", b"Y-------", b"Y-------", "Create, change or delete a management policy.";
    AgentFilesRead, "READ_AGENT_CONFIG_MGMT", "org", b"YYYYYYYY", b"YYYYYYYY", b"YYYYYYYY", "Read the versions of agent files.";
    AgentFilesWrite, "WRITE_AGENT_CONFIG_MGMT", "org", b"YYY---Y-", b"YY------", b"YY------", "Write the versions of agent files.";
    AdminStatus, "STATUS", "action", b"YYYY----", b"YYYY----", b"YYYY----", "Read the status of the exchange.";
    AdminOrgStatus, "ORGSTATUS", "action", b"YYY-----", b"YYY-----", b"YYY-----", "Read the node counts of organizations.";
    MaxChangeId, "MAXCHANGEID", "action", b"Y-Y-YYYY", b"Y-Y-YYYY", b"Y-Y-YYYY", "Read the last change number.";
    AdminAction, "ADMIN", "action", b"Y-------", b"Y-------", b"Y-------", "Configure the exchange.";
    MyOrgs, "READ_MY_ORG", "org", b"YYYYYYYY", b"YYYYYYYY", b"YYYYYYYY", "Find the organizations of an account by tag.";
    AuditRead, "READ_AUDIT", "org", b"YYY-----", b"YY------", b"YY------", "Read the audit records of an organization.";
    ActionRecord, "RECORD_ACTION", "org", b"YYYYYYYY", b"YYYYYYYY", b"YYYYYYYY", "Have an own action recorded by the agbot that carries it out, which proves itself.";
}

impl Access {
    /// Returns the words of the refusal: access and kind of target.
    #[must_use]
    pub fn words(self) -> (&'static str, &'static str) {
        row(self).words
    }

    /// Returns whether the access reads one resource by id, whose existence must not be revealed to other organizations.
    pub(super) fn is_read_of_one(self) -> bool {
        matches!(
            self,
            Access::UserRead
                | Access::NodeRead
                | Access::AgbotRead
                | Access::ServiceRead
                | Access::ServiceSecretsRead
                | Access::PatternRead
                | Access::DeploymentPolicyRead
                | Access::ManagementPolicyRead
        )
    }
}

fn row(access: Access) -> &'static Row {
    let row = &TABLE[access as usize];
    debug_assert_eq!(row.access, access);
    row
}

fn column(caller: &Caller) -> usize {
    match caller.role {
        Role::Root => 0,
        Role::HubAdmin => 1,
        Role::OrgAdmin => 2,
        Role::User => 3,
        Role::Node => 4,
        Role::Agbot if caller.is_multi_tenant() => 6,
        Role::Agbot => 5,
        Role::UnapprovedAgbot => 7,
    }
}

pub(super) fn cell(access: Access, caller: &Caller, org: &str) -> Cell {
    let row = row(access);
    let cells = if caller.org == org {
        row.own
    } else if org == MULTI_TENANT_ORG {
        row.shared
    } else {
        row.other
    };
    match cells[column(caller)] {
        b'Y' => Cell::Yes,
        b'o' => Cell::OnlyOwned,
        b'v' => Cell::OnlyVisible,
        b's' => Cell::OnlySelf,
        b'p' => Cell::OnlyPublic,
        b'd' => Cell::OnlyDeployed,
        _ => Cell::No,
    }
}
