//! Searches for nodes: by agbots for agreements, by users for errors and services.
//!
//! Source: exchange-api 7.

mod health;
mod pattern;
mod people;
mod policy;

use evenkeel_access::{Access, Caller, Decision, Target, decide};
use evenkeel_exchange_store::search::FoundNodeRow;
use evenkeel_wire::exchange::search::FoundNode;

use crate::operation::Operation;

const TAG: &str = "search";

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    let mut operations = policy::operations();
    operations.extend(pattern::operations());
    operations.extend(health::operations());
    operations.extend(people::operations());
    operations
}

/// The organizations to look for nodes in: those asked for, each once, as far as the caller may search there.
fn searched_orgs(caller: &Caller, org: &str, wanted: Option<Vec<String>>) -> Vec<String> {
    let mut orgs = wanted.unwrap_or_else(|| vec![org.to_owned()]);
    orgs.sort();
    orgs.dedup();
    orgs.retain(|org| decide(caller, Access::NodesSearch, Target { org, id: None }) == Decision::Allow);
    orgs
}

/// An architecture to compare with; `None` is any.
fn exact_arch(arch: &str) -> Option<&str> {
    (!arch.is_empty() && arch != "*").then_some(arch)
}

fn shape(row: FoundNodeRow) -> FoundNode {
    FoundNode {
        id: format!("{}/{}", row.org, row.node),
        node_type: if row.node_type.is_empty() { "device".to_owned() } else { row.node_type },
        public_key: row.public_key,
    }
}
