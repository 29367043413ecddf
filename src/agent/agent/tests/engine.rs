//! A container engine for tests, started where the tests run as root and one is installed. Integration tests include this file, too.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::sleep;

const PROGRAM: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
    if (count > 1) {
        printf("starting\n%s\n", words[1]);
        return 7;
    }
    for (;;) pause();
}
"#;

/// The image of [`Engine::start`].
pub(crate) const IMAGE: &str = "evenkeel-test:1";

/// A separate engine that ends with the test. It has its own network namespace, so that the bridges of networks that a test
/// does not remove end with it too: left on the machine, each would take one of the engine's few address ranges, until a
/// later run finds none.
pub(crate) struct Engine {
    daemon: Child,
    directory: tempfile::TempDir,
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.signal(Signal::SIGCONT);
        self.signal(Signal::SIGTERM);
        let _status = self.daemon.wait();
    }
}

fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Engine {
    /// The address of its API.
    pub(crate) fn endpoint(&self) -> String {
        format!("unix://{}", self.directory.path().join("engine.sock").display())
    }

    /// Sends a signal to the engine, and to none of its containers.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Ok(pid) = i32::try_from(self.daemon.id()) {
            // It may have ended already.
            let _ended = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Returns `None`, and prints the reason, where no engine can be started: without root, without the
    /// program, or inside a narrow sandbox.
    pub(crate) async fn start() -> Option<Self> {
        let engine = Self::try_start().await;
        if engine.is_none() {
            println!("no container engine can be started here: nothing was tested");
        }
        engine
    }

    async fn try_start() -> Option<Self> {
        if !nix::unistd::Uid::effective().is_root() {
            return None;
        }
        let program =
            ["/usr/bin/dockerd", "/usr/sbin/dockerd"].into_iter().find(|path| Path::new(path).exists())?;
        let directory = tempfile::Builder::new().prefix("ek-engine").tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name).display().to_string();
        let daemon = quiet("unshare")
            .args(["--net", program])
            .args([
                "--iptables=false",
                "--ip6tables=false",
                "--data-root",
                &at("data"),
                "--exec-root",
                &at("exec"),
            ])
            .args(["--pidfile", &at("pid"), "-H", &format!("unix://{}", at("engine.sock"))])
            .spawn()
            .ok()?;
        let engine = Self { daemon, directory };
        for _ in 0..600 {
            if quiet("docker").args(["-H", &engine.endpoint(), "version"]).status().ok()?.success() {
                engine.make_image();
                return Some(engine);
            }
            sleep(Duration::from_millis(50)).await;
        }
        None
    }

    /// Creates an image with one static program that waits forever; with an argument it writes it and exits with 7.
    fn make_image(&self) {
        let directory = self.directory.path();
        std::fs::write(directory.join("wait.c"), PROGRAM).expect("a source file");
        let run = |command: &mut Command| {
            assert!(command.current_dir(directory).status().is_ok_and(|status| status.success()));
        };
        run(Command::new("cc").args(["-static", "-O1", "-o", "wait", "wait.c"]));
        run(Command::new("tar").args(["cf", "image.tar", "wait"]));
        let entry = r#"ENTRYPOINT ["/wait"]"#;
        run(Command::new("docker").args(["-H", &self.endpoint(), "import", "-c", entry, "image.tar", IMAGE]));
    }
}
