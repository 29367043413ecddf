//! Finds PostgreSQL's server programs on the machine, among those fetched earlier, or fetches them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::account::Account;
use super::{BinarySource, PostgresError, fetch};

/// The oldest version whose features the schema uses.
const OLDEST_MAJOR: u32 = 15;

/// A directory with `initdb` and `postgres` of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    /// The directory.
    pub directory: PathBuf,
    /// The first part of the version.
    pub major: u32,
}

/// Returns binaries that can run a cluster of version `major` (any new enough version when it is `None`).
///
/// # Shape
/// `caches`: directories for fetched programs; all are searched, the first that can be written is fetched into.
/// # Errors
/// When there are none, and none may or can be fetched.
pub async fn obtain(
    source: BinarySource,
    major: Option<u32>,
    account: Option<Account>,
    caches: &[PathBuf],
) -> Result<Binaries, PostgresError> {
    let fits = |binaries: &Binaries| {
        binaries.major >= OLDEST_MAJOR
            && major.is_none_or(|major| major == binaries.major)
            && account.is_none_or(|account| account.first_closed(&binaries.directory).is_none())
    };
    if source != BinarySource::Fetched
        && let Some(found) =
            installed_directories().iter().filter_map(|directory| inspect(directory)).find(fits)
    {
        return Ok(found);
    }
    if source == BinarySource::Found {
        let wanted = major.map_or_else(|| format!("{OLDEST_MAJOR} or newer"), |major| major.to_string());
        return Err(PostgresError::NotInstalled { wanted });
    }
    if let Some(fetched) =
        fetched_directories(caches).iter().filter_map(|directory| inspect(directory)).find(fits)
    {
        return Ok(fetched);
    }
    let directory = fetch::fetch(major, account, caches).await?;
    inspect(&directory)
        .filter(fits)
        .ok_or_else(|| PostgresError::Fetch("the fetched programs do not run here".into()))
}

/// Returns the directories to search, in order of preference.
fn installed_directories() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> =
        std::env::split_paths(&path).filter(|directory| directory.is_absolute()).collect();
    directories.extend(newest_first(Path::new("/usr/lib/postgresql"), "", "bin"));
    directories.extend(newest_first(Path::new("/usr"), "pgsql-", "bin"));
    directories
}

/// Program directories of fetched versions, newest first.
fn fetched_directories(caches: &[PathBuf]) -> Vec<PathBuf> {
    caches.iter().flat_map(|cache| newest_first(cache, "", "bin")).collect()
}

/// The directories `parent/<prefix><version>/<inner>`, highest version first.
fn newest_first(parent: &Path, prefix: &str, inner: &str) -> Vec<PathBuf> {
    let mut versions: Vec<(Vec<u32>, PathBuf)> = std::fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version =
                name.strip_prefix(prefix)?.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
            Some((version, entry.path().join(inner)))
        })
        .collect();
    versions.sort_by(|left, right| right.cmp(left));
    versions.into_iter().map(|(_, directory)| directory).collect()
}

fn inspect(directory: &Path) -> Option<Binaries> {
    let postgres = directory.join("postgres");
    if !postgres.is_file() || !directory.join("initdb").is_file() {
        return None;
    }
    let output = Command::new(postgres).arg("--version").output().ok()?;
    let major = parse_major(&String::from_utf8_lossy(&output.stdout))?;
    Some(Binaries { directory: directory.to_owned(), major })
}

/// Returns the number in `postgres (PostgreSQL) 15.18 (Debian …)`, also of a beta such as `19beta1`.
fn parse_major(text: &str) -> Option<u32> {
    let version = text.strip_prefix("postgres (PostgreSQL) ")?;
    let end = version.find(|character: char| !character.is_ascii_digit()).unwrap_or(version.len());
    version[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_the_server_prints() {
        assert_eq!(parse_major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(parse_major("postgres (PostgreSQL) 19beta1\n"), Some(19));
        assert_eq!(parse_major("something else 15"), None);
    }

    #[test]
    fn directories_are_ordered_by_version_and_not_by_text() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["9.6", "15", "18.6.0", "18.10.0", "other"] {
            std::fs::create_dir(parent.path().join(name)).unwrap();
        }
        let names: Vec<PathBuf> = newest_first(parent.path(), "", "bin");
        let expected = ["18.10.0", "18.6.0", "15", "9.6"].map(|name| parent.path().join(name).join("bin"));
        assert_eq!(names, expected);
    }

    #[tokio::test]
    async fn version_that_is_not_installed_is_a_clear_error() {
        let error = obtain(BinarySource::Found, Some(3), None, &[]).await.unwrap_err();
        assert!(error.to_string().starts_with("no PostgreSQL 3 is installed"), "{error}");
    }
}
