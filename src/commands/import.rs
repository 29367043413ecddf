//! `evenkeel import`: brings the database of a reference exchange over, so that its clients go on with what they have.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use evenkeel_import::{ImportError, ImportOptions, LEFT_OUT, Observer, Refusal, Source, TableCount, import};
use evenkeel_runtime::process::block_on;
use evenkeel_runtime::{ExitStatus, Failure, Secret};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::hub::{DatabaseArguments, OpenDatabase, no_database};
use super::settings::SourceSettings;

/// Options of `import`.
#[derive(Debug, Args)]
pub struct ImportArguments {
    #[command(flatten)]
    source: SourceSettings,
    /// Do everything, tell what would be taken and what not, and take it back.
    #[arg(long)]
    dry_run: bool,
    /// Remove what the source no longer has from the organizations that it has.
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
        let outcome = import_into(&source, &open, options).await;
        open.close().await;
        outcome
    })
}

async fn import_into(
    url: &Secret<String>,
    open: &OpenDatabase,
    options: ImportOptions,
) -> Result<(), Failure> {
    let start = Instant::now();
    let mut source = Source::open(url.expose()).await.map_err(|error| failed(&error))?;
    let mut progress = Progress::new();
    let outcome = import(&mut source, &open.database, options, &mut progress).await;
    progress.finish();
    source.close().await;
    let counts = outcome.map_err(|error| failed(&error))?;
    print_counts(&counts);
    if options.is_dry_run {
        for (what, why) in LEFT_OUT {
            println!("left out of every row: {what}: {why}");
        }
    }
    let refused: u64 = counts.iter().map(|count| count.refused).sum();
    let what =
        if options.is_dry_run { "nothing was changed: this was a dry run" } else { "the import is complete" };
    println!("{what} ({:.1} s)", start.elapsed().as_secs_f64());
    if refused > 0 {
        let words =
            format!("{refused} rows of the source cannot be taken; each is listed above with the reason");
        return Err(Failure::new(ExitStatus::ImportIncomplete, words));
    }
    Ok(())
}

fn failed(error: &ImportError) -> Failure {
    match error {
        ImportError::WrongSource { .. } => Failure::from_error(ExitStatus::ImportSource, error),
        ImportError::Source(inner) | ImportError::Target(inner) => {
            Failure::from_error(no_database(inner).status, error)
        }
    }
}

/// Shows the progress of the import: a bar on a terminal, a line for each table otherwise. Refused rows go to standard output.
struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
}

impl Progress {
    fn new() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let target = if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{msg:30} {wide_bar} {human_pos}/{human_len} {per_sec}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Self { bar, is_terminal }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Progress {
    fn begin(&mut self, table: &'static str, rows: u64) {
        if self.is_terminal {
            self.bar.set_message(table);
            self.bar.set_length(rows);
            self.bar.set_position(0);
            self.bar.reset_eta();
        } else {
            eprintln!("reading {table}: {rows} rows");
        }
    }

    fn advance(&mut self, rows: u64) {
        self.bar.inc(rows);
    }

    fn refuse(&mut self, refusal: &Refusal) {
        let Refusal { table, key, reason } = refusal;
        // Nothing can be done about a closed pipe.
        self.bar.suspend(|| {
            let _ = writeln!(std::io::stdout(), "not taken: {table} {key}: {reason}");
        });
    }
}

fn print_counts(counts: &[TableCount]) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["table", "read", "not taken", "new", "updated", "newer here", "unchanged", "removed"]);
    for count in counts {
        let numbers = [
            count.read,
            count.refused,
            count.inserted,
            count.updated,
            count.newer_here,
            count.unchanged(),
            count.removed,
        ];
        let cells = std::iter::once(count.table.to_owned()).chain(numbers.iter().map(u64::to_string));
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}
