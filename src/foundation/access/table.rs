//! The permission table.

use crate::{AssignedRole, Caller, MULTI_TENANT_ORG, Role};

/// Number of columns.
const COLUMNS: usize = 10;

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
    /// Only a row whose id matches the patterns of the caller's role.
    OnlyMatching,
    /// Only the caller's own row, and not with an API key that has a role.
    OnlySelfInPerson,
}

/// A row: columns are root, hub admin, org admin, user, node, agbot, multi-tenant agbot, unapproved agbot, viewer, deployer.
/// `Y` yes, `-` no, `o` if owned, `v` if owned or public, `s` if it is the caller itself, `w` the same without an API key that has a role,
/// `p` if public, `d` if deployed to the caller, `m` if its id matches a pattern of the role.
///
/// The last two columns never allow more than that of the administrator of an organization, and `viewer` never more than `deployer`.
///
/// The column of unapproved agbots never allows more than that of the user, its owner, apart from the agbot's own row, the number of the last change, which
/// the owner reads with the feed, and searches and messages, which reach the nodes of the owner only.
struct Row {
    access: Access,
    /// Words of the refusal: access and type.
    words: (&'static str, &'static str),
    own: &'static [u8; COLUMNS],
    other: &'static [u8; COLUMNS],
    /// The cells for targets in the multi-tenant organization, for callers of another one.
    shared: &'static [u8; COLUMNS],
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
    OrgRead, "READ", "org", b"YYYYYYYYYY", b"YY----Y---", b"YY--Y-Y---", "Read an organization, its change feed and its status.";
    OrgChange, "WRITE", "org", b"YYY-------", b"YY--------", b"YY--------", "Replace or patch an organization.";
    OrgCreate, "CREATE", "org", b"YY--------", b"YY--------", b"YY--------", "Create an organization.";
    OrgDelete, "DELETE_ORG", "org", b"YY--------", b"YY--------", b"YY--------", "Delete an organization.";
    OrgSetSharedType, "SET_IBM_ORG_TYPE", "org", b"YY--------", b"YY--------", b"YY--------", "Give an organization the type IBM.";
    UsersList, "READ", "user", b"YYY-----YY", b"YY--------", b"YY--------", "List the users of an organization.";
    UserRead, "READ", "user", b"YYYs----YY", b"YY--------", b"YY--------", "Read one user.";
    UserCreate, "CREATE", "user", b"YYY-------", b"YY--------", b"YY--------", "Create a user.";
    UserWrite, "WRITE", "user", b"YYYs------", b"YY--------", b"YY--------", "Change or delete a user.";
    PasswordWrite, "WRITE", "user", b"YYYs----ww", b"YY--------", b"YY--------", "Change the password of a user; not with an API key that has a role.";
    ApiKeyRead, "READ", "user", b"YYYs----ss", b"YY--------", b"YY--------", "Read an API key of a user, without its value.";
    ApiKeyWrite, "WRITE", "user", b"YYYs----ss", b"YY--------", b"YY--------", "Create and delete API keys of a user; with a key that has a role only keys within it.";
    NodesRead, "READ", "node", b"Y-YY-YYYYY", b"Y-----Y---", b"Y-----Y---", "List nodes, their details and HA groups; searches by users.";
    NodeRead, "READ", "node", b"Y-YosYYoYY", b"Y-----Y---", b"Y-----Y---", "Read one node and all that belongs to it, except its messages.";
    NodeMessagesRead, "READ", "node", b"Y-YosYYo--", b"Y-----Y---", b"Y-----Y---", "Read the messages to a node.";
    NodeWrite, "WRITE", "node", b"Y-Yos-----", b"Y---------", b"Y---------", "Create, change or delete a node and all that belongs to it.";
    NodeOrchestrationWrite, "WRITE", "node", b"Y-Yo------", b"Y---------", b"Y---------", "Say whether services are placed on a node; not for the node itself.";
    NodeTaskPublish, "WRITE", "node", b"Y----YY---", b"Y-----Y---", b"Y-----Y---", "Publish the desired state of a node's tasks; only for approved agbots, each for the policies that it serves.";
    NodeTaskReport, "WRITE", "node", b"Y---s-----", b"Y---------", b"Y---------", "Report the state of a node's tasks; only for the node itself.";
    NodeReport, "WRITE", "node", b"Y---s-----", b"Y---------", b"Y---------", "Report the state and the statistics of a node; only for the node itself.";
    NodeMessage, "SEND_MSG_TO_NODE", "node", b"Y-Y--YYo--", b"Y----YY---", b"Y----YY---", "Send a message to a node.";
    NodesSearch, "READ", "node", b"Y-Y--YYYYY", b"Y-----Y---", b"Y-----Y---", "Search nodes for a pattern or policy; node health (rows are filtered).";
    NodeReportsRead, "READ", "node", b"Y-Y--YY-YY", b"Y-----Y---", b"Y-----Y---", "Read the reports of all nodes of an organization or a group; not for agbots without approval.";
    HaGroupWrite, "WRITE", "node", b"Y-YY------", b"Y---------", b"Y---------", "Create, change or delete an HA group (its own rules follow).";
    AgbotRead, "READ", "agbot", b"YYYYYYYYYY", b"YY----Y---", b"YY--Y-Y---", "Read agbots and all that belongs to them, except their messages.";
    AgbotMessagesRead, "READ", "agbot", b"YYYYYYYY--", b"YY----Y---", b"YY--Y-Y---", "Read the messages to an agbot.";
    AgbotWrite, "WRITE", "agbot", b"YYYo-sss--", b"YY--------", b"YY--------", "Create, change or delete an agbot and all that belongs to it.";
    AgbotApprove, "APPROVE", "agbot", b"YYY-------", b"YY--------", b"YY--------", "Approve agbots, and confirm entries that agbots serve to the nodes of the organization.";
    AgbotApprovalsRead, "READ", "agbot", b"YYY-----YY", b"YY--------", b"YY--------", "Read which agbots and entries wait for an approval or have one.";
    AgbotMessage, "SEND_MSG_TO_AGBOT", "agbot", b"Y-Y-Y-----", b"Y---Y-----", b"Y---Y-----", "Send a message to an agbot.";
    AgreementConfirm, "READ", "agbot", b"YYYY-YYY--", b"YY----Y---", b"YY----Y---", "Confirm an agreement of an agbot.";
    ServicesList, "READ", "service", b"Y-YYYYYYYY", b"Y-YYYYYYYY", b"Y-YYYYYYYY", "List services (rows are filtered).";
    ServiceRead, "READ", "service", b"Y-YYYYYYYY", b"Y-ppppYppp", b"Y-ppYpYppp", "Read one service, its policy and its signing keys.";
    ServiceSecretsRead, "READ", "service", b"Y-YvdYYv--", b"Y-ppppYp--", b"Y-ppdpYp--", "Read the registry credentials of a service.";
    ServiceRevisionsRead, "READ", "service", b"Y-Yv-YYvYY", b"Y-----Y---", b"Y-----Y---", "Read the revisions of a service and of its policy: not for nodes, and never in other organizations, to which earlier ones may not have been public.";
    ServiceCreate, "CREATE", "service", b"Y-YY------", b"Y-pp------", b"Y-pp------", "Publish a service.";
    ServiceWrite, "WRITE", "service", b"Y-Yo------", b"Y---------", b"Y---------", "Change or delete a service and all that belongs to it.";
    PatternsList, "READ", "pattern", b"Y-YYYYYYYY", b"Y-YYYYYYYY", b"Y-YYYYYYYY", "List patterns (rows are filtered).";
    PatternRead, "READ", "pattern", b"Y-YYYYYYYY", b"Y-ppppYppp", b"Y-ppYpYppp", "Read one pattern and its keys.";
    PatternRevisionsRead, "READ", "pattern", b"Y-YYYYYYYY", b"Y-----Y---", b"Y-----Y---", "Read the revisions of a pattern: never in other organizations, to which earlier ones may not have been public.";
    PatternCreate, "CREATE", "pattern", b"Y-YY------", b"Y-pp------", b"Y-pp------", "Publish a pattern.";
    PatternWrite, "WRITE", "pattern", b"Y-Yo------", b"Y---------", b"Y---------", "Change or delete a pattern and its keys.";
    DeploymentPolicyRead, "READ", "business policy", b"Y-YYYYYYYY", b"Y-----Y---", b"Y---Y-Y---", "Read deployment policies.";
    DeploymentPolicyCreate, "CREATE", "business policy", b"Y-YY-----m", b"Y---------", b"Y---------", "Create a deployment policy.";
    DeploymentPolicyWrite, "WRITE", "business policy", b"Y-Yo-----m", b"Y---------", b"Y---------", "Change or delete a deployment policy.";
    PlanApprovalsRead, "READ", "plan approval", b"Y-YY-YY-YY", b"Y-----Y---", b"Y-----Y---", "Read requests that a second person approves a plan; ordinary users their own, agbots to record what becomes of them.";
    PlanApprovalWrite, "WRITE", "plan approval", b"Y-YY-----Y", b"Y---------", b"Y---------", "Request, approve, reject, cancel and use an approval of a plan; the right to the write itself follows.";
    ManagementPolicyRead, "READ", "management policy", b"Y-YYYYYYYY", b"Y-----Y---", b"Y---Y-Y---", "Read management policies.";
    ManagementPolicyWrite, "WRITE", "management policy", b"Y-Y-------", b"Y---------", b"Y---------", "Create, change or delete a management policy.";
    AgentFilesRead, "READ_AGENT_CONFIG_MGMT", "org", b"YYYYYYYYYY", b"YYYYYYYYYY", b"YYYYYYYYYY", "Read the versions of agent files.";
    AgentFilesWrite, "WRITE_AGENT_CONFIG_MGMT", "org", b"YYY---Y---", b"YY--------", b"YY--------", "Write the versions of agent files.";
    AdminStatus, "STATUS", "action", b"YYYY----YY", b"YYYY----YY", b"YYYY----YY", "Read the status of the exchange.";
    AdminOrgStatus, "ORGSTATUS", "action", b"YYY-----YY", b"YYY-----YY", b"YYY-----YY", "Read the node counts of organizations.";
    MaxChangeId, "MAXCHANGEID", "action", b"Y-Y-YYYYYY", b"Y-Y-YYYYYY", b"Y-Y-YYYYYY", "Read the last change number.";
    AdminAction, "ADMIN", "action", b"Y---------", b"Y---------", b"Y---------", "Configure the exchange.";
    MyOrgs, "READ_MY_ORG", "org", b"YYYYYYYYYY", b"YYYYYYYYYY", b"YYYYYYYYYY", "Find the organizations of an account by tag.";
    AuditRead, "READ_AUDIT", "org", b"YYY-----YY", b"YY--------", b"YY--------", "Read the audit records of an organization.";
    ActionRecord, "RECORD_ACTION", "org", b"YYYYYYYYYY", b"YYYYYYYYYY", b"YYYYYYYYYY", "Have an own action recorded by the agbot that carries it out, which proves itself.";
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
                | Access::ApiKeyRead
                | Access::NodeRead
                | Access::NodeMessagesRead
                | Access::AgbotRead
                | Access::AgbotMessagesRead
                | Access::ServiceRead
                | Access::ServiceSecretsRead
                | Access::ServiceRevisionsRead
                | Access::PatternRead
                | Access::PatternRevisionsRead
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
        Role::Viewer => 8,
        Role::Deployer => 9,
    }
}

/// Returns the column that limits a caller besides its own: that of the role of its API key.
fn limiting_column(caller: &Caller) -> Option<usize> {
    let assignment = caller.assignment.as_ref().filter(|_| !caller.has_assigned_column())?;
    Some(match assignment.role {
        AssignedRole::Viewer => 8,
        AssignedRole::Deployer(_) => 9,
    })
}

/// Returns the cells that all have to allow an access.
pub(super) fn cells(access: Access, caller: &Caller, org: &str) -> impl Iterator<Item = Cell> {
    let row = row(access);
    let cells = if caller.org == org {
        row.own
    } else if org == MULTI_TENANT_ORG {
        row.shared
    } else {
        row.other
    };
    [Some(column(caller)), limiting_column(caller)].into_iter().flatten().map(|column| cell(cells[column]))
}

fn cell(letter: u8) -> Cell {
    match letter {
        b'Y' => Cell::Yes,
        b'o' => Cell::OnlyOwned,
        b'v' => Cell::OnlyVisible,
        b's' => Cell::OnlySelf,
        b'w' => Cell::OnlySelfInPerson,
        b'p' => Cell::OnlyPublic,
        b'd' => Cell::OnlyDeployed,
        b'm' => Cell::OnlyMatching,
        _ => Cell::No,
    }
}
