//! Which changes a caller sees.
//!
//! Source: exchange contract 5.3.

use evenkeel_access::{Caller, Role};
use evenkeel_exchange_store::change::SequencedChange;

use super::INTERNAL;

/// A caller looking at the feed of an organization.
pub struct View<'a> {
    /// Who looks.
    pub caller: &'a Caller,
    /// Organization in the path.
    pub org: &'a str,
    /// Organizations a multi-tenant agbot asks for.
    pub orgs: &'a [String],
}

impl View<'_> {
    /// Whether the change is shown.
    #[must_use]
    pub fn shows(&self, change: &SequencedChange) -> bool {
        if change.category == INTERNAL {
            return false;
        }
        match self.caller.role {
            Role::Root => true,
            Role::HubAdmin | Role::OrgAdmin | Role::User => self.is_of_org(change),
            Role::Node => self.is_of_org(change) && self.concerns_node(change),
            Role::Agbot if self.caller.is_multi_tenant() => self.is_served(change) && concerns_agbot(change),
            Role::Agbot => self.is_of_org(change) && concerns_agbot(change),
        }
    }

    fn is_of_org(&self, change: &SequencedChange) -> bool {
        change.org == self.org || change.is_public
    }

    fn concerns_node(&self, change: &SequencedChange) -> bool {
        match change.category.as_str() {
            "mgmtpolicy" | "service" | "org" => true,
            "node" => change.id == self.caller.id,
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

fn concerns_agbot(change: &SequencedChange) -> bool {
    match change.resource.as_str() {
        "nodemsgs" | "nodestatus" => false,
        "nodeagreements" | "agbotagreements" => change.operation != "created/modified",
        _ => true,
    }
}
