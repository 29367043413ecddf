//! The one binary: hub, edge agent and command line, selected by the first argument.

mod commands;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Everything that speaks TLS uses this one provider; a second call could only come from a second `main`.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    commands::run(std::env::args_os().collect())
}
