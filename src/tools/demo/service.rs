//! The service of the demo: responds on a socket with its version, so that an outside observer sees whether an instance runs.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use evenkeel_runtime::{ExitStatus, Failure};

/// Options of the demo's service.
#[derive(Debug, Args)]
pub struct ServiceArguments {
    /// Directory of the sockets, one a node
    #[arg(long)]
    sockets: PathBuf,
    /// Version to response with
    #[arg(long)]
    version: String,
    /// Ends with status 1 so many seconds after its start: a version that does not work
    #[arg(long)]
    fail_after_secs: Option<u64>,
}

/// Responds to every connection until the process is ended; ends when the directory of the sockets is gone.
pub fn run(arguments: &ServiceArguments) -> Result<(), Failure> {
    let node = std::env::var("HZN_NODE_ID").map_err(|_| {
        Failure::new(ExitStatus::Usage, "HZN_NODE_ID is not set: an agent starts this program")
    })?;
    let socket = arguments.sockets.join(format!("{node}.sock"));
    let broken = |error: std::io::Error| Failure::from_error(ExitStatus::Failure, &error);
    // A killed instance leaves its socket behind.
    if let Err(error) = std::fs::remove_file(&socket)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(broken(error));
    }
    let listener = UnixListener::bind(&socket).map_err(broken)?;
    let directory = arguments.sockets.clone();
    std::thread::spawn(move || {
        while directory.exists() {
            std::thread::sleep(Duration::from_secs(1));
        }
        std::process::exit(0);
    });
    if let Some(secs) = arguments.fail_after_secs {
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(secs));
            eprintln!("this version does not work");
            std::process::exit(1);
        });
    }
    println!("version {} runs on {node}", arguments.version);
    let process = std::process::id();
    let response = format!("{} {process}\n", arguments.version);
    let hangs = || {
        std::fs::read_to_string(hang_file(&arguments.sockets, &node))
            .is_ok_and(|text| text == process.to_string())
    };
    for connection in listener.incoming() {
        let response = if hangs() { "hanging\n" } else { &response };
        // A caller that went away is no reason to stop.
        let _ = connection.and_then(|mut connection| connection.write_all(response.as_bytes()));
    }
    Ok(())
}

/// The file that names the process of an instance that gives wrong responses.
fn hang_file(sockets: &Path, node: &str) -> PathBuf {
    sockets.join(format!("{node}.hang"))
}

/// Lets an instance give wrong responses from now on; the one that takes its place gives the right ones.
///
/// # Errors
/// When that cannot be written.
pub fn hang(sockets: &Path, node: &str, process: i32) -> std::io::Result<()> {
    std::fs::write(hang_file(sockets, node), process.to_string())
}

/// An instance of the service, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its version.
    pub version: String,
    /// Its process.
    pub process: i32,
}

/// Returns the response of the instance on a node; `None` without one.
pub fn read(sockets: &Path, node: &str) -> Option<String> {
    let mut connection = UnixStream::connect(sockets.join(format!("{node}.sock"))).ok()?;
    connection.set_read_timeout(Some(Duration::from_millis(200))).ok()?;
    let mut text = String::new();
    connection.read_to_string(&mut text).ok()?;
    Some(text)
}

/// Queries the instance on a node; `None` without a right response.
pub fn ask(sockets: &Path, node: &str) -> Option<Instance> {
    let text = read(sockets, node)?;
    let (version, process) = text.trim().split_once(' ')?;
    Some(Instance { version: version.to_owned(), process: process.parse().ok()? })
}
