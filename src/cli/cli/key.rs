//! `hzn key` and the signing keys of a user (agreement protocol 4.3).

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use evenkeel_wire::agreement::keys::PrivateKey;
use evenkeel_wire::signature;
use serde_json::{Value, json};

use crate::context::Context;
use crate::exit::{CliError, Exit, Outcome};
use crate::output::{View, print_note};
use crate::settings::{self, Settings};
use crate::text_file::read_text;

const PRIVATE: &str = "service.private.key";
const PUBLIC: &str = "service.public.pem";

/// Commands for signing keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Creates an RSA key pair for signing services
    Create {
        /// Accepted for scripts that create certificates; the public key is written bare
        x509_org: Option<String>,
        /// Accepted for scripts that create certificates; the public key is written bare
        x509_cn: Option<String>,
        /// Length of the key in bits
        #[arg(short = 'l', long = "length", default_value_t = 4096, value_name = "BITS")]
        length: usize,
        /// Directory for the files [default: ~/.hzn/keys]
        #[arg(short = 'd', long = "output-dir", visible_alias = "outputDir", value_name = "DIRECTORY")]
        output_dir: Option<PathBuf>,
        /// Private key to write [default: service.private.key in the directory]
        #[arg(short = 'k', long = "private-key-file", value_name = "FILE")]
        private_key: Option<PathBuf>,
        /// Public key to write [default: service.public.pem in the directory]
        #[arg(short = 'K', long = "pub-key-file", alias = "pubic-key-file", value_name = "FILE")]
        public_key: Option<PathBuf>,
        /// Replace existing keys
        #[arg(short = 'f', long, visible_alias = "overwrite")]
        force: bool,
        /// Make the agent on this machine trust the key too
        #[arg(short = 'i', long)]
        import: bool,
        /// Accepted for scripts that create certificates; a bare key does not expire
        #[arg(long, value_name = "DAYS")]
        days_valid: Option<u32>,
    },
    /// Shows the keys that the agent on this machine trusts
    List {
        /// Key to show
        name: Option<String>,
        /// Show everything, not only names
        #[arg(short = 'a', long = "all")]
        all: bool,
    },
    /// Imports a key that the agent on this machine trusts
    Import {
        /// Public key
        #[arg(short = 'k', long = "public-key-file", value_name = "FILE")]
        key: PathBuf,
    },
    /// Removes a key from those that the agent on this machine trusts
    Remove {
        /// Key to remove
        name: String,
    },
}

/// Options that name the keys for signing.
#[derive(Debug, Args)]
pub struct SigningKeys {
    /// Private key that signs [default: HZN_PRIVATE_KEY_FILE, else ~/.hzn/keys/service.private.key]
    #[arg(short = 'k', long = "private-key-file", value_name = "FILE")]
    private_key: Option<PathBuf>,
    /// Public key that is stored with the signed object, under its file name [default: HZN_PUBLIC_KEY_FILE, else
    /// ~/.hzn/keys/service.public.pem, else derived from the private key]
    #[arg(short = 'K', long = "public-key-file", value_name = "FILE")]
    public_key: Option<PathBuf>,
}

impl SigningKeys {
    /// Returns where the keys are.
    pub fn paths(&self, settings: &Settings) -> KeyPaths {
        KeyPaths::choose(self.private_key.as_deref(), self.public_key.as_deref(), settings)
    }
}

/// Location of the signing keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPaths {
    /// Private key.
    pub private: PathBuf,
    /// Public key.
    pub public: PathBuf,
    /// True if the private key was named by the user.
    pub is_explicit: bool,
    is_public_explicit: bool,
}

impl KeyPaths {
    /// Options win over the environment, the environment over the user's directory.
    pub fn choose(private: Option<&Path>, public: Option<&Path>, settings: &Settings) -> Self {
        let named = |given: Option<&Path>, variable: &str| {
            given.map(Path::to_owned).or_else(|| settings.find(variable).map(PathBuf::from))
        };
        let private_named = named(private, settings::PRIVATE_KEY_FILE);
        // A private key that the user names must not be combined with the public key of another pair.
        let public_named = match private {
            Some(_) => public.map(Path::to_owned),
            None => named(public, settings::PUBLIC_KEY_FILE),
        };
        let private_path = private_named.clone().unwrap_or_else(|| settings.key_directory().join(PRIVATE));
        let beside = match &private_named {
            Some(path) => public_beside(path),
            None => settings.key_directory().join(PUBLIC),
        };
        Self {
            is_explicit: private.is_some(),
            is_public_explicit: public_named.is_some(),
            public: public_named.unwrap_or(beside),
            private: private_path,
        }
    }

    /// Reads the private key.
    ///
    /// # Errors
    /// With status 4 when it does not exist or is not a key.
    pub fn read_private(&self) -> Outcome<PrivateKey> {
        let text = read_text(&self.private).map_err(|error| CliError {
            advice: "make a key with `hzn key create`, or name one with -k or HZN_PRIVATE_KEY_FILE"
                .to_owned(),
            ..error
        })?;
        PrivateKey::from_pem(&text).map_err(|error| {
            let what = format!("the private key {} cannot be used", self.private.display());
            CliError::new(
                Exit::File,
                what,
                error.to_string(),
                "name an unencrypted RSA key in PEM form with -k",
            )
        })
    }

    /// Reads the public key, or derives it from the private one if none was named and none exists; returns it with the
    /// name under which it is stored.
    ///
    /// # Errors
    /// With status 4 when it cannot be read.
    pub fn read_public(&self, private: &PrivateKey) -> Outcome<(String, String)> {
        let name =
            self.public.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !self.is_public_explicit && !self.public.exists() {
            let public = private.public_key().map_err(|error| {
                CliError::new(
                    Exit::File,
                    "the public key cannot be created",
                    error.to_string(),
                    "name it with -K",
                )
            })?;
            return Ok((name, public.to_pem()));
        }
        Ok((name, read_text(&self.public)?))
    }
}

/// Returns the default name of the public key next to a private one.
fn public_beside(private: &Path) -> PathBuf {
    let name = private.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match name.strip_suffix(".private.key") {
        Some(stem) => private.with_file_name(format!("{stem}.public.pem")),
        None => private.with_extension("public.pem"),
    }
}

/// Signs a text.
///
/// # Errors
/// With status 7 when the key is too short.
pub fn sign_text(text: &str, key: &PrivateKey) -> Outcome<String> {
    signature::sign(text, key, &mut rand::rng()).map_err(|error| {
        CliError::new(
            Exit::General,
            "the text was not signed",
            error.to_string(),
            "use an RSA key of 2048 bits or more",
        )
    })
}

/// The present time for certificates, in seconds since 1970.
pub fn now_secs() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default()
}

/// Runs a command for keys.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: KeyCommand, context: &Context) -> Outcome {
    match command {
        KeyCommand::Create {
            length,
            output_dir,
            private_key,
            public_key,
            force,
            import: is_imported,
            x509_org: _,
            x509_cn: _,
            days_valid: _,
        } => {
            let directory = output_dir.unwrap_or_else(|| context.settings.key_directory());
            let private = private_key.unwrap_or_else(|| directory.join(PRIVATE));
            let public = public_key.unwrap_or_else(|| directory.join(PUBLIC));
            create(context, length, &private, &public, force)?;
            if is_imported { import(context, &public).await } else { Ok(()) }
        }
        KeyCommand::List { name, all } => list(context, name.as_deref(), all).await,
        KeyCommand::Import { key } => import(context, &key).await,
        KeyCommand::Remove { name } => {
            let agent = context.agent()?;
            let removed = agent.client.delete_trusted_key(&name);
            if !agent.call(&format!("removing key {name}"), removed).await? {
                return Err(CliError::not_found("key", &name, "hzn key list"));
            }
            agent.report_done(&format!("the agent no longer trusts {name}"));
            Ok(())
        }
    }
}

fn create(context: &Context, bits: usize, private: &Path, public: &Path, is_forced: bool) -> Outcome {
    for path in [private, public] {
        if path.exists() && !is_forced {
            let what = format!("{} was not written", path.display());
            return Err(CliError::new(
                Exit::File,
                what,
                "the file exists",
                "give -f to replace it, or other names with -k and -K",
            ));
        }
    }
    if bits < 2048 {
        let why = format!("{bits} bits are insecure");
        return Err(CliError::input("no key was created", why, "use 2048 bits or more"));
    }
    print_note(format!("making an RSA key of {bits} bits; this can take a while"));
    let refuse = |error: evenkeel_wire::agreement::keys::KeyError| {
        CliError::input("no key was created", error.to_string(), "choose another length")
    };
    let key = PrivateKey::generate(&mut rand::rng(), bits).map_err(refuse)?;
    // A pair is replaced when both are written.
    let private_file = Written::write(private, &key.to_pkcs1_pem().map_err(refuse)?, 0o600)?;
    let public_file = Written::write(public, &key.public_key().map_err(refuse)?.to_pem(), 0o644)?;
    private_file.keep()?;
    public_file.keep()?;
    let json = json!({"privateKey": private, "publicKey": public});
    context.screen.show(&View::of(json))
}

/// A temporary file next to the one it is to replace, so that a write that fails halfway replaces nothing. It is
/// removed if it is not used.
struct Written<'p> {
    aside: PathBuf,
    path: &'p Path,
}

impl<'p> Written<'p> {
    /// Writes a file that has its final mode before its first byte.
    fn write(path: &'p Path, text: &str, mode: u32) -> Outcome<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let failed = |error: std::io::Error| CliError::file("writing", path, &error);
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}", std::process::id()));
        let written = Self { aside: path.with_file_name(name), path };
        let mut options = std::fs::OpenOptions::new();
        let mut file =
            options.write(true).create_new(true).mode(mode).open(&written.aside).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok(written)
    }

    fn keep(self) -> Outcome {
        std::fs::rename(&self.aside, self.path).map_err(|error| CliError::file("writing", self.path, &error))
    }
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        // It was renamed, or could not be created.
        let _absent = std::fs::remove_file(&self.aside);
    }
}

async fn list(context: &Context, name: Option<&str>, is_long: bool) -> Outcome {
    let agent = context.agent()?;
    if let Some(name) = name {
        let text = agent.call(&format!("reading key {name}"), agent.client.trusted_key(name)).await?;
        let text = text.ok_or_else(|| CliError::not_found("key", name, "hzn key list"))?;
        return context.screen.show(&View::plain(text.clone(), Value::String(text)));
    }
    let found = agent.call("reading the trusted keys", agent.client.trusted_key_records(is_long)).await?;
    context.screen.show(&View::of(json!(found)))
}

async fn import(context: &Context, file: &Path) -> Outcome {
    let pem = read_text(file)?;
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let agent = context.agent()?;
    let written = agent.client.put_trusted_key(&name, pem);
    agent.call(&format!("importing key {name}"), written).await?;
    agent.report_done(&format!("the agent trusts {name}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn private_key_is_readable_by_its_owner_only_and_never_replaced_by_accident() {
        let directory = tempfile::tempdir().expect("a directory");
        let context = Context::default();
        let (private, public) = (directory.path().join("new/a.key"), directory.path().join("new/a.pem"));
        create(&context, 2048, &private, &public, false).expect("keys");
        assert_eq!(std::fs::metadata(&private).expect("a file").permissions().mode() & 0o777, 0o600);
        let first = std::fs::read_to_string(&private).expect("a key");
        let refused = create(&context, 2048, &private, &public, false).map_err(|error| error.exit);
        assert_eq!(refused, Err(Exit::File));
        assert_eq!(std::fs::read_to_string(&private).expect("a key"), first);
        assert_eq!(
            create(&context, 1024, &private, &public, true).map_err(|error| error.exit),
            Err(Exit::Input)
        );
        let keys = KeyPaths::choose(Some(&private), Some(&public), &context.settings);
        let key = keys.read_private().expect("a private key");
        let signature = sign_text("text", &key).expect("signed");
        let (name, pem) = keys.read_public(&key).expect("a public key");
        assert_eq!(name, "a.pem");
        assert_eq!(signature::verify_with_key("text", &signature, &pem, now_secs()), Ok(true));
    }

    #[test]
    fn named_private_key_does_not_go_with_the_default_public_key() {
        let variables = std::collections::BTreeMap::from([
            (settings::PUBLIC_KEY_FILE.to_owned(), "/env/pub.pem".to_owned()),
            ("HOME".to_owned(), "/home/ann".to_owned()),
        ]);
        let settings = Settings::read(variables, Path::new("/nonexistent"), None);
        let public = |private: Option<&str>| KeyPaths::choose(private.map(Path::new), None, &settings).public;
        assert_eq!(public(None), Path::new("/env/pub.pem"));
        assert_eq!(public(Some("/k/mine.key")), Path::new("/k/mine.public.pem"));
        assert_eq!(public(Some("/k/a.private.key")), Path::new("/k/a.public.pem"));
        let settings = Settings::read(
            std::collections::BTreeMap::from([("HOME".to_owned(), "/home/ann".to_owned())]),
            Path::new("/nonexistent"),
            None,
        );
        let keys = KeyPaths::choose(None, None, &settings);
        assert_eq!(keys.private, Path::new("/home/ann/.hzn/keys/service.private.key"));
        assert_eq!(keys.public, Path::new("/home/ann/.hzn/keys/service.public.pem"));
    }
}
