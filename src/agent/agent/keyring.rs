//! The agent's messaging key pair and the signing keys that it trusts.

use std::path::{Path, PathBuf};

use evenkeel_wire::agreement::keys::{MESSAGING_KEY_BITS, PrivateKey};

use crate::{AgentError, files};

/// File of the private messaging key.
const PRIVATE: &str = "privateMessagingKey.pem";
/// File of the public messaging key.
const PUBLIC: &str = "publicMessagingKey.pem";

/// Reads the messaging key of a data directory, or creates one. Takes a fraction of a second: do not call it on async threads.
///
/// # Errors
/// [`AgentError::DataDir`] when a file cannot be used, [`AgentError::Key`] when the key is invalid.
pub fn load_or_create(directory: &Path) -> Result<PrivateKey, AgentError> {
    let path = directory.join(PRIVATE);
    let text = files::read_optional(&path)?;
    let key_error = |error: evenkeel_wire::agreement::keys::KeyError| AgentError::Key {
        path: path.clone(),
        reason: error.to_string(),
    };
    if let Some(text) = text {
        return PrivateKey::from_pem(&text).map_err(key_error);
    }
    let key = PrivateKey::generate(&mut rand::rng(), MESSAGING_KEY_BITS).map_err(key_error)?;
    let public = key.public_key().map_err(key_error)?.to_pem();
    let private = key.to_pkcs1_pem().map_err(key_error)?;
    let write = |name: &str, text: &str| files::write_atomic(&directory.join(name), text.as_bytes(), 0o600);
    write(PUBLIC, &public)?;
    write(PRIVATE, &private)?;
    Ok(key)
}

/// Removes the messaging key when the node is unregistered.
///
/// # Errors
/// [`AgentError::DataDir`] when a file cannot be removed.
pub fn remove(directory: &Path) -> Result<(), AgentError> {
    files::remove(&directory.join(PRIVATE))?;
    Ok(files::remove(&directory.join(PUBLIC))?)
}

/// Reads all `*.pem` files in the given directories, in order of path. Unreadable ones are left out with a warning.
pub fn trusted_keys(directories: &[PathBuf]) -> Vec<String> {
    let mut paths: Vec<PathBuf> = directories
        .iter()
        .filter_map(|directory| std::fs::read_dir(directory).ok())
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pem"))
        .collect();
    paths.sort();
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path)
            .inspect_err(|error| tracing::warn!(path = %path.display(), %error, "trusted key cannot be read"))
            .ok()
    };
    paths.iter().filter_map(read).collect()
}
