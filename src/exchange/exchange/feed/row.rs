//! Rows of the feed about nodes and agbots.

use evenkeel_exchange_store::change::Change;

/// A row about a node or something that belongs to it.
pub(crate) fn node_change(org: &str, node: &str, resource: &'static str, operation: &'static str) -> Change {
    change("node", (org, node), resource, operation)
}

/// A row about an agbot or something that belongs to it.
pub(crate) fn agbot_change(
    org: &str,
    agbot: &str,
    resource: &'static str,
    operation: &'static str,
) -> Change {
    change("agbot", (org, agbot), resource, operation)
}

fn change(
    category: &'static str,
    (org, id): (&str, &str),
    resource: &'static str,
    operation: &'static str,
) -> Change {
    Change { org: org.to_owned(), id: id.to_owned(), category, resource, operation, is_public: false }
}
