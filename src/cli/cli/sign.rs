//! `hzn util`: signing and verifying texts (agreement protocol 4.3).

use std::path::{Path, PathBuf};

use clap::Subcommand;
use evenkeel_wire::signature;
use serde_json::{Value, json};

use crate::context::Context;
use crate::exit::{CliError, Exit, Outcome};
use crate::key::{KeyPaths, now_secs, sign_text};
use crate::output::View;
use crate::project;
use crate::text_file::read_text;

/// Commands for signatures, whose text is read from standard input, and for configurations.
#[derive(Debug, Subcommand)]
pub enum UtilCommand {
    /// Prints the configuration of a project as commands of a shell
    Configconv {
        /// Configuration, hzn.json of a project
        #[arg(short = 'f', long = "config-file", value_name = "FILE")]
        file: PathBuf,
    },
    /// Signs the text on standard input
    Sign {
        /// Private key [default: HZN_PRIVATE_KEY_FILE, else ~/.hzn/keys/service.private.key]
        #[arg(short = 'k', long = "private-key-file", value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// Tests a signature of the text on standard input
    Verify {
        /// Public key [default: HZN_PUBLIC_KEY_FILE, else ~/.hzn/keys/service.public.pem]
        #[arg(short = 'K', long = "public-key-file", value_name = "FILE")]
        key: Option<PathBuf>,
        /// Signature
        #[arg(short = 's', long, value_name = "SIGNATURE")]
        signature: String,
    },
}

/// Runs a command for signatures.
///
/// # Errors
/// Returns the error of the command.
pub fn run(command: UtilCommand, context: &Context) -> Outcome {
    let read = || read_text(Path::new("-"));
    match command {
        UtilCommand::Configconv { file } => project::convert(&file),
        UtilCommand::Sign { key } => {
            let text = read()?;
            let keys = KeyPaths::choose(key.as_deref(), None, &context.settings);
            let signature = sign_text(&text, &keys.read_private()?)?;
            context.screen.show(&View::plain(signature.clone(), Value::from(signature)))
        }
        UtilCommand::Verify { key, signature } => {
            let text = read()?;
            let keys = KeyPaths::choose(None, key.as_deref(), &context.settings);
            verify(&text, &signature, &read_text(&keys.public)?)?;
            context.screen.show(&View::plain("signature verified", json!({"verified": true})))
        }
    }
}

fn verify(text: &str, signature: &str, pem: &str) -> Outcome {
    let why = match signature::verify_with_key(text, signature, pem, now_secs()) {
        Ok(true) => return Ok(()),
        Ok(false) => "it was created for another text or with another key".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(CliError::new(
        Exit::SignatureInvalid,
        "the signature is not verified",
        why,
        "check text, key and signature",
    ))
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::agreement::keys::PrivateKey;

    use super::*;

    #[test]
    fn signature_of_another_text_has_its_own_status() {
        let key = PrivateKey::generate(&mut rand::rng(), 2048).expect("a key");
        let pem = key.public_key().expect("a public key").to_pem();
        let signature = sign_text("text", &key).expect("signed");
        assert_eq!(verify("text", &signature, &pem), Ok(()));
        let exit =
            |text: &str, signature: &str, pem: &str| verify(text, signature, pem).map_err(|error| error.exit);
        assert_eq!(exit("other", &signature, &pem), Err(Exit::SignatureInvalid));
        assert_eq!(exit("text", "%", &pem), Err(Exit::SignatureInvalid));
        assert_eq!(exit("text", &signature, "no key"), Err(Exit::SignatureInvalid));
    }
}
