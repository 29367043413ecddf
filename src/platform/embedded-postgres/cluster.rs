//! The database cluster on disk: its version, its password, and its creation by `initdb`.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::binaries::Binaries;
use super::home::Home;
use super::{NAME, PostgresError};
use evenkeel_runtime::files::{FileError, random_secret, read_secret, write_private_file};
use evenkeel_runtime::settings::Secret;

/// Timeout of `initdb`, which usually takes a second, on a loaded machine far more.
const INITDB_LIMIT: Duration = Duration::from_secs(300);

/// Size of the server's WAL segments. Every write waits while the next segment is created and flushed, which takes a
/// tenth of a second with the default of 16 MiB on a modest disk.
const LOG_SEGMENT_MIB: &str = "2";

/// Returns the version of the existing cluster, if there is one.
pub fn existing_major(home: &Home) -> Result<Option<u32>, PostgresError> {
    let path = home.data().join("PG_VERSION");
    match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map(Some).map_err(|_| {
            FileError::new("understand", &path, std::io::Error::other("it holds no version number")).into()
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::new("read", &path, error).into()),
    }
}

/// Creates the cluster if there is none; returns the password of its user.
pub async fn ensure(home: &Home, binaries: &Binaries) -> Result<Secret<String>, PostgresError> {
    let password_file = home.password_file();
    if home.data().join("PG_VERSION").exists() {
        return Ok(read_secret(&password_file)?);
    }
    let password = random_secret();
    write_private_file(&password_file, password.expose().as_bytes())?;
    home.give(&password_file)?;
    remove_unfinished(home.directory())?;
    // Only a complete cluster is used: `initdb` runs in a temporary directory next to the final one.
    let fresh = home.directory().join(format!("data.{:016x}.unfinished", rand::random::<u64>()));
    initdb(home, binaries, &fresh).await?;
    fs::rename(&fresh, home.data()).map_err(FileError::at("move into place", &fresh))?;
    fs::File::open(home.directory())
        .and_then(|directory| directory.sync_all())
        .map_err(FileError::at("sync", home.directory()))?;
    Ok(password)
}

fn remove_unfinished(directory: &Path) -> Result<(), FileError> {
    let entries = fs::read_dir(directory).map_err(FileError::at("read", directory))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("data.") {
            fs::remove_dir_all(entry.path()).map_err(FileError::at("remove", &entry.path()))?;
        }
    }
    Ok(())
}

async fn initdb(home: &Home, binaries: &Binaries, data: &Path) -> Result<(), PostgresError> {
    let program = binaries.directory.join("initdb");
    let mut command = plain_command(&program, home);
    command
        .arg("--pgdata")
        .arg(data)
        .arg("--pwfile")
        .arg(home.password_file())
        .args(["--username", NAME, "--auth", "scram-sha-256"])
        .args(["--encoding", "UTF8", "--locale", "C"])
        .args(["--wal-segsize", LOG_SEGMENT_MIB])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let run = tokio::time::timeout(INITDB_LIMIT, command.output()).await;
    let output = run
        .map_err(|_| PostgresError::Initialise { output: "initdb does not finish".to_owned() })?
        .map_err(|source| PostgresError::Run { program, source })?;
    if output.status.success() {
        return Ok(());
    }
    Err(PostgresError::Initialise { output: last_lines(&String::from_utf8_lossy(&output.stderr), 3) })
}

/// Prepares a PostgreSQL binary to run as the server's account: in a new process group, so that Ctrl-C in a terminal
/// reaches only this process, and with an environment independent of the caller's.
pub fn plain_command(program: &Path, home: &Home) -> Command {
    let mut command = Command::new(program);
    command.current_dir(home.directory()).env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C");
    command.env("TZ", "UTC").stdin(Stdio::null()).process_group(0);
    if let Some(account) = home.account() {
        command.uid(account.uid).gid(account.gid);
    }
    command
}

/// The last lines of a text, on one line.
pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_long_text_is_reported() {
        assert_eq!(last_lines("a\n\nb\nc \n", 2), "b / c");
        assert_eq!(last_lines("", 2), "");
    }
}
