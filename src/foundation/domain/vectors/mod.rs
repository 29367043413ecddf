//! Tests against the recorded results of the reference implementation.

mod compatibility;
mod constraints;
mod node_policy;
mod policies;
mod priorities;
mod versions;
