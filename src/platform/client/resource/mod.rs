//! One method per operation of the APIs that agents, agbots and the command line use.
//!
//! Ids are given without organization. Lists are empty and single objects `None` for status 404.

mod agbot;
mod agbot_api;
mod agent;
mod audit;
mod change;
mod fleet;
mod fleet_view;
mod health;
mod history;
mod management;
mod message;
mod node;
mod node_change;
mod orchestration;
mod plan_approval;
mod policy;
mod record;
mod revision;
mod service;

use std::collections::BTreeMap;

pub use agbot_api::{ReasonRecords, RolloutRecords};
pub use agent::{ConfigStateChange, Unregistered};
pub use health::HealthSubject;
pub use message::MessagePage;
pub use node::TaskReported;
pub use node_change::NodeChange;
pub use plan_approval::ApprovalDecision;
pub use record::{Records, RecordsPage, Resource};
pub use revision::DocumentPath;

/// Maximum size of a list of documents that the users of one organization write. It must not fill the memory of the
/// hub's agbot, which reads the lists of all organizations.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Converts the keys of a list from text to ids.
fn by_id<I: Ord, T>(found: BTreeMap<String, T>, id: impl Fn(&str) -> I) -> BTreeMap<I, T> {
    found.into_iter().map(|(text, value)| (id(&text), value)).collect()
}

/// Returns the only value of a map, or `None`: single reads return a map of one.
fn only<T>(map: Option<BTreeMap<String, T>>) -> Option<T> {
    map.and_then(|mut map| map.pop_first()).map(|(_, value)| value)
}
