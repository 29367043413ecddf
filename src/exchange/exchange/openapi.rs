//! The exchange's part of the API document.

use evenkeel_api::{About, Part};

use crate::{API_VERSION, routes};

/// Description of the whole API.
pub const ABOUT: About = About {
    title: "Evenkeel",
    description: "The record of organizations, nodes, services, policies, agreements and HA groups, and the API of the agbot.",
    version: API_VERSION,
};

const EXAMPLES: [&str; 18] = [
    include_str!("examples/administration.json"),
    include_str!("examples/agbot.json"),
    include_str!("examples/audit.json"),
    include_str!("examples/changes.json"),
    include_str!("examples/deployment_policy.json"),
    include_str!("examples/general.json"),
    include_str!("examples/ha_group.json"),
    include_str!("examples/management_policy.json"),
    include_str!("examples/message.json"),
    include_str!("examples/node.json"),
    include_str!("examples/node_part.json"),
    include_str!("examples/organization.json"),
    include_str!("examples/pattern.json"),
    include_str!("examples/plan_approval.json"),
    include_str!("examples/revision.json"),
    include_str!("examples/search.json"),
    include_str!("examples/service.json"),
    include_str!("examples/user.json"),
];

/// The exchange's operations.
#[must_use]
pub fn part() -> Part {
    Part {
        operations: routes::all().iter().map(crate::operation::Operation::described).collect(),
        examples: &EXAMPLES,
    }
}
