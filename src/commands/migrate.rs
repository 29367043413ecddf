//! `evenkeel migrate`: brings the schema of a database to this version and ends.

use clap::Args;
use evenkeel_runtime::Failure;
use evenkeel_store::Database;

use super::hub::{OpenDatabase, open_folder};
use super::settings::{
    ConfigArguments, DatabaseSettings, FolderSettings, LogSettings, PostgresChoice, refused,
};

/// Options of `migrate`.
#[derive(Debug, Args)]
pub struct MigrateArguments {
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    folder: FolderSettings,
    #[command(flatten)]
    database: DatabaseSettings,
    #[command(flatten)]
    postgres: PostgresChoice,
    #[command(flatten)]
    log: LogSettings,
}

/// Migrates and tells the version reached.
pub fn run(arguments: MigrateArguments) -> Result<(), Failure> {
    let file = arguments.config.read()?;
    let folder = arguments.folder.over(&file).map_err(|error| refused(&error))?;
    let database = arguments.database.over(&file).map_err(|error| refused(&error))?;
    let postgres = arguments.postgres.over(&file).map_err(|error| refused(&error))?;
    arguments.log.over(&file).map_err(|error| refused(&error))?.start()?;
    super::block_on(async move {
        if let Some(url) = database.url()? {
            super::hub::connect(&url, database.connections()).await?.close().await;
        } else {
            let folder = open_folder(&folder.path()?)?;
            OpenDatabase::open(&folder, &database, &postgres).await?.close().await;
        }
        println!("{}", Database::schema_version());
        Ok(())
    })
}
