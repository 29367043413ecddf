//! Has the linker put together what an agent uses of the program, which keeps the agent's resident memory small.
//!
//! Only a matter of size: where the linker does not understand the order, the program is built without it.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

const ORDER: &str = "src/agent_order.ld";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ORDER}");
    // Debug builds are linked often and measured never.
    if variable("PROFILE") != "release" || variable("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    let order = Path::new(&variable("CARGO_MANIFEST_DIR")).join(ORDER);
    let argument = format!("-T{}", order.display());
    if links_with(&argument) {
        println!("cargo::rustc-link-arg-bin=evenkeel={argument}");
    }
}

/// Whether the linker of this build takes the argument: `lld` and GNU `ld` do, `gold` and `mold` do not.
fn links_with(argument: &str) -> bool {
    let mut probe = Command::new(variable("RUSTC"));
    probe.args(["--crate-name", "probe", "--edition", "2024", "--target", &variable("TARGET")]);
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    probe.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        probe.arg(format!("-Clinker={linker}"));
    }
    let directory = variable("OUT_DIR");
    let source = Path::new(&directory).join("probe.rs");
    probe.args(["--out-dir", &directory, &format!("-Clink-arg={argument}")]).arg(&source);
    probe.stdout(Stdio::null()).stderr(Stdio::null());
    std::fs::write(&source, "fn main() {}").is_ok() && probe.status().is_ok_and(|status| status.success())
}

/// A variable that cargo sets; empty when it does not.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
