//! Agents as real processes with a real hub: what continues when one of them is away, and what a service
//! needs.

mod contact;
mod engine;
mod needed;
mod outage;
mod overrides;
mod pattern;
mod tasks;
mod upgrade;
