//! Reboots the machine, as required by the health policy of an HA group.
//!
//! Source: orchestration C6 (`REBOOT` with the scope `host`).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::{process::Command, time::timeout};

use crate::drivers::DriverError;

/// Longest time that the program may take.
const LIMIT: Duration = Duration::from_secs(30);
/// If the machine started less than this time ago, it was rebooted for the command, which is then done.
const JUST_STARTED_SECS: f64 = 300.0;

/// True once this agent has rebooted its machine, because each of its tasks may have the command.
static IS_REBOOTING: AtomicBool = AtomicBool::new(false);

/// Reboots the machine, once for all tasks of the node.
///
/// # Errors
/// When the agent may not do that, or the program fails.
pub(super) async fn reboot(program: Option<&Path>) -> Result<(), DriverError> {
    reboot_since(program, uptime_secs()).await
}

/// See [`reboot`]; `uptime_secs`: uptime of the machine.
async fn reboot_since(program: Option<&Path>, uptime_secs: Option<f64>) -> Result<(), DriverError> {
    let Some(program) = program else {
        let why = "the agent may not reboot its machine: it was started without --reboot-program";
        return Err(DriverError::Unsuitable(why.to_owned()));
    };
    if uptime_secs.is_some_and(|secs| secs < JUST_STARTED_SECS) {
        return Ok(());
    }
    if IS_REBOOTING.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    tracing::warn!(program = %program.display(), "the machine is rebooted on request of the hub");
    let outcome = run(program).await;
    if outcome.is_err() {
        IS_REBOOTING.store(false, Ordering::SeqCst);
    }
    outcome
}

async fn run(program: &Path) -> Result<(), DriverError> {
    let failed = |why: String| DriverError::Unsuitable(format!("{}: {why}", program.display()));
    match timeout(LIMIT, Command::new(program).kill_on_drop(true).status()).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(failed(status.to_string())),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed(format!("it did not end within {} s", LIMIT.as_secs()))),
    }
}

/// Returns the uptime of the machine; none if the system does not report it.
fn uptime_secs() -> Option<f64> {
    std::fs::read_to_string("/proc/uptime").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn machine_is_rebooted_once_and_only_by_a_program_that_was_named() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("reboot");
        std::fs::write(&program, "#!/bin/sh\necho called >>\"$0.calls\"\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let calls = || std::fs::read_to_string(directory.path().join("reboot.calls")).unwrap_or_default();
        let refused = reboot_since(None, Some(9_000.0)).await.unwrap_err().to_string();
        assert!(refused.contains("--reboot-program"), "{refused}");
        reboot_since(Some(&program), Some(20.0)).await.unwrap();
        assert_eq!(calls(), "", "it has just started");
        let failed = reboot_since(Some(Path::new("/bin/false")), Some(9_000.0)).await.unwrap_err();
        assert!(failed.to_string().starts_with("/bin/false: exit status"), "{failed}");
        for _ in 0..3 {
            reboot_since(Some(&program), Some(9_000.0)).await.unwrap();
        }
        assert_eq!(calls(), "called\n", "every task of the node has a command");
    }
}
