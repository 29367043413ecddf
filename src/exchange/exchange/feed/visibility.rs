//! Changes that a caller sees.
//!
//! Source: exchange-api 5.3.

use evenkeel_access::{Caller, Role};
use evenkeel_exchange_store::change::SequencedChange;

use super::INTERNAL;

/// Resource of a change to the desired state of a node's tasks.
pub(crate) const TASKS: &str = "nodetasks";
/// A node has reported the state of a task.
pub(crate) const TASK_STATUS: &str = "taskstatus";
/// The settings of an organization for its workloads have changed.
pub(crate) const ORG_SETTINGS: &str = "orgorchestration";
/// A node has reported another monitor state or compatibility version.
pub(crate) const NODE_REPORT: &str = "nodeorchestration";
/// A deployment policy was deleted by a user who does not wait for its children.
pub(crate) const POLICY_REMOVAL: &str = "policyorchestration";

/// An agbot was approved or an entry of it confirmed, or that was withdrawn.
pub(crate) const AGBOT_APPROVAL: &str = "agbotapproval";
/// A request that a second person approves a plan was added, decided about or used.
pub(crate) const PLAN_APPROVAL: &str = "planapproval";

/// A caller looking at the feed of an organization.
pub struct View<'a> {
    /// Caller that reads the feed.
    pub caller: &'a Caller,
    /// Organization in the path.
    pub org: &'a str,
    /// Organizations a multi-tenant agbot asks for.
    pub orgs: &'a [String],
    /// True if the caller knows the records that the reference does not have.
    pub knows_extensions: bool,
}

impl View<'_> {
    /// Returns true if the caller may see the change.
    #[must_use]
    pub fn shows(&self, change: &SequencedChange) -> bool {
        if change.category == INTERNAL || (!self.knows_extensions && is_extension(change)) {
            return false;
        }
        match self.caller.role {
            Role::Root => true,
            Role::HubAdmin | Role::OrgAdmin | Role::User | Role::Viewer | Role::Deployer => {
                self.is_of_org(change)
            }
            Role::Node => self.is_of_org(change) && self.concerns_node(change),
            Role::Agbot if self.caller.is_multi_tenant() => self.is_served(change) && concerns_agbot(change),
            Role::Agbot | Role::UnapprovedAgbot => self.is_of_org(change) && concerns_agbot(change),
        }
    }

    fn is_of_org(&self, change: &SequencedChange) -> bool {
        change.org == self.org || change.is_public
    }

    fn concerns_node(&self, change: &SequencedChange) -> bool {
        match change.category.as_str() {
            "mgmtpolicy" | "service" | "org" => change.resource != ORG_SETTINGS,
            "node" => {
                let is_itself = change.org == self.caller.org && change.id == self.caller.id;
                is_itself && !matches!(change.resource.as_str(), TASK_STATUS | NODE_REPORT)
            }
            _ => false,
        }
    }

    fn is_served(&self, change: &SequencedChange) -> bool {
        let is_new_org = change.resource == "org" && change.operation == "created";
        is_new_org
            || change.org == self.org
            || self.orgs.iter().any(|org| org == "*" || org.is_empty() || *org == change.org)
    }
}

/// Source: orchestration 1.1-3.
fn is_extension(change: &SequencedChange) -> bool {
    matches!(
        change.resource.as_str(),
        TASKS | TASK_STATUS | NODE_REPORT | ORG_SETTINGS | POLICY_REMOVAL | AGBOT_APPROVAL | PLAN_APPROVAL
    )
}

fn concerns_agbot(change: &SequencedChange) -> bool {
    match change.resource.as_str() {
        "nodemsgs" | "nodestatus" | TASKS => false,
        "nodeagreements" | "agbotagreements" => change.operation != "created/modified",
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a node sees a change to a node in the feed of an organization.
    fn node_sees(caller: &str, org: &str, changed: (&str, &str)) -> bool {
        let (caller_org, id) = caller.split_once('/').expect("an organization");
        let caller = Caller::new(Role::Node, caller_org, id);
        let change = SequencedChange {
            change_id: 1,
            org: changed.0.to_owned(),
            id: changed.1.to_owned(),
            category: "node".to_owned(),
            resource: "nodemsgs".to_owned(),
            operation: "created".to_owned(),
            is_public: false,
            changed_at: jiff::Timestamp::UNIX_EPOCH,
        };
        View { caller: &caller, org, orgs: &[], knows_extensions: true }.shows(&change)
    }

    #[test]
    fn node_sees_itself_and_no_node_of_the_same_name_elsewhere() {
        assert!(node_sees("o/n", "o", ("o", "n")));
        assert!(!node_sees("o/n", "o", ("o", "m")));
        assert!(!node_sees("o/n", "IBM", ("IBM", "n")));
    }
}
