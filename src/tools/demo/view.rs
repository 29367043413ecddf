//! The output of the demo: a table on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Instant;

use evenkeel_cli::shortened;

/// Width where the terminal has none.
const USUAL_WIDTH: usize = 80;

/// Shows what happens.
pub struct View {
    began: Instant,
    nodes: Vec<String>,
    shown: BTreeMap<String, String>,
    reasons: BTreeMap<String, String>,
    is_live: bool,
    drawn_lines: usize,
}

impl View {
    pub fn new(nodes: &[String]) -> View {
        View {
            began: Instant::now(),
            nodes: nodes.to_vec(),
            shown: BTreeMap::new(),
            reasons: BTreeMap::new(),
            is_live: std::io::stdout().is_terminal(),
            drawn_lines: 0,
        }
    }

    /// Reports an event.
    pub fn print(&mut self, text: &str) {
        self.erase();
        println!("{:7.2}s  {text}", self.began.elapsed().as_secs_f64());
        self.draw();
    }

    /// Shows the version that responds on each node; reports only changes.
    pub fn show(&mut self, versions: &BTreeMap<String, String>) {
        if *versions == self.shown {
            return;
        }
        let changes: Vec<String> = self
            .nodes
            .iter()
            .filter(|node| versions.get(*node) != self.shown.get(*node))
            .map(|node| match versions.get(node) {
                Some(version) => format!("{node} runs {version}"),
                None => format!("{node} runs nothing"),
            })
            .collect();
        self.shown = versions.clone();
        let running = versions.len();
        self.print(&format!("{:<28} copies running: {running}", changes.join(", ")));
    }

    /// Shows the agbot's reasons for each node: in the table on a terminal, elsewhere as a line when they change.
    pub fn show_reasons(&mut self, reasons: &BTreeMap<String, String>) {
        if *reasons == self.reasons {
            return;
        }
        let changed: Vec<String> = reasons
            .iter()
            .filter(|(node, text)| self.reasons.get(*node) != Some(*text))
            .map(|(node, text)| format!("{node}: {text}"))
            .collect();
        self.reasons = reasons.clone();
        if self.is_live {
            self.erase();
            self.draw();
            return;
        }
        changed.iter().for_each(|line| self.print(line));
    }

    fn draw(&mut self) {
        if !self.is_live {
            return;
        }
        let width = comfy_table::Table::new().width().map_or(USUAL_WIDTH, usize::from);
        let rows = self.rows(if width == 0 { USUAL_WIDTH } else { width });
        self.drawn_lines = rows.len();
        rows.iter().for_each(|row| println!("{row}"));
        // A closed terminal is no reason to stop.
        let _ = std::io::stdout().flush();
    }

    /// One line per node: its id and version whole, and as many words of the agbot's reason as fit.
    fn rows(&self, width: usize) -> Vec<String> {
        let longest = self.nodes.iter().map(|node| node.chars().count()).max().unwrap_or_default();
        let row = |node: &String| {
            let version = self.shown.get(node).map_or("-", String::as_str);
            let start = format!("  {node:<longest$}  {version:<7}  ");
            let reason = self.reasons.get(node).map_or("", String::as_str);
            let room = width.saturating_sub(start.chars().count() + 1);
            format!("{start}{}", shortened(reason, room)).trim_end().to_owned()
        };
        self.nodes.iter().map(row).collect()
    }

    fn erase(&mut self) {
        if self.drawn_lines > 0 {
            print!("\x1b[{}A\x1b[J", self.drawn_lines);
            self.drawn_lines = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_versions_are_whole_and_lines_fit_at_60_columns() {
        let nodes: Vec<String> = ["edge-1", "edge-20"].map(str::to_owned).into();
        let mut view = View::new(&nodes);
        let said = "plant/line-1 is busy with the rollout of plant/watch-everywhere on plant/edge-1";
        view.reasons = BTreeMap::from([("edge-20".to_owned(), said.to_owned())]);
        view.shown = BTreeMap::from([("edge-20".to_owned(), "1.0.0".to_owned())]);
        let rows = view.rows(60);
        assert_eq!(rows[0], "  edge-1   -");
        assert!(rows[1].starts_with("  edge-20  1.0.0    plant/line-1 is busy") && rows[1].ends_with('…'));
        assert!(rows.iter().all(|row| row.chars().count() < 60), "{rows:?}");
    }
}
