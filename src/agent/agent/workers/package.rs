//! Agent packages: one directory per version, with a program for each kind of machine.
//!
//! The source holds `<manifest>.json` files and a directory per version. A directory may hold `SHA256SUMS` for its files, and
//! `SHA256SUMS.sig`, a signature of that list: both are verified when they exist, and must exist where the agent trusts any key.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use evenkeel_wire::signature;
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// The reason why a package cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum PackageError {
    /// There is no package source.
    #[error("no package source is configured: start the agent with --upgrade-source")]
    NoSource,
    /// The manifest is invalid.
    #[error("manifest {0} cannot be used: {1}")]
    Manifest(String, String),
    /// The version is not a plain name.
    #[error("\"{0}\" is not a usable version")]
    Version(String),
    /// The source has no such version.
    #[error("the source has no version {0}")]
    Missing(String),
    /// The package has no program for this machine.
    #[error("the package of version {version} holds no program for this machine: {program} is missing")]
    NoProgram {
        /// The version.
        version: String,
        /// Name of the program for this kind of machine.
        program: String,
    },
    /// A file does not match the publisher's list or signature.
    #[error("{0}")]
    Unverified(String),
    /// A file cannot be copied.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
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
    #[serde(default)]
    files: Vec<String>,
}

const SUMS: &str = "SHA256SUMS";
const SUMS_SIGNATURE: &str = "SHA256SUMS.sig";

/// Name of the program for machines of this architecture (Go's name).
pub(super) fn program_name(arch: &str) -> String {
    format!("evenkeel-linux-{arch}")
}

/// Reads the version that a manifest requests.
///
/// # Errors
/// [`PackageError`] when there is no source, or when the manifest does not list the program for this kind of machine.
pub(super) fn wanted_version(
    source: Option<&Path>,
    manifest: &str,
    arch: &str,
) -> Result<String, PackageError> {
    let source = source.ok_or(PackageError::NoSource)?;
    let name = manifest.rsplit('/').next().unwrap_or_default();
    let broken = |reason: String| PackageError::Manifest(manifest.to_owned(), reason);
    check_name(name).map_err(|_| broken("its name has characters that are not allowed".to_owned()))?;
    let text =
        fs::read_to_string(source.join(format!("{name}.json"))).map_err(|error| broken(error.to_string()))?;
    let manifest: Manifest = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
    let section = manifest.software_upgrade.ok_or_else(|| broken("it upgrades no software".to_owned()))?;
    let program = program_name(arch);
    if section.files.iter().any(|file| file == "*" || *file == program) {
        Ok(section.version)
    } else {
        Err(broken(format!("it does not list {program}")))
    }
}

/// Copies a version's files next to those in use and verifies them; a partial copy of an earlier attempt is removed. Returns the
/// program for this kind of machine.
pub(super) fn fetch(
    source: Option<&Path>,
    data_dir: &Path,
    version: &str,
    arch: &str,
    keys: &[String],
    now: u64,
) -> Result<(), PackageError> {
    check_name(version)?;
    let from = source.ok_or(PackageError::NoSource)?.join(version);
    if !from.is_dir() {
        return Err(PackageError::Missing(version.to_owned()));
    }
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
    install_files(&from, &partial).map_err(at(&from))?;
    verify(&partial, keys, now)?;
    let name = program_name(arch);
    let program = partial.join(&name);
    if !program.is_file() {
        return Err(PackageError::NoProgram { version: version.to_owned(), program: name });
    }
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).map_err(at(&program))?;
    // After a power failure, either the complete package or none must exist.
    sync_all(&partial).map_err(at(&partial))?;
    if target.exists() {
        fs::remove_dir_all(&target).map_err(at(&target))?;
    }
    fs::rename(&partial, &target).map_err(at(&target))?;
    let packages = data_dir.join("packages");
    fs::File::open(&packages).and_then(|directory| directory.sync_all()).map_err(at(&packages))
}

/// Flushes the files of a directory, and the directory itself, to the disk.
fn sync_all(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        fs::File::open(entry?.path())?.sync_all()?;
    }
    fs::File::open(directory)?.sync_all()
}

/// The program of a fetched version.
pub(super) fn program(data_dir: &Path, version: &str, arch: &str) -> PathBuf {
    data_dir.join("packages").join(version).join(program_name(arch))
}

fn install_files(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Verifies the files against their list, and the list against its signature.
fn verify(directory: &Path, keys: &[String], now: u64) -> Result<(), PackageError> {
    let unverified = |text: String| Err(PackageError::Unverified(text));
    let read = |name: &str| match fs::read(directory.join(name)) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(PackageError::File { path: directory.join(name), source }),
    };
    let signature = read(SUMS_SIGNATURE)?.map(|text| String::from_utf8_lossy(&text).trim().to_owned());
    if signature.is_none() && !keys.is_empty() {
        return unverified(format!(
            "the package has no {SUMS_SIGNATURE}, which an agent with trusted keys needs"
        ));
    }
    let Some(sums) = read(SUMS)? else {
        return match signature {
            Some(_) => unverified(format!("{SUMS_SIGNATURE} is there without {SUMS}")),
            None => Ok(()),
        };
    };
    let sums = String::from_utf8_lossy(&sums).into_owned();
    if signature.is_some_and(|signature| !signature::is_accepted(&sums, &signature, keys, now)) {
        return unverified(format!("no trusted key verifies {SUMS}"));
    }
    let lines = sums.lines().filter(|line| !line.trim().is_empty()).map(|line| {
        let (sum, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        (name.trim_start().trim_start_matches('*'), sum)
    });
    let listed: BTreeMap<&str, &str> = lines.collect();
    for entry in
        fs::read_dir(directory).map_err(|source| PackageError::File { path: directory.to_owned(), source })?
    {
        let entry = entry.map_err(|source| PackageError::File { path: directory.to_owned(), source })?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if ![SUMS, SUMS_SIGNATURE].contains(&name.as_str()) && !listed.contains_key(name.as_str()) {
            return unverified(format!("{name} is not listed in {SUMS}"));
        }
    }
    for (name, sum) in listed {
        check_name(name)?;
        let Some(content) = read(name)? else { return unverified(format!("{name} of {SUMS} is missing")) };
        let actual: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        if !actual.eq_ignore_ascii_case(sum) {
            return unverified(format!("{name} has another checksum than in {SUMS}"));
        }
    }
    Ok(())
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

    const PROGRAM: &str = "evenkeel-linux-amd64";

    fn source(files: &str) -> tempfile::TempDir {
        let source = tempfile::tempdir().unwrap();
        let manifest = format!(r#"{{"softwareUpgrade":{{"version":"2.32.0","files":[{files}]}}}}"#);
        fs::write(source.path().join("m.json"), manifest).unwrap();
        fs::create_dir_all(source.path().join("2.32.0")).unwrap();
        fs::write(source.path().join("2.32.0").join(PROGRAM), "new").unwrap();
        source
    }

    fn fetched(source: &Path, data: &Path) -> Result<(), PackageError> {
        fetch(Some(source), data, "2.32.0", "amd64", &[], 0)
    }

    #[test]
    fn program_for_this_machine_is_copied_and_may_be_run() {
        let (source, data) = (source("\"*\""), tempfile::tempdir().unwrap());
        assert_eq!(wanted_version(Some(source.path()), "acme/m", "amd64").unwrap(), "2.32.0");
        fetched(source.path(), data.path()).unwrap();
        fetched(source.path(), data.path()).unwrap();
        let program = program(data.path(), "2.32.0", "amd64");
        assert_eq!(fs::metadata(program).unwrap().permissions().mode() & 0o777, 0o700);
        let other = fetch(Some(source.path()), data.path(), "2.32.0", "s390x", &[], 0);
        assert!(matches!(other, Err(PackageError::NoProgram { .. })), "{other:?}");
        let missing = fetch(Some(source.path()), data.path(), "9.9.9", "amd64", &[], 0);
        assert!(matches!(missing, Err(PackageError::Missing(_))));
    }

    #[test]
    fn manifest_has_to_list_the_program() {
        assert!(wanted_version(Some(source("\"x.deb\"").path()), "m", "amd64").is_err());
        let listed = source("\"evenkeel-linux-amd64\"");
        assert!(wanted_version(Some(listed.path()), "m", "amd64").is_ok());
        assert!(matches!(wanted_version(None, "m", "amd64"), Err(PackageError::NoSource)));
    }

    #[test]
    fn checksums_and_signatures_count_when_they_are_there() {
        let (source, data) = (source("\"*\""), tempfile::tempdir().unwrap());
        let directory = source.path().join("2.32.0");
        let sum: String = Sha256::digest(b"new").iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(directory.join(SUMS), format!("{sum}  {PROGRAM}\n")).unwrap();
        fetched(source.path(), data.path()).unwrap();
        fs::write(directory.join(SUMS_SIGNATURE), "bm9uc2Vuc2U=").unwrap();
        assert!(matches!(fetched(source.path(), data.path()), Err(PackageError::Unverified(_))));
        fs::remove_file(directory.join(SUMS_SIGNATURE)).unwrap();
        fs::write(directory.join(PROGRAM), "tampered").unwrap();
        assert!(matches!(fetched(source.path(), data.path()), Err(PackageError::Unverified(_))));
        assert!(!program(data.path(), "9", "amd64").exists());
    }

    #[test]
    fn package_without_a_signature_is_refused_once_keys_are_trusted() {
        let (source, data) = (source("\"*\""), tempfile::tempdir().unwrap());
        let keys = ["-----BEGIN PUBLIC KEY-----".to_owned()];
        let fetch = || fetch(Some(source.path()), data.path(), "2.32.0", "amd64", &keys, 0);
        assert!(matches!(fetch(), Err(PackageError::Unverified(_))), "neither list nor signature");
        let sum: String = Sha256::digest(b"new").iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(source.path().join("2.32.0").join(SUMS), format!("{sum}  {PROGRAM}\n")).unwrap();
        let refused = fetch().expect_err("a list that anybody can write");
        assert!(refused.to_string().contains(SUMS_SIGNATURE), "{refused}");
        assert!(!program(data.path(), "2.32.0", "amd64").exists());
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        let data = tempfile::tempdir().unwrap();
        let outside = fetch(Some(data.path()), data.path(), "../x", "amd64", &[], 0);
        assert!(matches!(outside, Err(PackageError::Version(_))));
        assert!(wanted_version(Some(data.path()), "..", "amd64").is_err());
    }
}
