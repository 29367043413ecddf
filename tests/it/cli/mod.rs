//! The command line as users and scripts use it, against a running hub and agent.

mod administrator;
mod apply;
mod approval;
mod audit;
mod common;
mod files;
mod full_disk;
mod history;
mod node_owner;
mod orch;
mod projects;
mod revisions;
mod roles;
mod selection;
mod stops;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::fleet::Fleet;
use crate::support::wait::must;
use crate::support::{Hub, Scratch, eventually};

/// The command line with settings of its own.
struct Hzn {
    program: PathBuf,
    home: PathBuf,
    settings: Vec<(&'static str, String)>,
}

/// Exit status and output of a command.
struct Completed {
    status: i32,
    output: String,
    errors: String,
}

impl Hzn {
    /// The command line for a hub, reached by a link named `hzn`.
    fn new(scratch: &Scratch, hub: &Hub, auth: &str) -> Self {
        let program = scratch.join("hzn");
        must(std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_evenkeel"), &program), "a link");
        let settings = vec![
            ("HZN_EXCHANGE_URL", hub.url.clone()),
            ("HZN_ORG_ID", "acme".to_owned()),
            ("HZN_EXCHANGE_USER_AUTH", auth.to_owned()),
        ];
        Self { program, home: scratch.path().to_owned(), settings }
    }

    fn set(&mut self, name: &'static str, value: String) {
        self.settings.retain(|(known, _)| *known != name);
        self.settings.push((name, value));
    }

    /// Runs a command whose words are separated by blanks, with nothing on standard input.
    fn run(&self, line: &str) -> Completed {
        self.run_with(line, "")
    }

    /// Runs a command with a text on standard input.
    fn run_with(&self, line: &str, input: &str) -> Completed {
        let mut command = Command::new(&self.program);
        command.env_clear().env("HOME", &self.home).envs(self.settings.iter().cloned());
        command.args(line.split_whitespace()).current_dir(&self.home);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = must(command.spawn(), "starting hzn");
        let mut stdin = child.stdin.take().expect("it is piped");
        // A command that reads nothing may be gone already.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = must(child.wait_with_output(), "waiting for hzn");
        Completed {
            status: output.status.code().unwrap_or(-1),
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs a command that must succeed and returns its data.
    fn data(&self, line: &str) -> Value {
        let response = self.run(line);
        assert_eq!(response.status, 0, "hzn {line}: {}", response.errors);
        must(serde_json::from_str(&response.output), &format!("hzn {line} writes JSON: {}", response.output))
    }

    /// Runs a command that must succeed and write no data.
    fn done(&self, line: &str) {
        let response = self.run(line);
        assert_eq!((response.status, response.output.as_str()), (0, ""), "hzn {line}: {}", response.errors);
    }

    /// Runs a command that must fail with a status, and report it in three lines.
    fn refused(&self, status: i32, line: &str) -> String {
        let response = self.run(line);
        assert_eq!(
            (response.status, response.output.as_str()),
            (status, ""),
            "hzn {line}: {}",
            response.errors
        );
        let reported: Vec<&str> = response.errors.lines().rev().take(3).collect();
        assert!(reported.len() == 3 && reported[2].starts_with("Error: "), "hzn {line}: {}", response.errors);
        response.errors
    }

    /// Writes a file that commands can name.
    fn write(&self, name: &str, content: &Value) {
        must(std::fs::write(self.home.join(name), content.to_string()), "a file");
    }
}

/// A hub with two nodes in the group `o/g`, version 1.0.0 of the service `o/watch`, and the command line as root in `o`.
async fn hub_with_two_nodes(scratch: &Scratch) -> (Hub, Fleet, Hzn) {
    let hub = Hub::start(scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    let mut hzn = Hzn::new(scratch, &hub, &format!("root/root:{}", hub.root_password()));
    hzn.set("HZN_ORG_ID", "o".to_owned());
    (hub, fleet, hzn)
}

/// A deployment policy of the service `o/watch` for the members of the group `g`, with the label `line1`.
fn policy(replicas: u32) -> Value {
    json!({
        "label": "line1",
        "service": {"name": "watch", "org": "o", "arch": "*", "serviceVersions": [{"version": "1.0.0"}]},
        "constraints": ["openhorizon.hagroup == g"],
        "orchestration": {"mode": "replicated", "replicas": replicas},
    })
}

/// Waits until as many instances of a deployment policy are wanted and run.
async fn up(hzn: &Hzn, policy: &str, count: u64) {
    eventually(&format!("{count} instances are up"), || async {
        let found = hzn.data(&format!("exchange deployment orchestration status {policy}"));
        let part = &found["units"][0];
        (part["up"] == count && part["target"] == count).then_some(())
    })
    .await;
}

fn is_owner_only(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    must(std::fs::metadata(path), "a file").permissions().mode() & 0o077 == 0
}
