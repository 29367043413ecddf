//! A small file system of its own, which a test can fill.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::wait::must;

/// A file system in memory, mounted on a directory until dropped.
pub struct Disk {
    directory: PathBuf,
}

impl Disk {
    /// Mounts one of this size on a new directory. Returns `None`, and says so, where mounting is not permitted.
    pub fn mount(directory: PathBuf, megabytes: u32) -> Option<Self> {
        must(std::fs::create_dir(&directory), "a directory");
        let options = format!("size={megabytes}m,mode=0711");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&directory).output();
        let why = match mounted {
            Ok(output) if output.status.success() => return Some(Self { directory }),
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        eprintln!("skipped, because no file system can be mounted here: {why}");
        None
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Uses all space that is left.
    pub fn fill(&self) {
        let mut file = must(File::create(self.filler()), "a file");
        for size in [1 << 20, 1 << 12, 1] {
            let block = vec![0; size];
            loop {
                match file.write(&block) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("filling the disk: {error}"),
                }
            }
        }
    }

    /// Frees that space again.
    pub fn free(&self) {
        must(std::fs::remove_file(self.filler()), "removing a file");
    }

    fn filler(&self) -> PathBuf {
        self.directory.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: what still uses it lets it go when it ends.
        let _unmounted = Command::new("umount").arg("-l").arg(&self.directory).status();
    }
}
