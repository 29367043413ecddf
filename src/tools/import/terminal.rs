//! Runs an import for a user at a terminal: shows its progress and prints what became of the rows.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use evenkeel_domain::text::printable;
use evenkeel_store::Database;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{ImportError, ImportOptions, LEFT_OUT, Observer, Refusal, Source, TableCount, import};

/// Imports from the database at `url`, with the progress on standard error and the outcome on standard output; returns the number of
/// rows that were refused.
///
/// # Errors
/// See [`import`].
pub async fn import_and_print(
    url: &str,
    database: &Database,
    options: ImportOptions,
) -> Result<u64, ImportError> {
    let start = Instant::now();
    let mut source = Source::open(url).await?;
    let mut progress = Progress::new();
    let outcome = import(&mut source, database, options, &mut progress).await;
    progress.finish();
    source.close().await;
    let counts = outcome?;
    print_counts(&counts);
    if options.is_dry_run {
        for (what, why) in LEFT_OUT {
            println!("left out of every row: {what}: {why}");
        }
    }
    let what =
        if options.is_dry_run { "nothing was changed: this was a dry run" } else { "the import is complete" };
    println!("{what} ({:.1} s)", start.elapsed().as_secs_f64());
    Ok(counts.iter().map(|count| count.refused).sum())
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
        // Nothing can be done about a closed pipe.
        self.bar.suspend(|| {
            let _ = writeln!(std::io::stdout(), "{}", line_of(refusal));
        });
    }
}

/// Returns the line about a refused row, whose key may hold anything.
fn line_of(refusal: &Refusal) -> String {
    let Refusal { table, key, reason } = refusal;
    printable(&format!("not taken: {table} {key}: {reason}")).replace('\n', "\u{fffd}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_of_a_refused_row_stays_in_its_line() {
        let key = "o/a\n\u{1b}[2Jnot taken: b\u{202e}".to_owned();
        let line = line_of(&Refusal { table: "nodes", key, reason: "it has no owner".into() });
        assert_eq!(line, "not taken: nodes o/a\u{fffd}\u{fffd}[2Jnot taken: b\u{fffd}: it has no owner");
    }
}
