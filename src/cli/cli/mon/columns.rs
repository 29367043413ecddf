//! Selects the columns of the tree that fit on a screen, and cuts texts to fit.

use evenkeel_domain::text::printable;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::lines::{HEADER, Line};

/// The column with the state of a line, which takes the remaining width.
const NOTE: usize = HEADER.len() - 1;
/// Minimum width of that column: enough for the state and the numbers of an update, which come first.
const MIN_NOTE: usize = 20;
/// Minimum width on a narrow screen.
const SHORT_NOTE: usize = 10;
/// Below this width the column with the state may be narrower.
const NARROW: usize = 56;

/// A reduction of the columns for a narrow screen.
enum Step {
    /// Drops a column.
    Drop(usize),
    /// Cuts the texts of a column, to this width at least.
    Cut(usize, usize),
}

/// The steps in their order. Versions are also in the column of states, slots only in a column of their own.
const STEPS: [Step; 7] = [
    Step::Drop(4),
    Step::Drop(2),
    Step::Cut(3, 12),
    Step::Cut(0, 12),
    Step::Drop(5),
    Step::Drop(3),
    Step::Cut(0, 8),
];

/// Returns the columns that are shown, in their order, each with its width; between two of them is a blank.
pub fn fitting(lines: &[&Line], available: usize) -> Vec<(usize, usize)> {
    let longest = |column: usize| {
        let texts = lines.iter().map(|line| line.cells[column].as_str()).chain([HEADER[column]]);
        texts.map(UnicodeWidthStr::width).max().unwrap_or_default()
    };
    let total = |columns: &[(usize, usize)]| columns.iter().map(|(_, width)| width + 1).sum::<usize>();
    let note = if available < NARROW { SHORT_NOTE } else { MIN_NOTE };
    let mut columns: Vec<(usize, usize)> = (0..NOTE).map(|column| (column, longest(column))).collect();
    for step in STEPS {
        let missing = (total(&columns) + note).saturating_sub(available);
        if missing == 0 {
            break;
        }
        match step {
            Step::Drop(dropped) => columns.retain(|(column, _)| *column != dropped),
            Step::Cut(cut, kept) => {
                for (_, width) in columns.iter_mut().filter(|(column, _)| *column == cut) {
                    *width = width.saturating_sub(missing).max(kept.min(*width));
                }
            }
        }
    }
    // Width that a column freed when it was dropped goes back to the columns that were cut before.
    for column in [0, 3] {
        let spare = available.saturating_sub(total(&columns) + note);
        for (_, width) in columns.iter_mut().filter(|(one, _)| *one == column) {
            *width = longest(column).min(*width + spare);
        }
    }
    columns.push((NOTE, available.saturating_sub(total(&columns))));
    columns
}

/// Returns the text, or as much of it as fits together with an ellipsis.
pub fn cut(text: &str, width: usize) -> String {
    let text = printable(text);
    if text.width() <= width {
        return text;
    }
    let mut kept = String::new();
    let mut room = width.saturating_sub(1);
    for letter in text.chars() {
        let needed = letter.width().unwrap_or_default();
        if needed > room {
            break;
        }
        room -= needed;
        kept.push(letter);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mon::lines::{Target, Tone};

    fn line(cells: [&str; HEADER.len()]) -> Line {
        let target = Target::Policy("o/cam".to_owned());
        Line { cells: cells.map(str::to_owned), target, tone: Tone::Calm }
    }

    #[test]
    fn columns_with_their_blanks_fill_every_width() {
        let long =
            line(["o/a-rather-long-policy", "warn", "Error", "1.0.0 failover", "L", "1", "updating 1/2"]);
        for available in 25..150 {
            let columns = fitting(&[&long], available);
            let total: usize = columns.iter().map(|(_, width)| width + 1).sum();
            assert_eq!(total - 1, available, "{columns:?}");
            assert!(columns.last().is_some_and(|(column, width)| *column == NOTE && *width >= SHORT_NOTE));
        }
        let shown =
            |width| fitting(&[&long], width).into_iter().map(|(column, _)| column).collect::<Vec<usize>>();
        assert_eq!((shown(36), shown(60)), (vec![0, 1, NOTE], vec![0, 1, 3, 5, NOTE]));
    }

    #[test]
    fn version_numbers_and_slots_are_there_on_60_columns() {
        let name = "plant7/gauge-reader-of-line-4";
        let policy = line([
            name,
            "warn",
            "Error",
            "10.20.30 replicated, frozen",
            "",
            "",
            "rollback-paused 1/12; the update is paused",
        ]);
        let instance = line(["  └ press-a-7", "up", "", "idle, started", "CFL", "7,11", ""]);
        let columns = fitting(&[&policy, &instance], 60);
        let text = |line: &Line| {
            let cells = columns.iter().map(|(column, width)| cut(&line.cells[*column], *width));
            cells.collect::<Vec<String>>().join(" ")
        };
        let (policy, instance) = (text(&policy), text(&instance));
        assert!(policy.contains("10.20.30") && policy.contains("rollback-paused 1/1"), "{policy}");
        assert!(instance.contains("7,11") && policy.width() <= 60, "{instance}");
    }

    #[test]
    fn cut_text_ends_with_an_ellipsis() {
        assert_eq!(cut("updating 1/2", 12), "updating 1/2");
        assert_eq!(cut("updating 1/2", 11), "updating 1…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!((cut("ab", 1).as_str(), cut("ab", 0).as_str()), ("…", ""));
    }
}
