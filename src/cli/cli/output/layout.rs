//! Lays out a table for a terminal without breaking ids.
//!
//! If the terminal is too narrow, columns are dropped from right to left, then sentences wrap, and if that is not
//! enough, each row becomes a block of lines. Words are never split.

use evenkeel_domain::text::printable;
use unicode_width::UnicodeWidthStr;

use super::{Table, counted};

/// Blanks between two columns.
const GAP: usize = 2;
/// A sentence is not wrapped at less than this width, nor at less than its longest word; the row becomes a block instead.
const MIN_SENTENCE: usize = 28;
const ELLIPSIS: &str = "…";
const BOLD: (&str, &str) = ("\u{1b}[1m", "\u{1b}[0m");

/// One column that is shown.
struct Column {
    position: usize,
    natural: usize,
    /// Width of the longest word: cells are wrapped between words only.
    longest_word: usize,
}

impl Column {
    fn min_width(&self) -> usize {
        self.natural.min(self.longest_word.max(MIN_SENTENCE))
    }
}

/// Returns the text of a table; `width` is that of the terminal, none for no limit. No-break spaces keep words together
/// and are written as blanks.
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
    let mut dropped = 0;
    while min_total(&columns) > limit {
        let is_dropped = |column: &Column| column.position > 0 && !table.is_kept(column.position);
        match columns.iter().rposition(is_dropped) {
            Some(at) => drop(columns.remove(at)),
            None => return blocks(table, &rows),
        }
        dropped += 1;
    }
    let mut spare = limit - min_total(&columns);
    let mut widths = Vec::new();
    for column in &columns {
        let extra = spare.min(column.natural - column.min_width());
        spare -= extra;
        widths.push(column.min_width() + extra);
    }
    lines(table, &rows, &columns, &widths, true) + &dropped_text(dropped, limit)
}

/// Returns the lines that name the columns without room on the terminal.
fn dropped_text(count: usize, limit: usize) -> String {
    if count == 0 {
        return String::new();
    }
    let (columns, them) = (counted(count, "column"), if count == 1 { "it" } else { "them" });
    let text = format!("{columns} left out: a wider terminal or --output\u{a0}json shows {them}");
    wrapped(&text, limit).into_iter().map(|line| line + "\n").collect()
}

fn column(table: &Table, rows: &[Vec<String>], position: usize) -> Column {
    let cells = || rows.iter().filter_map(|row| row.get(position));
    let name = &table.header[position];
    let widest = |widths: &mut dyn Iterator<Item = usize>| widths.max().unwrap_or_default();
    let words = || cells().flat_map(|cell| cell.split(' '));
    Column {
        position,
        natural: widest(&mut cells().map(|cell| cell.width())).max(name.width()),
        longest_word: widest(&mut words().map(UnicodeWidthStr::width)).max(name.width()),
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
    let line = |cells: &[&str]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| {
            let blanks = width.saturating_sub(cell.width());
            format!("{cell}{}", " ".repeat(blanks))
        });
        padded.collect::<Vec<String>>().join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    let names: Vec<String> =
        columns.iter().map(|column| table.header[column.position].to_uppercase()).collect();
    let header = line(&names.iter().map(String::as_str).collect::<Vec<&str>>());
    let mut text =
        if is_terminal { format!("{}{header}{}\n", BOLD.0, BOLD.1) } else { format!("{header}\n") };
    for row in rows {
        let cells = columns.iter().map(|column| row.get(column.position).map_or("", String::as_str));
        let cells: Vec<Vec<String>> = cells.zip(widths).map(|(cell, width)| wrapped(cell, *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or_default();
        for number in 0..height {
            let parts = cells.iter().map(|cell| cell.get(number).map_or("", String::as_str));
            text.push_str(&line(&parts.collect::<Vec<&str>>()));
            text.push('\n');
        }
    }
    text
}

/// Returns the lines of a text that is wrapped between words; a word longer than the width gets its own line.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    if text.width() <= width {
        return vec![text.to_owned()];
    }
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// One block per row, each cell on a line of its own; the members of one object have a line each.
fn blocks(table: &Table, rows: &[Vec<String>]) -> String {
    if table.header == ["name", "value"] {
        return rows.iter().map(|row| format!("{}\n", row.join(": ").trim_end())).collect();
    }
    let block = |row: &Vec<String>| -> String {
        let named = table.header.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
        named.map(|(name, cell)| format!("{name}: {cell}\n")).collect()
    };
    rows.iter().map(block).collect::<Vec<String>>().join("\n")
}

/// Returns the text, cut after a whole word so that it fits together with an ellipsis; unchanged if it fits or is one word.
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
        let mut table =
            Table::new(&["node", "policy", "arch", "changed", "message"]).keeping(&["policy", "message"]);
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
    fn columns_are_dropped_from_the_right_before_sentences_are_wrapped() {
        let wide = plain(160);
        assert!(wide.contains("CHANGED") && wide.contains("version 2.0.0"), "{wide}");
        let narrower = plain(130);
        let lines: Vec<&str> = narrower.lines().collect();
        assert!(lines[0].contains("CHANGED") && lines[1].ends_with("being upgraded to"), "{narrower}");
        assert_eq!(lines[2].trim(), "version 2.0.0", "{narrower}");
        let narrow = plain(80);
        let lines: Vec<&str> = narrow.lines().collect();
        assert!(!lines[0].contains("CHANGED") && lines[0].contains("ARCH"), "{narrow}");
        assert_eq!(lines[2].trim(), "which is being upgraded to", "{narrow}");
        let about = "1 column left out: a wider terminal or --output json shows it";
        assert_eq!(lines.last(), Some(&about), "{narrow}");
        assert!(!narrower.contains("left out"), "{narrower}");
        assert_eq!(lines[2].find("which"), lines[1].find("waits"), "it is below the first line: {narrow}");
    }

    #[test]
    fn sentence_with_a_long_word_is_shown_whole() {
        let reason = "task 2f1c39cfdd7a6ab200000002b4b05e94 of the old version is not seen stopped";
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
        let mut tree = Table::new(&["policy", "avail", "message"]).keeping(&["avail", "message"]);
        tree.push(["o/p".to_owned(), "warn".to_owned(), reason.to_owned()]);
        let mut list = Table::new(&["name", "value"]).keeping(&["value"]);
        list.push(["blocked".to_owned(), reason.to_owned()]);
        for (table, width) in [(&tree, 80), (&tree, 40), (&list, 80), (&list, 40)] {
            let text = render(table, Some(width));
            let shown = words(&text);
            assert!(words(reason).iter().all(|word| shown.contains(word)), "{width}: {text}");
        }
        let text = render(&tree, Some(80));
        assert!(text.lines().all(|line| line.width() <= 80 + BOLD.0.len() + BOLD.1.len()), "{text}");
        assert_eq!(render(&list, Some(40)), format!("blocked: {reason}\n"));
        assert!(render(&tree, Some(40)).starts_with("policy: o/p\navail: warn\nmessage: task 2f1c"));
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
