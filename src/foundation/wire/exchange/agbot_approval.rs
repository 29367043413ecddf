//! Approvals of agbots, and the fencing numbers of their leases: additions to the exchange API.
//!
//! An agbot has the rights of agbots after an administrator approved it. What it serves to the nodes of an organization makes the hub's own
//! agbot yield after an administrator of that organization confirmed it.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Agbots, and entries, in one response.
pub const MOST_APPROVALS: u16 = 10_000;

/// The page of a list of approvals.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default)]
pub struct AgbotApprovalsQuery {
    /// Only agbots after this id.
    #[param(rename = "afterAgbot")]
    pub after_agbot: Option<String>,
    /// Only entries after this one, as `organization/agbot/kind/entry`.
    #[param(rename = "afterEntry")]
    pub after_entry: Option<String>,
}

response! {
    /// The agbots of an organization with their approvals, and the entries that any agbot serves to its
    /// nodes.
    pub struct AgbotApprovalsResponse {
        /// The agbots of the organization, by id.
        agbots: Vec<AgbotApproval>,
        /// Entries that agbots of any organization serve to its nodes, by agbot.
        entries: Vec<ServedConfirmation>,
    }
}

response! {
    /// An agbot with its approval.
    pub struct AgbotApproval {
        /// The agbot, as `org/agbot`.
        agbot: String,
        /// Its owner, as `org/user`.
        owner: String,
        /// The administrator who approved it, as `org/user`; none when it has the rights of its owner only.
        approved_by: Option<String>,
        /// When.
        approved_at: Option<String>,
    }
}

response! {
    /// An entry that an agbot serves to the nodes of the organization.
    pub struct ServedConfirmation {
        /// The agbot, as `org/agbot`.
        agbot: String,
        /// `pattern` or `deploymentPolicy`.
        kind: String,
        /// Id of the entry.
        entry: String,
        /// The pattern or deployment policy, as `org/name`; `org/*` for every one.
        subject: String,
        /// The administrator who wrote or confirmed it, as `org/user`; none when the hub's agbot does not yield to it.
        confirmed_by: Option<String>,
        /// When it was added.
        last_updated: String,
    }
}

response! {
    /// The agbots that may make agreements with a node.
    pub struct NodeAgbotsResponse {
        /// The agbots, as `org/agbot`.
        agbots: Vec<String>,
    }
}

/// Code of the refusal of a task whose fencing number was not given to the agbot.
pub const UNKNOWN_FENCING: &str = "fencing-unknown";

/// Requests a fencing number for leases of the agbot.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PostFencing {
    /// The number must be above this one.
    pub above: i64,
}

response! {
    /// A fencing number.
    pub struct FencingResponse {
        /// The number, greater than all earlier ones of any agbot.
        fencing: i64,
    }
}
