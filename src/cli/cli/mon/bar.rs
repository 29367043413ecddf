//! The line below the tree, and the legend.

use unicode_width::UnicodeWidthStr;

use super::columns::cut;

/// Keys, the most important first.
const KEYS: [&str; 6] = ["q quit", "? legend", "Enter explain", "/ filter", "↑↓ move", "r refresh"];
const GAP: &str = "   ";

/// Meaning of the flags, words and keys.
pub const LEGEND: [&str; 12] = [
    "flag C: the node violates a placement constraint",
    "flag F: frozen; the engine starts, stops and moves nothing",
    "flag L: natural leader, a node on which instances belong",
    "avail: up, warn or down; n/a where nothing is wanted",
    "down: the heartbeats of the node are missing",
    "load, mem, 1.2.0 (5): load average of 15 minutes, memory in use, agent with its compatibility version",
    "away: its agent announced a maintenance or an upgrade",
    "↑ ↓ or k j: move; PageUp, PageDown: by ten lines; g, G: to the first or last line",
    "Enter or e: explain the line",
    "/: show only lines with a text, and the instances of the objects on them; Esc ends it",
    "r: read again now",
    "q: quit",
];

/// Returns the facts and as many keys as fit; the key that quits is always included.
pub fn line(facts: &[String], width: usize) -> String {
    let room = width.saturating_sub(GAP.len() + KEYS[0].width());
    let mut line = cut(&facts.join(GAP), room);
    for key in KEYS {
        let gap = if line.is_empty() { "" } else { GAP };
        if line.width() + gap.len() + key.width() <= width {
            line.push_str(gap);
            line.push_str(key);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_that_ends_the_screen_is_always_shown() {
        let facts = ["OUT OF DATE: no hub responds at http://localhost:8080/v1, since 12:00:00".to_owned()];
        for width in 20..100 {
            for line in [line(&[], width), line(&facts, width)] {
                assert!(line.contains("q quit") && line.width() <= width, "{width}: {line}");
            }
        }
        assert_eq!(line(&[], 44), "q quit   ? legend   Enter explain   / filter");
        assert_eq!(line(&facts, 40), "OUT OF DATE: no hub responds a…   q quit");
    }
}
