//! The program as a real process: its start, its output, its end.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use evenkeel_embedded_postgres::Account;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::prepared;
use super::scratch::Scratch;
use super::wait::{LIMIT, eventually, must};

/// A running process of the program, with what it wrote. Killed when dropped.
#[derive(Debug)]
pub struct Program {
    child: Child,
    output: PathBuf,
    errors: PathBuf,
}

impl Program {
    /// Starts the program with `arguments`, writing into `scratch`, as `account` when one is given.
    pub fn start(scratch: &Scratch, arguments: &[&str], account: Option<Account>) -> Self {
        Self::start_by(scratch, &[], arguments, account)
    }

    /// The same; `before` are the words of a command that starts it.
    pub fn start_by(
        scratch: &Scratch,
        before: &[String],
        arguments: &[&str],
        account: Option<Account>,
    ) -> Self {
        let unique = format!("{:08x}", rand::random::<u32>());
        let output = scratch.join(&format!("{unique}.out"));
        let errors = scratch.join(&format!("{unique}.err"));
        let program = executable(scratch, account);
        let mut command = match before {
            [] => Command::new(program),
            [first, further @ ..] => {
                let mut command = Command::new(first);
                command.args(further).arg(program);
                command
            }
        };
        // Environment settings of the test run must not reach the program.
        let inherited =
            std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("EVENKEEL_"));
        command.env_clear().envs(inherited).args(arguments).stdin(Stdio::null());
        command.stdout(must(File::create(&output), "a file")).stderr(must(File::create(&errors), "a file"));
        // A process group of its own: a Ctrl-C for the tests is not one for the program.
        command.process_group(0);
        if let Some(account) = account {
            command
                .uid(account.uid)
                .gid(account.gid)
                .env("HOME", "/nonexistent")
                .env_remove("XDG_STATE_HOME");
        }
        Self { child: must(command.spawn(), "starting the program"), output, errors }
    }

    /// The process id.
    pub fn id(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("process ids fit"))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        must(kill(self.id(), signal), "sending a signal");
    }

    /// Sends a signal to it and to what it has started in its process group.
    pub fn signal_group(&self, signal: Signal) {
        must(killpg(self.id(), signal), "sending a signal");
    }

    /// Returns the standard output so far.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// Returns the standard error so far.
    pub fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// The file that it writes its standard error to.
    pub fn errors_file(&self) -> PathBuf {
        self.errors.clone()
    }

    /// Its exit status, when it has ended by itself.
    pub fn ended(&mut self) -> Option<i32> {
        let status = must(self.child.try_wait(), "waiting for the program")?;
        // A signal's number as shells show it.
        Some(
            status
                .code()
                .unwrap_or_else(|| 128 + std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or(0)),
        )
    }

    /// Waits for its end.
    pub async fn wait(&mut self) -> i32 {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(Instant::now() < deadline, "the program does not end: {}", self.errors());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Kills it without warning and waits until it is gone.
    pub async fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.wait().await;
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program's file, as a copy where `account` may not reach the original.
fn executable(scratch: &Scratch, account: Option<Account>) -> PathBuf {
    let original = Path::new(env!("CARGO_BIN_EXE_evenkeel"));
    if account.is_none_or(|account| {
        original.parent().is_some_and(|directory| account.first_closed(directory).is_none())
    }) {
        return original.to_owned();
    }
    let copy = scratch.join("evenkeel");
    if !copy.exists() {
        must(std::fs::copy(original, &copy), "copying the program");
    }
    copy
}

/// A hub on a directory that outlives it, so that it can be started again.
#[derive(Debug)]
pub struct Hub {
    /// The process.
    pub program: Program,
    /// Address at which it listens, without a slash at the end.
    pub url: String,
    /// A client that trusts it.
    pub client: reqwest::Client,
    directory: PathBuf,
}

impl Hub {
    /// Starts `evenkeel up` on the directory `hub` of `scratch` and waits until it is ready. A hub that has none yet gets a copy of one in which
    /// a hub was started before.
    pub async fn start(scratch: &Scratch, options: &[&str]) -> Self {
        let directory = scratch.join("hub");
        if !directory.exists() && !options.contains(&"--database-url") {
            prepared::put_hub(&directory).await;
        }
        Self::start_as(scratch, options, None).await
    }

    /// The same for the first start of a hub, as another user if one is given.
    pub async fn start_as(scratch: &Scratch, options: &[&str], account: Option<Account>) -> Self {
        let directory = scratch.join("hub");
        let url_file = directory.join("url");
        let _ = std::fs::remove_file(&url_file);
        let data_dir = directory.to_string_lossy();
        let mut arguments = vec!["up", "--data-dir", &data_dir];
        if !options.contains(&"--listen") {
            arguments.extend(["--listen", "127.0.0.1:0"]);
        }
        arguments.extend_from_slice(options);
        let mut program = Program::start(scratch, &arguments, account);
        let url = eventually("the hub writes its address", || {
            let ended = program.ended();
            assert!(ended.is_none(), "the hub ended with {ended:?}: {}", program.errors());
            let url = std::fs::read_to_string(&url_file).ok();
            async move { url }
        });
        let url = url.await.trim().to_owned();
        let client = client_for(&directory);
        let hub = Self { program, url, client, directory };
        eventually("the hub is ready", || async { (hub.get("/readyz").await?.0 == 200).then_some(()) }).await;
        hub
    }

    /// Status and body of a GET outside the API, or none when it does not respond.
    pub async fn get(&self, path: &str) -> Option<(u16, String)> {
        let response = self.client.get(format!("{}{path}", self.url)).send().await.ok()?;
        Some((response.status().as_u16(), response.text().await.ok()?))
    }

    /// Its data directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The password of root that it made.
    pub fn root_password(&self) -> String {
        must(std::fs::read_to_string(self.directory.join("root-password")), "the password file")
            .trim()
            .to_owned()
    }

    /// Sends a request as root below `/v1`; returns status and body.
    pub async fn call(
        &self,
        method: &str,
        path: &str,
        body: Option<serde_json::Value>,
    ) -> (u16, serde_json::Value) {
        self.call_as(("root/root", &self.root_password()), method, path, body).await
    }

    /// Sends a request below `/v1` as a login, which is a name and a secret; returns status and body.
    pub async fn call_as(
        &self,
        (name, secret): (&str, &str),
        method: &str,
        path: &str,
        body: Option<serde_json::Value>,
    ) -> (u16, serde_json::Value) {
        let method = must(method.parse(), "a method");
        let request = self.client.request(method, format!("{}/v1{path}", self.url));
        let mut request = request.basic_auth(name, Some(secret));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = must(request.send().await, "a request");
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }

    /// Asks it to stop and returns its exit status.
    pub async fn stop(mut self) -> i32 {
        self.program.signal(Signal::SIGTERM);
        self.program.wait().await
    }
}

/// An address on loopback that stays free until it is used: for a program that must come back to the same one, or for none.
///
/// The kernel chooses the ports of other tests' programs and connections from [`EPHEMERAL`] on; these are below, each given once.
pub fn free_address() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        // Test processes that run side by side begin at other places.
        let count = std::process::id().wrapping_mul(97).wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST_PORT + count % (EPHEMERAL - FIRST_PORT);
        let address = format!("127.0.0.1:{port}");
        if std::net::TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}

const FIRST_PORT: u32 = 12_000;

/// The first port that Linux chooses by itself (`net.ipv4.ip_local_port_range`, its default).
const EPHEMERAL: u32 = 32_768;

/// A client with nothing but a generous time limit.
pub fn client() -> reqwest::Client {
    must(reqwest::Client::builder().timeout(LIMIT).no_proxy().build(), "an HTTP client")
}

/// The same for a hub on `directory`: it trusts only the hub's own authority when there is one.
fn client_for(directory: &Path) -> reqwest::Client {
    let builder = reqwest::Client::builder().timeout(LIMIT).no_proxy();
    let builder = match std::fs::read(directory.join("tls/ca.pem")) {
        Ok(pem) => builder
            .tls_certs_only([must(reqwest::Certificate::from_pem(&pem), "the authority's certificate")]),
        Err(_) => builder,
    };
    must(builder.build(), "an HTTP client")
}
