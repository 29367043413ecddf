//! Secrets of the hub's own agbot: files of the data directory, and the same in every hub that shares the database.
//!
//! Hubs on one database run the same agbot together; with secrets of their own they would shut each other out.

use evenkeel_exchange_store::secret;
use evenkeel_runtime::files::{DataDirectory, FileError, read_secret, write_private_file};
use evenkeel_runtime::{ExitStatus, Failure, Secret};
use evenkeel_store::{Database, StoreError};

use super::hub::no_database;

/// Returns the secret called `name` in the database and `file` in the directory. The database takes precedence over the
/// file; if neither has it, `make` creates it.
pub async fn agree(
    directory: &DataDirectory,
    database: &Database,
    (name, file): (&str, &str),
    make: impl FnOnce() -> Result<String, Failure>,
) -> Result<Secret<String>, Failure> {
    let path = directory.path().join(file);
    let is_there = path.try_exists().map_err(|error| unusable(&FileError::new("find", &path, error)))?;
    let own = if is_there {
        read_secret(&path).map_err(|error| unusable(&error))?.expose().clone()
    } else {
        make()?
    };
    let agreed = database
        .read(async |connection| secret::get_or_insert(connection, name, own.trim_end().as_bytes()).await)
        .await;
    let agreed = String::from_utf8(agreed.map_err(|error| no_database(&error))?)
        .map_err(|_| no_database(&StoreError::Corrupt { table: "exchange_secret", column: "value" }))?;
    if !is_there || agreed != own {
        write_private_file(&path, format!("{agreed}\n").as_bytes()).map_err(|error| unusable(&error))?;
    }
    Ok(agreed.into())
}

fn unusable(error: &FileError) -> Failure {
    Failure::from_error(ExitStatus::DataDirectory, error)
}
