//! Checks against the recorded answers of the reference implementation.

mod compatibility;
mod constraints;
mod node_policy;
mod policies;
mod priorities;
mod versions;
