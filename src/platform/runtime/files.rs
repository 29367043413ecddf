//! Files and directories with the right owner and mode: the data directory with its lock, secrets of mode 0600, atomic writes.
//!
//! Secrets go to files, never to the terminal or the log (design, section 2).

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::exit::ExitStatus;
use crate::settings::Secret;

/// Maximum size of a secret file; a larger file is not a secret.
const SECRET_LIMIT: u64 = 64 * 1024;

/// A file or directory could not be used.
#[derive(Debug, Error)]
#[error("cannot {action} {}", path.display())]
pub struct FileError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    /// An error of `action` (a verb such as `read`) on `path`.
    #[must_use]
    pub fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self { action, path: path.to_owned(), source }
    }

    /// A closure for `map_err`.
    pub fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::new(action, path, source)
    }
}

/// A data directory could not be opened.
#[derive(Debug, Error)]
pub enum DataDirectoryError {
    /// It cannot be created, read or written.
    #[error("the data directory cannot be used")]
    Unusable(#[from] FileError),
    /// Another process holds it.
    #[error("the data directory {} is in use by another process{}", path.display(), holder(.process.as_deref()))]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The id that the other process left in the lock file.
        process: Option<String>,
    },
}

fn holder(process: Option<&str>) -> String {
    process.map(|id| format!(" (process {id})")).unwrap_or_default()
}

impl DataDirectoryError {
    /// The status to end the process with.
    #[must_use]
    pub fn exit_status(&self) -> ExitStatus {
        match self {
            Self::Unusable(_) => ExitStatus::DataDirectory,
            Self::Locked { .. } => ExitStatus::DataDirectoryLocked,
        }
    }
}

/// A role's directory, held exclusively while this value lives.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    // The lock is also released when the process ends, however it ends.
    _lock: FileLock,
}

impl DataDirectory {
    /// Creates the directory when it is missing and locks it.
    ///
    /// # Errors
    /// [`DataDirectoryError::Locked`] when another process has it, [`DataDirectoryError::Unusable`] for anything else.
    pub fn open(path: &Path) -> Result<Self, DataDirectoryError> {
        create_parents(path)?;
        create_private_directory(path)?;
        let path = fs::canonicalize(path).map_err(FileError::at("find", path))?;
        let is_own = holds_nothing_else(&path)?;
        let lock = lock(&path)?;
        close_to_others(&path, is_own)?;
        Ok(Self { path, _lock: lock })
    }

    /// The directory's absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Creates the missing directories above a data directory. Those created by root let other accounts pass, because the
/// embedded database runs as another one.
fn create_parents(path: &Path) -> Result<(), FileError> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(()) };
    let mode = if nix::unistd::geteuid().is_root() { 0o711 } else { 0o700 };
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(parent)
        .map_err(FileError::at("create the directory", parent))
}

/// Returns whether a directory is used only by a role: it is empty, or has been locked by one before.
///
/// # Errors
/// When it cannot be read.
pub fn holds_nothing_else(directory: &Path) -> Result<bool, FileError> {
    let is_empty = fs::read_dir(directory).map_err(FileError::at("read", directory))?.next().is_none();
    Ok(is_empty || directory.join("lock").exists())
}

/// Sets the mode of a directory that the caller has locked to 0700. A directory that belongs to another account, or
/// contains other files according to `is_own`, keeps its mode, with a line in the log.
///
/// # Errors
/// When its mode cannot be read or changed.
pub fn close_to_others(directory: &Path, is_own: bool) -> Result<(), FileError> {
    let found = fs::metadata(directory).map_err(FileError::at("read", directory))?;
    if found.mode() & 0o077 == 0 {
        return Ok(());
    }
    if !is_own || found.uid() != nix::unistd::geteuid().as_raw() {
        tracing::warn!(
            directory = %directory.display(),
            mode = format!("{:04o}", found.mode() & 0o7777),
            "other accounts may enter the data directory; its mode is not changed, because it is not used by this program alone: run chmod 700"
        );
        return Ok(());
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
        .map_err(FileError::at("protect", directory))
}

fn lock(directory: &Path) -> Result<FileLock, DataDirectoryError> {
    let path = directory.join("lock");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(FileError::at("open", &path))?;
    let lock = match FileLock::acquire(&file) {
        Ok(lock) => lock,
        Err(TryLockError::WouldBlock) => {
            let mut process = String::new();
            // Only for the message; an unreadable lock file still means that another process holds the lock.
            let _ = file.take(32).read_to_string(&mut process);
            let process = Some(process.trim().to_owned()).filter(|id| !id.is_empty());
            return Err(DataDirectoryError::Locked { path: directory.to_owned(), process });
        }
        Err(TryLockError::Error(error)) => return Err(FileError::new("lock", &path, error).into()),
    };
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(FileError::at("write", &path))?;
    Ok(lock)
}

/// The lock of a file, held until it is dropped.
///
/// Closing the file would not be enough: until a child process that is being started executes its program, it has copies of
/// all open files, and the file would stay locked.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Locks a file without waiting.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] when another process or another lock of this one holds it.
    pub fn acquire(file: &File) -> Result<Self, TryLockError> {
        file.try_lock()?;
        file.try_clone().map(Self).map_err(TryLockError::Error)
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // If this fails, closing the last copy of the file releases the lock.
        let _ = self.0.unlock();
    }
}

/// Creates a directory of mode 0700 with its parents; an existing one is kept.
///
/// # Errors
/// When it cannot be created, or its name is taken.
pub fn create_private_directory(path: &Path) -> Result<(), FileError> {
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(error) => Err(FileError::new("create the directory", path, error)),
    }
}

/// Returns the default directory of state: `$XDG_STATE_HOME` or `~/.local/state`, and `/var/lib` for root, whose own
/// directories the unprivileged database user could not enter. `None` for a user without a home.
#[must_use]
pub fn default_state_directory() -> Option<PathBuf> {
    let is_root = nix::unistd::geteuid().is_root();
    state_directory(is_root, std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))
}

fn state_directory(is_root: bool, state: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
    match (absolute(state), absolute(home)) {
        (Some(state), _) => Some(state.join("evenkeel")),
        (None, _) if is_root => Some(PathBuf::from("/var/lib/evenkeel")),
        (None, home) => home.map(|home| home.join(".local/state/evenkeel")),
    }
}

/// Replaces `path` with `content`, mode 0600, atomically, even in case of a power failure.
///
/// # Errors
/// When the directory or file cannot be written.
pub fn write_private_file(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let partial = path.with_extension(format!("{:016x}.partial", rand::random::<u64>()));
    let written = write_new(&partial, content).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        // The partial file is useless; the first error is the relevant one.
        let _ = fs::remove_file(&partial);
    }
    written.and_then(|()| File::open(directory)?.sync_all()).map_err(FileError::at("write", path))
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Reads a secret from a file, without the line end that editors add.
///
/// # Errors
/// When the file cannot be read, is empty, is not UTF-8 or is too large.
pub fn read_secret(path: &Path) -> Result<Secret<String>, FileError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(SECRET_LIMIT + 1).read_to_string(&mut text));
    let length = read.map_err(FileError::at("read the secret in", path))?;
    let problem = |text: &str| FileError::new("use the secret in", path, io::Error::other(text.to_owned()));
    if length as u64 > SECRET_LIMIT {
        return Err(problem("the file is too large for a secret"));
    }
    let secret = text.trim_end_matches(['\n', '\r']);
    if secret.is_empty() {
        return Err(problem("the file is empty"));
    }
    Ok(Secret::new(secret.to_owned()))
}

/// Reads the secret in `path`; creates one of 256 random bits (hexadecimal) when there is no such file.
///
/// # Errors
/// When the file can neither be read nor created.
pub fn read_or_make_secret(path: &Path) -> Result<Secret<String>, FileError> {
    if path.try_exists().map_err(FileError::at("find", path))? {
        return read_secret(path);
    }
    let secret = random_secret();
    write_private_file(path, format!("{}\n", secret.expose()).as_bytes())?;
    Ok(secret)
}

/// 256 random bits as 64 hexadecimal characters.
#[must_use]
pub fn random_secret() -> Secret<String> {
    use std::fmt::Write as _;
    rand::random::<[u8; 32]>()
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn second_owner_of_a_data_directory_is_refused_with_the_first_ones_process() {
        let directory = scratch();
        let first = DataDirectory::open(directory.path()).unwrap();
        let error = DataDirectory::open(directory.path()).unwrap_err();
        assert_eq!(error.exit_status(), ExitStatus::DataDirectoryLocked);
        assert!(error.to_string().contains(&format!("(process {})", std::process::id())), "{error}");
        drop(first);
        DataDirectory::open(directory.path()).unwrap();
    }

    #[test]
    fn data_directory_is_closed_to_others_unless_it_holds_other_files() {
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let give =
            |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let directory = scratch();
        let made = directory.path().join("made");
        drop(DataDirectory::open(&made).unwrap());
        assert_eq!(mode(&made), 0o700);
        let empty = directory.path().join("empty");
        fs::create_dir(&empty).unwrap();
        for widened in [0o755, 0o777, 0o711, 0o750] {
            give(&empty, widened);
            drop(DataDirectory::open(&empty).unwrap());
            assert_eq!(mode(&empty), 0o700, "after {widened:o}");
        }
        let held = DataDirectory::open(&empty).unwrap();
        give(&empty, 0o710);
        DataDirectory::open(&empty).unwrap_err();
        assert_eq!(mode(&empty), 0o710, "that of a running process is left alone");
        drop(held);
        let shared = directory.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::write(shared.join("of others"), "").unwrap();
        give(&shared, 0o755);
        drop(DataDirectory::open(&shared).unwrap());
        assert_eq!(mode(&shared), 0o755);
    }

    #[test]
    fn file_instead_of_the_data_directory_is_a_clear_error() {
        let directory = scratch();
        let path = directory.path().join("taken");
        fs::write(&path, "x").unwrap();
        let error = DataDirectory::open(&path).unwrap_err();
        assert_eq!(error.exit_status(), ExitStatus::DataDirectory);
        assert!(evenkeel_domain::causes::chain(&error).contains("taken"), "{error}");
    }

    #[test]
    fn made_secret_is_private_and_stays_the_same() {
        let directory = scratch();
        let path = directory.path().join("root-password");
        let made = read_or_make_secret(&path).unwrap();
        assert_eq!(made.expose().len(), 64);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_or_make_secret(&path).unwrap().expose(), made.expose());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no partial file stays");
    }

    #[test]
    fn secret_loses_only_its_line_end() {
        let directory = scratch();
        let path = directory.path().join("secret");
        fs::write(&path, " with spaces \r\n").unwrap();
        assert_eq!(read_secret(&path).unwrap().expose(), " with spaces ");
        fs::write(&path, "\n").unwrap();
        assert!(
            evenkeel_domain::causes::chain(&read_secret(&path).unwrap_err()).ends_with("the file is empty")
        );
    }

    #[test]
    fn state_directory_follows_the_environment_and_never_root_home() {
        let text = |value: &str| Some(OsString::from(value));
        let directory = |is_root, state, home| {
            state_directory(is_root, state, home).map(|path| path.display().to_string())
        };
        assert_eq!(directory(false, text("/s"), text("/h")).as_deref(), Some("/s/evenkeel"));
        assert_eq!(directory(false, None, text("/h")).as_deref(), Some("/h/.local/state/evenkeel"));
        assert_eq!(directory(true, None, text("/root")).as_deref(), Some("/var/lib/evenkeel"));
        assert_eq!(
            directory(false, text("relative"), text("/h")).as_deref(),
            Some("/h/.local/state/evenkeel")
        );
        assert_eq!(directory(false, None, None), None);
    }

    /// Like the copy of a child process that is being started.
    #[test]
    fn lock_ends_when_it_is_dropped_although_the_file_is_open_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let open = || OpenOptions::new().create(true).truncate(false).write(true).open(&path).unwrap();
        let copy = open();
        let lock = FileLock::acquire(&copy).unwrap();
        assert!(matches!(FileLock::acquire(&open()), Err(TryLockError::WouldBlock)));
        drop(lock);
        assert!(FileLock::acquire(&open()).is_ok());
        drop(copy);
    }
}
