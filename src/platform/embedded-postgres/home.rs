//! The directory that belongs to the embedded server: `postgres` in the data directory, owned by the server's account.
//!
//! If root starts the server, the server's account must be able to traverse every parent directory; otherwise nothing is started. Earlier
//! versions kept such a database elsewhere and wrote its path to the data directory, where it is still found.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};

use super::account::Account;
use evenkeel_runtime::files::{FileError, create_private_directory, write_private_file};

/// The longest path of a socket's directory: the limit of the system is 107 bytes including the name of the socket.
const SOCKET_DIRECTORY_LIMIT: usize = 90;

/// The server's directory and account.
#[derive(Clone, Debug)]
pub struct Home {
    directory: PathBuf,
    account: Option<Account>,
}

impl Home {
    /// Chooses the directory of a data directory, and creates it when it is missing.
    ///
    /// # Errors
    /// When it cannot be created or given to the server's account, or that account may not enter it.
    pub fn prepare(data_directory: &Path) -> Result<Self, FileError> {
        let usual = data_directory.join("postgres");
        let pointer = data_directory.join("postgres-folder");
        let outer = fs::metadata(data_directory).map_err(FileError::at("read", data_directory))?;
        let Some(account) = Account::for_directory(fs::metadata(&usual).as_ref().unwrap_or(&outer)) else {
            create_private_directory(&usual)?;
            return Ok(Self { directory: usual, account: None });
        };
        let directory = match fs::read_to_string(&pointer) {
            Ok(text) => PathBuf::from(text.trim_end_matches('\n')),
            Err(_) => reachable(data_directory, usual, account)?,
        };
        create_private_directory(&directory)?;
        own(&directory, account)?;
        Ok(Self { directory, account: Some(account) })
    }

    /// The server's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The account to run its programs as, if it differs from that of this process.
    pub fn account(&self) -> Option<Account> {
        self.account
    }

    /// The directory of the database cluster.
    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The file with the password of the database user.
    pub fn password_file(&self) -> PathBuf {
        self.directory.join("password")
    }

    /// The server's log.
    pub fn log_file(&self) -> PathBuf {
        self.directory.join("server.log")
    }

    /// Changes the owner of a file or directory of the home to the server's account.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn give(&self, path: &Path) -> Result<(), FileError> {
        self.account.map_or(Ok(()), |account| own(path, account))
    }

    /// Creates and returns the directory of the socket: in the home, or under the system's temporary directory when that path is too
    /// long for a socket.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn socket_directory(&self) -> Result<PathBuf, FileError> {
        let usual = self.directory.join("run");
        if usual.as_os_str().len() <= SOCKET_DIRECTORY_LIMIT {
            create_private_directory(&usual)?;
            self.give(&usual)?;
            return Ok(usual);
        }
        let pointer = self.directory.join("socket-folder");
        if let Ok(text) = fs::read_to_string(&pointer) {
            let directory = PathBuf::from(text);
            if self.is_private(&directory) {
                return Ok(directory);
            }
        }
        let directory = std::env::temp_dir().join(format!("evenkeel-{:016x}", rand::random::<u64>()));
        // A directory that another account has created in the shared location is an error; it is never used.
        fs::create_dir(&directory).map_err(FileError::at("create the directory", &directory))?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700))
            .map_err(FileError::at("protect", &directory))?;
        self.give(&directory)?;
        write_private_file(&pointer, directory.to_string_lossy().as_bytes())?;
        Ok(directory)
    }

    fn is_private(&self, directory: &Path) -> bool {
        let owner = self.account.map_or_else(|| nix::unistd::geteuid().as_raw(), |account| account.uid);
        fs::symlink_metadata(directory)
            .is_ok_and(|found| found.is_dir() && found.uid() == owner && found.mode() & 0o077 == 0)
    }
}

/// Returns the default directory, and lets the server's account traverse private parent directories of root: the data
/// directory for its group only. Root's home directory is not changed.
fn reachable(data_directory: &Path, usual: PathBuf, account: Account) -> Result<PathBuf, FileError> {
    let root_home = User::from_uid(Uid::from_raw(0)).ok().flatten().map(|root| root.dir);
    if account.first_closed(data_directory) == Some(data_directory)
        && root_home.as_deref() != Some(data_directory)
    {
        let_group_pass(data_directory, account)?;
    }
    while let Some(closed) = account.first_closed(data_directory) {
        let found = fs::metadata(closed).map_err(FileError::at("read", closed))?;
        let is_open = found.mode() & 0o011 == 0o011;
        if found.uid() != 0 || is_open || root_home.as_deref() == Some(closed) {
            return Err(FileError::new("keep a database below", closed, refusal(account)));
        }
        tracing::info!(directory = %closed.display(), "permitting the database account to traverse");
        fs::set_permissions(closed, fs::Permissions::from_mode(found.mode() & 0o7777 | 0o011))
            .map_err(FileError::at("make traversable", closed))?;
    }
    Ok(usual)
}

/// Permits the account's group, and no other account, to traverse a directory of root.
fn let_group_pass(directory: &Path, account: Account) -> Result<(), FileError> {
    let found = fs::metadata(directory).map_err(FileError::at("read", directory))?;
    if found.uid() != 0 {
        return Ok(());
    }
    chown(directory, None, Some(account.gid)).map_err(FileError::at("change the group of", directory))?;
    let mode = fs::Permissions::from_mode(found.mode() & 0o7700 | 0o010);
    fs::set_permissions(directory, mode).map_err(FileError::at("make traversable", directory))
}

fn refusal(account: Account) -> std::io::Error {
    let why = format!(
        "PostgreSQL does not run as root, and the account {} that it runs as may not pass; choose another data directory, \
         allow it with chmod o+x, or name a database with --database-url",
        account.name()
    );
    std::io::Error::new(std::io::ErrorKind::PermissionDenied, why)
}

fn own(path: &Path, account: Account) -> Result<(), FileError> {
    chown(path, Some(account.uid), Some(account.gid)).map_err(FileError::at("change the owner of", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_is_never_kept_outside_of_the_data_directory() {
        if !nix::unistd::geteuid().is_root() {
            // Only root starts the server as another account.
            return;
        }
        let private = tempfile::tempdir().expect("a directory");
        let data = private.path().join("hub");
        fs::create_dir(&data).expect("a directory");
        for directory in [private.path(), &data] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).expect("its mode");
        }
        assert_eq!(Home::prepare(&data).expect("a way is made").directory(), data.join("postgres"));
        assert!(!data.join("postgres-folder").exists());
        let found = fs::metadata(&data).expect("its mode");
        let account = Account::for_directory(&found).expect("an account");
        assert_eq!((found.mode() & 0o777, found.gid()), (0o710, account.gid), "only the database passes");
        chown(private.path(), Some(54321), Some(54321)).expect("its owner");
        fs::set_permissions(private.path(), fs::Permissions::from_mode(0o700)).expect("its mode");
        let error = Home::prepare(&data).expect_err("it belongs to another account");
        assert!(error.to_string().contains(&private.path().display().to_string()), "{error}");
    }
}
