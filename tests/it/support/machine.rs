//! Another machine for agents: processes and a boot of its own, the same files.

use std::path::PathBuf;
use std::process::Command;

use super::Scratch;

/// A machine that runs one program at a time; what is left of it ends with the program.
pub struct Machine {
    boot: PathBuf,
}

impl Machine {
    /// Returns `None`, and says so, where no namespace can be made: without root, or inside a narrow sandbox.
    pub fn new(scratch: &Scratch) -> Option<Self> {
        let number = format!("{:012x}", rand::random::<u32>());
        let boot = scratch.write(&format!("boot-{number}"), &format!("00000000-0000-4000-8000-{number}\n"));
        let machine = Self { boot };
        let words = machine.words();
        let tried = Command::new(&words[0]).args(&words[1..]).arg("true").output();
        match tried {
            Ok(output) if output.status.success() => Some(machine),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).into_owned();
                eprintln!("skipped, because there is no other machine: {why}");
                None
            }
            Err(error) => {
                eprintln!("skipped, because there is no other machine: {error}");
                None
            }
        }
    }

    /// The words before a command that runs there.
    pub fn words(&self) -> Vec<String> {
        let script = format!(
            r#"mount --bind '{}' /proc/sys/kernel/random/boot_id && exec "$0" "$@""#,
            self.boot.display()
        );
        let words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", &script];
        words.map(str::to_owned).to_vec()
    }
}
