//! Directories that go away with the test.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Lines of each log that a test prints when it fails.
const SHOWN_LINES: usize = 20;

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

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, content).expect("a file in the scratch directory");
        path
    }

    /// Keeps the directory; the caller removes it.
    pub fn keep(mut self) -> PathBuf {
        self.0.take().expect("the directory is there until it is kept").keep()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(directory) = self.0.as_ref().filter(|_| std::thread::panicking()) {
            show_logs(directory.path());
        }
    }
}

/// Prints the ends of what the programs of a test wrote to standard error, which is gone with the directory.
fn show_logs(directory: &Path) {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    for log in files.filter(|path| path.extension().is_some_and(|extension| extension == "err")) {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        eprintln!("{}:", log.display());
        lines[lines.len().saturating_sub(SHOWN_LINES)..].iter().for_each(|line| eprintln!("  {line}"));
    }
}
