//! The program that an upgrade has installed: its path, its integrity, and the number of failed starts.
//!
//! The program that was started originally, by the machine's service manager, is the fallback. A program that is not
//! exactly what was installed is never run: after a power failure the file may be empty, and the system would run it as
//! a script that does nothing.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use evenkeel_domain::causes::chain;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::files;

/// Number of consecutive failed starts after which the original program continues.
const MOST_FAILED_STARTS: u32 = 3;

/// The record of the installed program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Installed {
    /// Version that it reports.
    pub version: String,
    /// The program.
    pub program: PathBuf,
    /// Version of the originally started program; if a package manager replaces it, that one counts.
    pub replaces: String,
    /// Its checksum; none in records of earlier versions.
    #[serde(default)]
    pub sha256: Option<String>,
    /// Number of consecutive starts without a report to the hub or a minute of uptime.
    #[serde(default)]
    pub failed_starts: u32,
}

/// Program that is to run.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice {
    /// The original program, because none is installed over it.
    Original,
    /// The installed one.
    Installed(PathBuf),
    /// The original program, because the installed one cannot be used.
    Fallback(String),
}

fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("packages").join("installed.json")
}

/// Chooses between the program of version `own` and one that is installed over it.
pub fn choose(data_dir: &Path, own: &str) -> Choice {
    match read(data_dir) {
        Ok(None) => Choice::Original,
        Ok(Some(installed)) if installed.replaces != own => Choice::Original,
        Ok(Some(installed)) => match installed.check() {
            Ok(()) => Choice::Installed(installed.program),
            Err(why) => Choice::Fallback(format!("the installed version {}: {why}", installed.version)),
        },
        Err(why) => Choice::Fallback(why),
    }
}

/// Records that the installed program is started; it has failed until [`record_success`] is called.
///
/// # Errors
/// When that cannot be recorded: the program must not be started then, because its failures could not be counted.
pub fn record_start(data_dir: &Path) -> Result<(), String> {
    change(data_dir, |installed| installed.failed_starts = installed.failed_starts.saturating_add(1))
}

/// Records that the installed program works.
pub(crate) fn record_success(data_dir: &Path) {
    let is_counted = read(data_dir).ok().flatten().is_some_and(|installed| installed.failed_starts > 0);
    if is_counted && let Err(error) = change(data_dir, |installed| installed.failed_starts = 0) {
        tracing::warn!(error, "the success of the installed agent cannot be recorded");
    }
}

/// Records the program that replaces the original one.
///
/// # Errors
/// When it cannot be read, or the record cannot be written.
pub(crate) fn install(data_dir: &Path, installed: &Installed) -> Result<(), String> {
    let sha256 = Some(checksum(&installed.program).map_err(|error| error.to_string())?);
    write(data_dir, &Installed { sha256, failed_starts: 0, ..installed.clone() })
}

impl Installed {
    /// Checks that the program is exactly what was installed, and that it starts.
    fn check(&self) -> Result<(), String> {
        if self.failed_starts >= MOST_FAILED_STARTS {
            return Err(format!("it was started {} times and never worked", self.failed_starts));
        }
        let program = self.program.display();
        let length = fs::metadata(&self.program).map_err(|error| format!("{program}: {error}"))?.len();
        if length == 0 {
            return Err(format!("{program} is empty"));
        }
        let Some(expected) = &self.sha256 else { return Ok(()) };
        let found = checksum(&self.program).map_err(|error| format!("{program}: {error}"))?;
        match found == *expected {
            true => Ok(()),
            false => Err(format!("{program} is damaged: its checksum is {found} instead of {expected}")),
        }
    }
}

/// Returns the checksum of a file.
fn checksum(path: &Path) -> io::Result<String> {
    let mut digest = Sha256::new();
    io::copy(&mut fs::File::open(path)?, &mut digest)?;
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn read(data_dir: &Path) -> Result<Option<Installed>, String> {
    let path = path_in(data_dir);
    let text = files::read_optional(&path).map_err(|error| chain(&error))?;
    let read = text.map(|text| serde_json::from_str(&text));
    read.transpose().map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

fn change(data_dir: &Path, change: impl FnOnce(&mut Installed)) -> Result<(), String> {
    let Some(mut installed) = read(data_dir)? else { return Ok(()) };
    change(&mut installed);
    write(data_dir, &installed)
}

fn write(data_dir: &Path, installed: &Installed) -> Result<(), String> {
    let text = serde_json::to_string_pretty(installed).map_err(|error| error.to_string())?;
    files::write_atomic(&path_in(data_dir), text.as_bytes(), 0o600).map_err(|error| chain(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data directory with an installed program.
    fn installed() -> (tempfile::TempDir, PathBuf) {
        let data = tempfile::tempdir().unwrap();
        let program = data.path().join("packages").join("agent");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "#!/bin/sh\nexec sleep 1\n").unwrap();
        let record = Installed {
            version: "2.0".to_owned(),
            program: program.clone(),
            replaces: "1.0".to_owned(),
            sha256: None,
            failed_starts: 0,
        };
        install(data.path(), &record).unwrap();
        (data, program)
    }

    fn refusal(data: &Path) -> String {
        match choose(data, "1.0") {
            Choice::Fallback(why) => why,
            other => panic!("no fallback: {other:?}"),
        }
    }

    #[test]
    fn installed_program_runs_instead_of_the_version_that_it_replaces() {
        let (data, program) = installed();
        assert_eq!(choose(data.path(), "1.0"), Choice::Installed(program));
        assert_eq!(choose(data.path(), "3.0"), Choice::Original, "a package manager has replaced that one");
        assert_eq!(choose(tempfile::tempdir().unwrap().path(), "1.0"), Choice::Original);
    }

    #[test]
    fn program_that_is_not_whole_is_never_started() {
        let (data, program) = installed();
        fs::write(&program, "#!/bin/sh\nexec sleep 2\n").unwrap();
        assert!(refusal(data.path()).contains("is damaged: its checksum is"));
        fs::write(&program, "").unwrap();
        assert!(refusal(data.path()).ends_with("is empty"));
        fs::remove_file(&program).unwrap();
        assert!(refusal(data.path()).contains("No such file"));
        fs::write(path_in(data.path()), "{").unwrap();
        assert!(refusal(data.path()).contains("installed.json cannot be read"));
    }

    #[test]
    fn program_that_never_gets_going_gives_way_to_the_original_one() {
        let (data, program) = installed();
        for _ in 0..MOST_FAILED_STARTS - 1 {
            record_start(data.path()).unwrap();
        }
        record_success(data.path());
        for _ in 0..MOST_FAILED_STARTS {
            assert_eq!(choose(data.path(), "1.0"), Choice::Installed(program.clone()));
            record_start(data.path()).unwrap();
        }
        assert!(refusal(data.path()).contains("started 3 times"));
        // Another upgrade resets the count.
        let record = read(data.path()).unwrap().unwrap();
        install(data.path(), &record).unwrap();
        assert_eq!(choose(data.path(), "1.0"), Choice::Installed(program));
    }

    #[test]
    fn record_of_an_earlier_version_is_understood() {
        let (data, program) = installed();
        let text = serde_json::json!({"version": "2.0", "program": program, "replaces": "1.0"}).to_string();
        fs::write(path_in(data.path()), text).unwrap();
        assert_eq!(choose(data.path(), "1.0"), Choice::Installed(program));
    }
}
