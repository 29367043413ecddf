//! `hzn exchange pattern`: patterns (exchange API 4.7).

use std::path::PathBuf;

use clap::Subcommand;
use http::StatusCode;

use super::revision::{self, RevisionCommand};
use crate::context::{Context, Exchange, Watch};
use crate::exit::{CliError, Outcome};
use crate::input::read_shape;
use crate::key::SigningKeys;
use crate::resource::kinds::PATTERNS;
use crate::resource::selection::ListSelection;
use crate::shape::PatternFile;
use crate::signer::{PublicKey, sign_overrides};

/// Commands for patterns.
#[derive(Debug, Subcommand)]
pub enum PatternCommand {
    /// Shows the patterns that the caller may see, or one of them
    List {
        /// Pattern to show
        pattern: Option<String>,
        /// Show everything, not only names
        #[arg(short = 'l', long)]
        long: bool,
        #[command(flatten)]
        selection: ListSelection,
        #[command(flatten)]
        watch: Watch,
    },
    /// Creates or replaces a pattern, and signs deployment overrides that are not signed
    Publish {
        /// JSON or YAML file with the pattern, - for standard input
        #[arg(short = 'f', long = "json-file", value_name = "FILE")]
        file: PathBuf,
        /// Name of the pattern [default: the member name of the file]
        #[arg(short = 'p', long = "pattern-name", value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        keys: SigningKeys,
    },
    /// Removes a pattern
    #[command(visible_alias = "delete")]
    Remove {
        /// Pattern to remove
        pattern: String,
        /// Do not ask
        #[arg(short = 'f', long)]
        force: bool,
    },
    #[command(flatten)]
    Revision(RevisionCommand),
}

/// Runs a command for patterns.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: PatternCommand, context: &Context, exchange: &Exchange) -> Outcome {
    match command {
        PatternCommand::Revision(command) => revision::run(command, &PATTERNS, context, exchange).await,
        PatternCommand::List { pattern, long, selection, watch } => {
            context
                .show_watched(&watch, async || {
                    PATTERNS.list_selected(exchange, pattern.as_deref(), long, &selection).await
                })
                .await
        }
        PatternCommand::Publish { file, name, keys } => {
            let mut body = read_shape::<PatternFile>(&file, context)?;
            let in_file = body.as_object_mut().and_then(|members| {
                members.shift_remove("org");
                members.shift_remove("name")?.as_str().map(str::to_owned)
            });
            let name = name.or(in_file).ok_or_else(|| {
                CliError::input("the pattern has no name", "neither -p nor the file names it", "give -p NAME")
            })?;
            let key = sign_overrides(&mut body, &keys.paths(&context.settings))?;
            PATTERNS.put(exchange, &name, &body, StatusCode::FORBIDDEN).await?;
            match key {
                Some(key) => put_key(exchange, &name, &key).await,
                None => Ok(()),
            }
        }
        PatternCommand::Remove { pattern, force } => PATTERNS.remove(exchange, &pattern, force).await,
    }
}

/// Stores the public key of the signatures with a pattern.
async fn put_key(exchange: &Exchange, pattern: &str, PublicKey { name, pem }: &PublicKey) -> Outcome {
    let (org, id) = exchange.split(pattern);
    let doing = format!("storing key {name} with pattern {org}/{id}");
    exchange.server.call(&doing, exchange.server.client.put_pattern_key(&org, &id, name, pem)).await?;
    exchange.server.report_done(&format!("key {name} is stored with pattern {org}/{id}"));
    Ok(())
}
