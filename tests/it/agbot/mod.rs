//! The agbot inside a hub, asked as nodes ask it.

mod administer;
mod affinity;
mod capable;
mod claim_batch;
mod crash;
mod dependency;
mod drain;
mod events;
pub(crate) mod failover;
mod frozen;
mod in_process;
mod inert_policy;
mod listed;
mod maintenance;
mod moves;
mod orchestration;
mod org_settings;
mod other_agbot;
mod parallelism;
mod plan;
mod privacy;
mod records;
mod rolling;
mod served_policies;
mod statistics;
mod upgrade;
mod workload;
