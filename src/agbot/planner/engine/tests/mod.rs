//! Stories of a fleet: the engine decides, and simulated nodes carry it out.

mod absence;
mod affinity;
mod blocklist;
mod buffer;
mod capacity;
mod dependency;
mod domain;
pub(crate) mod fleet;
mod group_health;
mod group_recovery;
mod health;
mod kept;
mod missed;
mod preferred_domain;
mod registry;
mod rollback;
mod snapshot;
mod unit;
mod upgrade_domain;
mod user_start;
mod version;
