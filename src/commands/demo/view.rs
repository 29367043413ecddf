//! What the demo shows: a table that lives on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Instant;

/// Shows what happens.
pub struct View {
    began: Instant,
    nodes: Vec<String>,
    shown: BTreeMap<String, String>,
    is_live: bool,
    drawn_lines: usize,
}

impl View {
    pub fn new(nodes: &[String]) -> View {
        View {
            began: Instant::now(),
            nodes: nodes.to_vec(),
            shown: BTreeMap::new(),
            is_live: std::io::stdout().is_terminal(),
            drawn_lines: 0,
        }
    }

    /// Tells one thing that happened.
    pub fn tell(&mut self, text: &str) {
        self.erase();
        println!("{:7.2}s  {text}", self.began.elapsed().as_secs_f64());
        self.draw();
    }

    /// Shows which version answers on each node; says so only when something changed.
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
        self.tell(&format!("{:<44} copies running: {running}", changes.join(", ")));
    }

    fn draw(&mut self) {
        if !self.is_live {
            return;
        }
        println!("  ┌──────────────┬──────────────┐");
        for node in &self.nodes {
            let version = self.shown.get(node).map_or("-", String::as_str);
            println!("  │ {node:<12} │ {version:<12} │");
        }
        println!("  └──────────────┴──────────────┘");
        self.drawn_lines = self.nodes.len() + 2;
        // A closed terminal is no reason to stop.
        let _ = std::io::stdout().flush();
    }

    fn erase(&mut self) {
        if self.drawn_lines > 0 {
            print!("\x1b[{}A\x1b[J", self.drawn_lines);
            self.drawn_lines = 0;
        }
    }
}
