//! The key pair with which messages are sealed and opened.

use std::io::ErrorKind;
use std::path::Path;

use evenkeel_wire::agreement::{PrivateKey, PublicKey};
use uuid::Uuid;

use crate::AgbotError;

const KEY_BITS: usize = 2_048;

/// The key pair of the agbot.
pub struct Keys {
    /// Opens messages.
    pub private: PrivateKey,
    /// Its public half, with which nodes seal them.
    pub public: PublicKey,
}

impl Keys {
    /// Reads the keys, or creates them.
    ///
    /// # Errors
    /// When the file cannot be read, created or stored.
    pub(super) fn load(path: &Path) -> Result<Keys, AgbotError> {
        let private = load_or_make_key(path)?;
        Ok(Keys { public: private.public_key()?, private })
    }
}

fn load_or_make_key(path: &Path) -> Result<PrivateKey, AgbotError> {
    let unusable = |source| AgbotError::KeyFile { path: path.display().to_string(), source };
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(PrivateKey::from_pem(&text)?),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = PrivateKey::generate(&mut rand::rng(), KEY_BITS)?;
            write_secret(path, &key.to_pkcs1_pem()?).map_err(unusable)?;
            // Another instance may have been faster: the key in the file is shared by all.
            let text = std::fs::read_to_string(path).map_err(unusable)?;
            Ok(PrivateKey::from_pem(&text)?)
        }
        Err(error) => Err(unusable(error)),
    }
}

/// Writes a new file readable by its owner only; an existing file is kept.
fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let temporary = path.with_extension(format!("new-{}", Uuid::new_v4()));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let linked = std::fs::hard_link(&temporary, path);
    std::fs::remove_file(&temporary)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
