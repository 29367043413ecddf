//! The integration tests: one binary, one PostgreSQL, real processes where processes are the subject.

mod openapi;
mod support;
mod up;
