//! Feed records of changes to nodes.

use evenkeel_exchange_store::change::Change;

/// A row about a node or something that belongs to it.
pub(crate) fn node_change(org: &str, node: &str, resource: &'static str, operation: &'static str) -> Change {
    Change {
        org: org.to_owned(),
        id: node.to_owned(),
        category: "node",
        resource,
        operation,
        is_public: false,
    }
}
