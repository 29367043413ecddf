//! The console of a hub, as browsers without script use it.

mod actions;
mod approvals;
mod attention;
mod audit;
mod browser;
mod change;
mod changes;
mod crawler;
mod health;
mod provider_attacks;
mod provider_login;
mod roles;
mod rollout;
mod selection;
mod sessions;
mod settings;
mod users;
