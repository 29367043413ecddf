//! Lays a table out for a terminal without ever breaking an id.
//!
//! Where the terminal is too narrow, columns are dropped from right to left, then sentences end with an ellipsis, and where
//! that does not suffice either, each row becomes a block of lines. Words are always shown whole.

use unicode_width::UnicodeWidthStr;

use crate::exit::printable;
use crate::output::Table;

/// Blanks between two columns.
const GAP: usize = 2;
/// A sentence is not shortened below this width; the row becomes a block instead.
const MIN_SENTENCE: usize = 28;
const ELLIPSIS: &str = "…";
const BOLD: (&str, &str) = ("\u{1b}[1m", "\u{1b}[0m");

/// One column that is shown.
struct Column {
    position: usize,
    natural: usize,
    /// Whether a cell holds several words, so that it may be shortened between them.
    is_sentence: bool,
}

impl Column {
    fn min_width(&self) -> usize {
        if self.is_sentence { self.natural.min(MIN_SENTENCE) } else { self.natural }
    }
}

/// The text of a table; `width` is that of the terminal, none for no limit. No-break spaces keep words together and become blanks.
pub fn render(table: &Table, width: Option<u16>) -> String {
    laid_out(table, width).replace('\u{a0}', " ")
}

fn laid_out(table: &Table, width: Option<u16>) -> String {
    let rows: Vec<Vec<String>> =
        table.rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let mut columns: Vec<Column> =
        (0..table.header.len()).map(|position| column(table, &rows, position)).collect();
    let Some(limit) = width.map(usize::from) else {
        let widths: Vec<usize> = columns.iter().map(|column| column.natural).collect();
        return lines(table, &rows, &columns, &widths, false);
    };
    while min_total(&columns) > limit {
        let is_dropped = |column: &Column| column.position > 0 && !table.is_kept(column.position);
        match columns.iter().rposition(is_dropped) {
            Some(at) => drop(columns.remove(at)),
            None => return blocks(table, &rows),
        }
    }
    let mut spare = limit - min_total(&columns);
    let mut widths = Vec::new();
    for column in &columns {
        let extra = spare.min(column.natural - column.min_width());
        spare -= extra;
        widths.push(column.min_width() + extra);
    }
    lines(table, &rows, &columns, &widths, true)
}

fn column(table: &Table, rows: &[Vec<String>], position: usize) -> Column {
    let cells = || rows.iter().filter_map(|row| row.get(position));
    let widest = cells().map(|cell| cell.width()).max().unwrap_or_default();
    Column {
        position,
        natural: widest.max(table.header[position].width()),
        is_sentence: cells().any(|cell| cell.contains(' ')),
    }
}

fn min_total(columns: &[Column]) -> usize {
    columns.iter().map(Column::min_width).sum::<usize>() + GAP * columns.len().saturating_sub(1)
}

fn lines(
    table: &Table,
    rows: &[Vec<String>],
    columns: &[Column],
    widths: &[usize],
    is_terminal: bool,
) -> String {
    let line = |cells: Vec<String>| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| {
            let cell = shortened(cell, *width);
            let blanks = width.saturating_sub(cell.width());
            cell + &" ".repeat(blanks)
        });
        padded.collect::<Vec<String>>().join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    let header = line(columns.iter().map(|column| table.header[column.position].to_uppercase()).collect());
    let mut text =
        if is_terminal { format!("{}{header}{}\n", BOLD.0, BOLD.1) } else { format!("{header}\n") };
    for row in rows {
        let cells = columns.iter().map(|column| row.get(column.position).cloned().unwrap_or_default());
        text.push_str(&line(cells.collect()));
        text.push('\n');
    }
    text
}

/// One block per row, each cell on a line of its own.
fn blocks(table: &Table, rows: &[Vec<String>]) -> String {
    let block = |row: &Vec<String>| -> String {
        let named = table.header.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
        named.map(|(name, cell)| format!("{name}: {cell}\n")).collect()
    };
    rows.iter().map(block).collect::<Vec<String>>().join("\n")
}

/// The text cut after a whole word so that it fits together with an ellipsis; unchanged when it fits or is one word.
pub fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width || !text.contains(' ') {
        return text.to_owned();
    }
    let mut kept = String::new();
    for word in text.split(' ') {
        if kept.width() + word.width() + 1 + ELLIPSIS.width() > width {
            break;
        }
        kept.push_str(word);
        kept.push(' ');
    }
    kept + ELLIPSIS
}

fn one_line(cell: &str) -> String {
    printable(cell).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "plant/a-rather-long-node-id-17";

    fn table() -> Table {
        let mut table = Table::new(&["node", "policy", "arch", "changed", "how it stands"])
            .keeping(&["policy", "how it stands"]);
        table.push([
            NODE.to_owned(),
            "plant/watch".to_owned(),
            "amd64".to_owned(),
            "2026-01-01T00:00:00Z".to_owned(),
            "waits for plant/edge-2, which is being upgraded to version 2.0.0".to_owned(),
        ]);
        table
    }

    fn plain(width: u16) -> String {
        render(&table(), Some(width)).replace(BOLD.0, "").replace(BOLD.1, "")
    }

    #[test]
    fn columns_are_dropped_from_the_right_before_sentences_are_shortened() {
        let wide = plain(160);
        assert!(wide.contains("CHANGED") && wide.contains("version 2.0.0"), "{wide}");
        let narrower = plain(130);
        assert!(narrower.contains("CHANGED") && narrower.contains("being upgraded to …"), "{narrower}");
        let narrow = plain(80);
        assert!(!narrow.contains("CHANGED") && narrow.contains("ARCH"), "{narrow}");
        assert!(narrow.lines().nth(1).is_some_and(|line| line.ends_with('…')), "{narrow}");
    }

    #[test]
    fn narrow_terminal_gets_one_block_per_row_with_everything_in_it() {
        let text = plain(60);
        assert!(text.starts_with(&format!("node: {NODE}\npolicy: plant/watch\narch: amd64\n")), "{text}");
        assert!(text.ends_with("which is being upgraded to version 2.0.0\n"), "{text}");
    }

    #[test]
    fn ids_are_whole_and_lines_fit_at_every_width_that_has_a_table() {
        for width in 1..200_u16 {
            let text = plain(width);
            assert!(text.contains(NODE) && text.contains("plant/watch"), "{width}: {text}");
            let fits = text.lines().all(|line| line.width() <= usize::from(width));
            assert!(fits || text.starts_with("node: "), "{width}: {text}");
        }
    }

    #[test]
    fn words_are_never_cut() {
        assert_eq!(shortened("waits for plant/edge-2", 12), "waits for …");
        assert_eq!(shortened("waits for plant/edge-2", 11), "waits for …");
        assert_eq!(shortened("plant/edge-2", 5), "plant/edge-2");
        assert_eq!(shortened("plant/edge-2 is down", 5), "…");
    }
}
