//! The folder that belongs to the embedded server: `postgres` in the data folder, owned by the server's account.
//!
//! Started by root, every folder above must let the server's account pass. Where one does not (a data folder under root's
//! own home), the server lives under `/var/lib/evenkeel/databases`, and the data folder names the place.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::account::Account;
use crate::files::{FileError, create_private_folder, write_private_file};

/// Where servers live that cannot live in their data folder.
const ELSEWHERE: &str = "/var/lib/evenkeel/databases";

/// The longest path of a socket's folder: the system's limit is 107 bytes with the socket's name.
const SOCKET_FOLDER_LIMIT: usize = 90;

/// The server's folder and account.
#[derive(Clone, Debug)]
pub struct Home {
    folder: PathBuf,
    account: Option<Account>,
}

impl Home {
    /// Chooses the folder of a data folder, and makes it when it is missing.
    ///
    /// # Errors
    /// When it cannot be made or given to the server's account.
    pub fn prepare(data_folder: &Path) -> Result<Self, FileError> {
        let usual = data_folder.join("postgres");
        let pointer = data_folder.join("postgres-folder");
        let outer = fs::metadata(data_folder).map_err(FileError::at("read", data_folder))?;
        let Some(account) = Account::for_folder(fs::metadata(&usual).as_ref().unwrap_or(&outer)) else {
            create_private_folder(&usual)?;
            return Ok(Self { folder: usual, account: None });
        };
        let folder = match fs::read_to_string(&pointer) {
            Ok(text) => PathBuf::from(text.trim_end_matches('\n')),
            Err(_) => choose(data_folder, usual, &pointer, account)?,
        };
        create_private_folder(&folder)?;
        own(&folder, account)?;
        Ok(Self { folder, account: Some(account) })
    }

    /// The server's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The account to run its programs as, when it is not this process's own.
    pub fn account(&self) -> Option<Account> {
        self.account
    }

    /// The folder of the database cluster.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The file with the password of the database user.
    pub fn password_file(&self) -> PathBuf {
        self.folder.join("password")
    }

    /// The server's log.
    pub fn log_file(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    /// Gives a file or folder of the home to the server's account.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn give(&self, path: &Path) -> Result<(), FileError> {
        self.account.map_or(Ok(()), |account| own(path, account))
    }

    /// Makes and answers the folder of the socket: in the home, or under the system's temporary folder when that path is too
    /// long for a socket.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn socket_folder(&self) -> Result<PathBuf, FileError> {
        let usual = self.folder.join("run");
        if usual.as_os_str().len() <= SOCKET_FOLDER_LIMIT {
            create_private_folder(&usual)?;
            self.give(&usual)?;
            return Ok(usual);
        }
        let pointer = self.folder.join("socket-folder");
        if let Ok(text) = fs::read_to_string(&pointer) {
            let folder = PathBuf::from(text);
            if self.is_private(&folder) {
                return Ok(folder);
            }
        }
        let folder = std::env::temp_dir().join(format!("evenkeel-{:016x}", rand::random::<u64>()));
        // A folder that somebody else made in the shared place would be an error here, never used.
        fs::create_dir(&folder).map_err(FileError::at("create the folder", &folder))?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))
            .map_err(FileError::at("protect", &folder))?;
        self.give(&folder)?;
        write_private_file(&pointer, folder.to_string_lossy().as_bytes())?;
        Ok(folder)
    }

    fn is_private(&self, folder: &Path) -> bool {
        let owner = self.account.map_or_else(|| nix::unistd::geteuid().as_raw(), |account| account.uid);
        fs::symlink_metadata(folder)
            .is_ok_and(|found| found.is_dir() && found.uid() == owner && found.mode() & 0o077 == 0)
    }
}

fn choose(
    data_folder: &Path,
    usual: PathBuf,
    pointer: &Path,
    account: Account,
) -> Result<PathBuf, FileError> {
    if usual.exists() || account.may_reach(data_folder) {
        return Ok(usual);
    }
    let all = Path::new(ELSEWHERE);
    fs::create_dir_all(all).map_err(FileError::at("create the folder", all))?;
    let folder = all.join(format!("{:016x}", rand::random::<u64>()));
    tracing::info!(
        postgres.folder = %folder.display(),
        "the database user may not enter the data folder: keeping the database elsewhere"
    );
    write_private_file(pointer, format!("{}\n", folder.display()).as_bytes())?;
    Ok(folder)
}

fn own(path: &Path, account: Account) -> Result<(), FileError> {
    chown(path, Some(account.uid), Some(account.gid)).map_err(FileError::at("change the owner of", path))
}
