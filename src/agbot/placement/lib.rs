//! Where instances may run and where they run best: elimination and ranking of nodes, domains, capacities and slots.
//!
//! Rules about records, without a model: [`matching`] compares a node with a policy and a service, [`place`] eliminates and ranks the nodes
//! of a workload unit, [`slots`] says which instances there are. Source: engine 2.

pub mod matching;
pub mod place;
pub mod slots;
