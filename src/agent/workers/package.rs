//! Agent packages: one folder per version, and a link to the one in use that is swapped in one step.
//!
//! The source folder holds `<manifest>.json` files and a folder per version. Without a source the version's folder is
//! made empty: then the package step only records which version the node is meant to run.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde::Deserialize;

/// A package cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum PackageError {
    /// The manifest cannot be used.
    #[error("manifest {0} cannot be used: {1}")]
    Manifest(String, String),
    /// The version is no plain name.
    #[error("\"{0}\" is no usable version")]
    Version(String),
    /// The source has no such version.
    #[error("the source has no version {0}")]
    Missing(String),
    /// A file cannot be copied or linked.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    software_upgrade: Option<Section>,
}

#[derive(Deserialize)]
struct Section {
    version: String,
}

/// The version that a manifest asks for; `latest` when there is no source to look into.
pub(super) fn wanted_version(source: Option<&Path>, manifest: &str) -> Result<String, PackageError> {
    let Some(source) = source else { return Ok("latest".to_owned()) };
    let name = manifest.rsplit('/').next().unwrap_or_default();
    let broken = |reason: String| PackageError::Manifest(manifest.to_owned(), reason);
    check_name(name).map_err(|_| broken("its name is not plain".to_owned()))?;
    let text =
        fs::read_to_string(source.join(format!("{name}.json"))).map_err(|error| broken(error.to_string()))?;
    let manifest: Manifest = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
    manifest
        .software_upgrade
        .map(|section| section.version)
        .ok_or_else(|| broken("it upgrades no software".to_owned()))
}

/// Copies a version's files next to those in use; a half copy of an earlier attempt is thrown away.
pub(super) fn fetch(source: Option<&Path>, data_dir: &Path, version: &str) -> Result<(), PackageError> {
    check_name(version)?;
    let target = data_dir.join("packages").join(version);
    let partial = data_dir.join("packages").join(format!("{version}.partial"));
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| PackageError::File { path, source }
    };
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(at(&partial))?;
    }
    fs::create_dir_all(&partial).map_err(at(&partial))?;
    if let Some(source) = source {
        let from = source.join(version);
        if !from.is_dir() {
            return Err(PackageError::Missing(version.to_owned()));
        }
        copy_folder(&from, &partial).map_err(at(&from))?;
    }
    if target.exists() {
        fs::remove_dir_all(&target).map_err(at(&target))?;
    }
    fs::rename(&partial, &target).map_err(at(&target))
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            fs::create_dir_all(&target)?;
            copy_folder(&entry.path(), &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Makes a fetched version the one in use, in one step: the link is made aside and put in place.
pub(super) fn activate(data_dir: &Path, version: &str) -> Result<(), PackageError> {
    check_name(version)?;
    let packages = data_dir.join("packages");
    if !packages.join(version).is_dir() {
        return Err(PackageError::Missing(version.to_owned()));
    }
    let (aside, link) = (packages.join("current.new"), packages.join("current"));
    let at = |source| PackageError::File { path: link.clone(), source };
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(error)),
        _ => {}
    }
    symlink(version, &aside).map_err(at)?;
    fs::rename(&aside, &link).map_err(at)
}

fn check_name(name: &str) -> Result<(), PackageError> {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_' | '+');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
        return Err(PackageError::Version(name.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_copied_and_swapped_in() {
        let source = tempfile::tempdir().unwrap();
        let data = tempfile::tempdir().unwrap();
        fs::write(source.path().join("m.json"), r#"{"softwareUpgrade":{"version":"2.32.0","files":["*"]}}"#)
            .unwrap();
        fs::create_dir_all(source.path().join("2.32.0/sub")).unwrap();
        fs::write(source.path().join("2.32.0/sub/agent"), "new").unwrap();
        assert_eq!(wanted_version(Some(source.path()), "acme/m").unwrap(), "2.32.0");
        for _ in 0..2 {
            fetch(Some(source.path()), data.path(), "2.32.0").unwrap();
            activate(data.path(), "2.32.0").unwrap();
        }
        assert_eq!(fs::read_to_string(data.path().join("packages/current/sub/agent")).unwrap(), "new");
        assert!(matches!(fetch(Some(source.path()), data.path(), "9.9.9"), Err(PackageError::Missing(_))));
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        let data = tempfile::tempdir().unwrap();
        assert!(matches!(fetch(None, data.path(), "../x"), Err(PackageError::Version(_))));
        assert!(wanted_version(Some(data.path()), "..").is_err());
    }
}
