//! The base of every part of the planner: values, reasons as data and as text, and records.
//!
//! Pure, like every crate of the planner: no async, no input or output, no clock, no randomness of its own. Nothing here decides.
//!
//! The modules form layers, and each uses only those of its own row and above, in one direction:
//!
//! - values: [`time`], [`settings`], [`statistics`], [`facts`], [`goal`], [`lease`], [`claims`], [`agreement`], [`usage`], [`association`], [`forecast`]
//! - reasons, as data and as text: [`report`]
//! - records: [`workload`], [`rollout`], [`blocklist`], [`health`], [`node_record`], [`departure`], [`other_agbots`], [`catalog`]
//!
//! Source: design 4; engine 2.

pub mod agreement;
pub mod association;
mod availability;
pub mod blocklist;
pub mod catalog;
pub mod claims;
pub mod departure;
pub mod facts;
pub mod forecast;
pub mod goal;
pub mod health;
pub mod lease;
pub mod node_record;
pub mod other_agbots;
pub mod report;
pub mod rollout;
pub mod settings;
pub mod stable_hash;
pub mod statistics;
pub mod time;
pub mod usage;
pub mod workload;

#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
