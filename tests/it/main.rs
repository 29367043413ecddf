//! The integration tests: one binary, one PostgreSQL, real processes where processes are the subject.

mod agbot;
mod agent;
mod architecture;
mod cli;
mod connections;
mod console;
mod docs;
mod exchange;
mod import;
mod openapi;
mod pictures;
mod support;
mod up;
