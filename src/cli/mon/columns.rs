//! Which columns of the tree fit on a screen, and texts that are cut to fit.

use evenkeel_domain::text::printable;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::lines::{HEADER, Line};

/// The column with the state of a line, which gets the room that the others leave.
const NOTE: usize = HEADER.len() - 1;
/// Least width of that column.
const MIN_NOTE: usize = 10;
/// Least width of the column with the names.
const MIN_NAME: usize = 8;
/// Columns that a narrow screen drops: slots, flags, health and state, in this order.
const DROPPED: [usize; 4] = [5, 4, 2, 3];

/// Returns the columns that are shown, in their order, each with its width; between two of them is a blank.
pub fn fitting(lines: &[&Line], available: usize) -> Vec<(usize, usize)> {
    let longest = |column: usize| {
        let texts = lines.iter().map(|line| line.cells[column].as_str()).chain([HEADER[column]]);
        texts.map(UnicodeWidthStr::width).max().unwrap_or_default()
    };
    let total = |columns: &[(usize, usize)]| columns.iter().map(|(_, width)| width + 1).sum::<usize>();
    let mut columns: Vec<(usize, usize)> = (0..NOTE).map(|column| (column, longest(column))).collect();
    for dropped in DROPPED {
        if total(&columns) + MIN_NOTE > available {
            columns.retain(|(column, _)| *column != dropped);
        }
    }
    let missing = (total(&columns) + MIN_NOTE).saturating_sub(available);
    columns[0].1 = columns[0].1.saturating_sub(missing).max(MIN_NAME.min(columns[0].1));
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
            line(["o/a-rather-long-policy", "warn", "Error", "failover 1.0.0", "L", "1", "updating 1/2"]);
        for available in 25..150 {
            let columns = fitting(&[&long], available);
            let total: usize = columns.iter().map(|(_, width)| width + 1).sum();
            assert_eq!(total - 1, available, "{columns:?}");
            assert!(columns.last().is_some_and(|(column, width)| *column == NOTE && *width >= MIN_NOTE));
        }
        let narrow: Vec<usize> = fitting(&[&long], 44).into_iter().map(|(column, _)| column).collect();
        assert_eq!(narrow, [0, 1, NOTE]);
    }

    #[test]
    fn cut_text_ends_with_an_ellipsis() {
        assert_eq!(cut("updating 1/2", 12), "updating 1/2");
        assert_eq!(cut("updating 1/2", 11), "updating 1…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!((cut("ab", 1).as_str(), cut("ab", 0).as_str()), ("…", ""));
    }
}
