//! `evenkeel migrate`: migrates the schema of a database to this version.

use clap::Args;
use evenkeel_runtime::Failure;
use evenkeel_runtime::process::block_on;

use super::hub::{DatabaseArguments, schema};

/// Options of `migrate`.
#[derive(Debug, Args)]
pub struct MigrateArguments {
    #[command(flatten)]
    database: DatabaseArguments,
}

/// Migrates and prints the version reached.
pub fn run(arguments: MigrateArguments) -> Result<(), Failure> {
    let (_, database) = arguments.database.read()?;
    block_on(async move {
        let (open, _directory) = database.open().await?;
        open.close().await;
        println!("{}", schema().version());
        Ok(())
    })
}
