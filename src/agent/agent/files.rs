//! Files that survive a crash at any moment: written to a temporary file, flushed, then renamed.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use evenkeel_runtime::files::{
    FileError, FileLock, close_to_others, create_private_directory, holds_nothing_else,
};

/// Replaces a file atomically: afterwards it holds either the old or the new content.
///
/// # Errors
/// [`FileError`] when the content cannot be written or flushed.
pub fn write_atomic(path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let aside = PathBuf::from(aside);
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(mode).open(&aside)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&aside, path)?;
        match path.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => File::open(directory)?.sync_all(),
            _ => Ok(()),
        }
    };
    write().map_err(FileError::at("write", path))
}

/// Replaces a file like [`write_atomic`], without waiting for the disk: for content that is meaningless after a crash of the machine.
///
/// # Errors
/// [`FileError`] when the content cannot be written.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        let options = options.create(true).write(true).truncate(true).mode(mode);
        options.open(&aside)?.write_all(content)?;
        fs::rename(&aside, path)
    };
    write().map_err(FileError::at("write", path))
}

/// Returns the text of a file; `None` if there is none.
///
/// # Errors
/// [`FileError`] when it exists but cannot be read.
pub fn read_optional(path: &Path) -> Result<Option<String>, FileError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::new("read", path, error)),
    }
}

/// Removes a file; it is not an error if the file does not exist.
///
/// # Errors
/// [`FileError`] when it exists and cannot be removed.
pub fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FileError::new("remove", path, error)),
        _ => Ok(()),
    }
}

/// Creates the data directory when it is missing, locks it for this process until dropped, and closes it to other accounts; `None` when
/// another process holds it.
///
/// # Errors
/// [`FileError`] when it cannot be created, locked or closed.
pub fn open_data_directory(directory: &Path) -> Result<Option<FileLock>, FileError> {
    create_private_directory(directory)?;
    let is_own = holds_nothing_else(directory)?;
    let lock = lock_directory(directory)?;
    if lock.is_some() {
        close_to_others(directory, is_own)?;
    }
    Ok(lock)
}

/// Locks a directory for this process until dropped; `None` when another process holds it.
///
/// # Errors
/// [`FileError`] when the lock file cannot be created.
fn lock_directory(directory: &Path) -> Result<Option<FileLock>, FileError> {
    lock_file(&directory.join("lock"))
}

/// Locks a file for this process until dropped; `None` when another process holds it.
///
/// # Errors
/// [`FileError`] when the file cannot be created.
pub fn lock_file(path: &Path) -> Result<Option<FileLock>, FileError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(FileError::at("open", path))?;
    match FileLock::acquire(&file) {
        Ok(lock) => Ok(Some(lock)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(FileError::new("lock", path, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_replaced_as_a_whole_with_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        assert_eq!(read_optional(&path).unwrap(), None);
        write_atomic(&path, b"one", 0o600).unwrap();
        write_atomic(&path, b"two", 0o600).unwrap();
        assert_eq!(read_optional(&path).unwrap().as_deref(), Some("two"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn data_directory_is_closed_to_others() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("agent");
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(open_data_directory(&directory).unwrap().is_some());
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn directory_is_locked_by_one_process_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let held = lock_directory(directory.path()).unwrap();
        assert!(held.is_some());
        assert!(lock_directory(directory.path()).unwrap().is_none());
        drop(held);
        assert!(lock_directory(directory.path()).unwrap().is_some());
    }
}
