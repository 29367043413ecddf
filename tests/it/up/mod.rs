//! `evenkeel up` as its users meet it: starting, stopping, being killed, and refusing.

mod alerts;
mod browsers;
mod database_refusals;
mod durability;
mod logins;
mod mailboxes;
mod monitoring;
mod oidc;
mod refusal;
mod start;
mod stop;
mod tls;
