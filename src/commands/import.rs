//! `evenkeel import`: imports the database of a reference exchange, so that its clients keep their ids and credentials.

use clap::Args;
use evenkeel_import::{ImportError, ImportOptions, import_and_print};
use evenkeel_runtime::process::block_on;
use evenkeel_runtime::{ExitStatus, Failure};

use super::hub::{DatabaseArguments, no_database};
use super::settings::SourceSettings;

/// Options of `import`.
#[derive(Debug, Args)]
pub struct ImportArguments {
    #[command(flatten)]
    source: SourceSettings,
    /// Run the whole import, print which rows would be imported and which not, and roll it back.
    #[arg(long)]
    dry_run: bool,
    /// Remove rows that no longer exist in the source from the organizations of the source.
    #[arg(long)]
    remove_absent: bool,
    #[command(flatten)]
    database: DatabaseArguments,
}

/// Imports and prints what became of the rows.
pub fn run(arguments: ImportArguments) -> Result<(), Failure> {
    let (file, database) = arguments.database.read()?;
    let source = arguments.source.over(&file)?.url()?;
    let options = ImportOptions { is_dry_run: arguments.dry_run, removes_absent: arguments.remove_absent };
    block_on(async move {
        let (open, _directory) = database.open().await?;
        let outcome = import_and_print(source.expose(), &open.database, options).await;
        open.close().await;
        match outcome.map_err(|error| failed(&error))? {
            0 => Ok(()),
            refused => Err(Failure::new(
                ExitStatus::ImportIncomplete,
                format!("{refused} rows of the source cannot be taken; each is listed above with the reason"),
            )),
        }
    })
}

fn failed(error: &ImportError) -> Failure {
    match error {
        ImportError::WrongSource { .. } => Failure::from_error(ExitStatus::ImportSource, error),
        ImportError::Source(inner) | ImportError::Target(inner) => {
            Failure::from_error(no_database(inner).status, error)
        }
    }
}
