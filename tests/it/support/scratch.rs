//! Directories that go away with the test.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A temporary directory that other accounts may pass through: what root starts for a test may run as another user.
#[derive(Debug)]
pub struct Scratch(Option<tempfile::TempDir>);

impl Scratch {
    /// A fresh directory.
    pub fn new() -> Self {
        let directory =
            tempfile::Builder::new().prefix("evenkeel-test-").tempdir().expect("a temporary directory");
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o711))
            .expect("its own mode");
        Self(Some(directory))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.0.as_ref().expect("the directory is there until it is kept").path()
    }

    /// A path inside it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file and answers its path.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, content).expect("a file in the scratch directory");
        path
    }

    /// Keeps the directory; whoever calls this removes it.
    pub fn keep(mut self) -> PathBuf {
        self.0.take().expect("the directory is there until it is kept").keep()
    }
}
