//! Folders that go away with the test.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where root's databases live when the scratch folder lets nobody through.
const ELSEWHERE: &str = "/var/lib/evenkeel/databases";

/// A temporary folder that other accounts may pass through: what root starts for a test may run as another user.
#[derive(Debug)]
pub struct Scratch(Option<tempfile::TempDir>);

impl Scratch {
    /// A fresh folder.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("evenkeel-test-").tempdir().expect("a temporary folder");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711))
            .expect("its own mode");
        Self(Some(folder))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.as_ref().expect("the folder is there until it is kept").path()
    }

    /// A path inside it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file and answers its path.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, content).expect("a file in the scratch folder");
        path
    }

    /// Keeps the folder; whoever calls this removes it.
    pub fn keep(mut self) -> PathBuf {
        self.0.take().expect("the folder is there until it is kept").keep()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let Some(folder) = &self.0 else { return };
        for entry in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let Ok(target) = std::fs::read_to_string(entry.path().join("postgres-folder")) else { continue };
            let target = Path::new(target.trim_end());
            if target.parent() == Some(Path::new(ELSEWHERE)) {
                // A server that is still stopping may write into it once more; what stays does no harm.
                let _ = std::fs::remove_dir_all(target);
            }
        }
    }
}
