//! The socket of a guardian: a file in the data directory that only its owner can use.

use std::{
    fs::{self, File, Permissions},
    io,
    os::{fd::AsRawFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
};

use tokio::net::{UnixListener, UnixStream};

const NAME: &str = "guardian.sock";

/// A short path of the socket, regardless of that of the directory, because the system limits it to about a hundred bytes.
struct ShortPath {
    /// Open as long as the path is used.
    _directory: File,
    path: PathBuf,
}

impl ShortPath {
    fn of(directory: &Path) -> io::Result<Self> {
        let open = File::open(directory)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd())).join(NAME);
        Ok(Self { _directory: open, path })
    }
}

/// Listens. The caller holds the lock of the guardian, so an existing socket is stale.
pub(super) fn listen(directory: &Path) -> io::Result<UnixListener> {
    let short = ShortPath::of(directory)?;
    match fs::remove_file(&short.path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&short.path)?;
    fs::set_permissions(&short.path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Connects to the guardian of a data directory.
pub(super) async fn connect(directory: &Path) -> io::Result<UnixStream> {
    let short = ShortPath::of(directory)?;
    UnixStream::connect(&short.path).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn socket_works_in_a_directory_with_a_long_name_and_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let long = directory.path().join("x".repeat(120));
        fs::create_dir(&long).unwrap();
        assert!(connect(&long).await.is_err());
        let listener = listen(&long).unwrap();
        let mode = fs::metadata(long.join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (connected, accepted) = tokio::join!(connect(&long), listener.accept());
        assert!(connected.is_ok() && accepted.is_ok());
        drop(listener);
        assert!(listen(&long).is_ok(), "a socket that was left is replaced");
    }
}
