//! Report of a benchmark: one row per measure, with a comparison from the same run and a target.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use serde_json::{Value, json};

/// Options that every benchmark has.
#[derive(Debug, Clone, Copy, Args)]
pub struct Options {
    /// Take only a few seconds with a smaller fleet: proves that everything still runs, and judges only what holds at any size
    #[arg(long)]
    pub short: bool,
    /// Format of the numbers
    #[arg(long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

impl Options {
    /// Returns true if all targets apply, which are set for whole runs of release builds.
    pub fn judges_all(self) -> bool {
        !self.short && !cfg!(debug_assertions)
    }
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Human-readable table.
    Table,
    /// The same for `docs/reference/benchmarks.md`.
    Markdown,
    /// One JSON object.
    Json,
}

/// A bound that a measure must meet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// The value itself, from above.
    AtMost(f64),
    /// The value itself, from below.
    AtLeast(f64),
    /// The value divided by its comparison, from below.
    RatioAtLeast(f64),
    /// The value divided by its comparison, from above.
    RatioAtMost(f64),
}

/// One measure.
#[derive(Debug, Clone)]
pub struct Row {
    measure: String,
    value: f64,
    dimension: &'static str,
    comparison: Option<(String, f64)>,
    target: Option<Target>,
    holds_always: bool,
}

impl Row {
    /// A measure without comparison and target.
    pub fn new(measure: impl Into<String>, value: f64, dimension: &'static str) -> Row {
        Row { measure: measure.into(), value, dimension, comparison: None, target: None, holds_always: false }
    }

    /// Sets a value of the same dimension for comparison.
    pub fn beside(mut self, what: impl Into<String>, value: f64) -> Row {
        self.comparison = Some((what.into(), value));
        self
    }

    /// Sets the target for whole runs of release builds.
    pub fn target(mut self, target: Target) -> Row {
        self.target = Some(target);
        self
    }

    /// Sets a target for every build and every size.
    pub fn lasting_target(self, target: Target) -> Row {
        Row { holds_always: true, ..self.target(target) }
    }

    fn ratio(&self) -> Option<f64> {
        let (_, other) = self.comparison.as_ref()?;
        (*other > 0.0).then(|| self.value / other)
    }

    /// Returns true if the target holds; none without a target. An undefined ratio misses its target.
    pub fn is_met(&self) -> Option<bool> {
        Some(match self.target? {
            Target::AtMost(bound) => self.value <= bound,
            Target::AtLeast(bound) => self.value >= bound,
            Target::RatioAtLeast(bound) => self.ratio().is_some_and(|ratio| ratio >= bound),
            Target::RatioAtMost(bound) => self.ratio().is_some_and(|ratio| ratio <= bound),
        })
    }

    /// Returns true if the target applies and is missed.
    fn is_missed(&self, judges_all: bool) -> bool {
        (judges_all || self.holds_always) && self.is_met() == Some(false)
    }

    fn cells(&self, judges_all: bool) -> [String; 5] {
        let beside = self
            .comparison
            .as_ref()
            .map(|(what, value)| format!("{} {what}", quantity(*value, self.dimension)))
            .unwrap_or_default();
        let ratio = self.ratio().map(|ratio| format!("{}×", number(ratio))).unwrap_or_default();
        let verdict = match self.is_met() {
            _ if !(judges_all || self.holds_always) => "not judged",
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        let target = match self.target {
            Some(Target::AtMost(bound)) => format!("≤ {}: {verdict}", quantity(bound, self.dimension)),
            Some(Target::AtLeast(bound)) => format!("≥ {}: {verdict}", quantity(bound, self.dimension)),
            Some(Target::RatioAtLeast(bound)) => format!("≥ {}×: {verdict}", number(bound)),
            Some(Target::RatioAtMost(bound)) => format!("≤ {}×: {verdict}", number(bound)),
            None => String::new(),
        };
        [self.measure.clone(), quantity(self.value, self.dimension), beside, ratio, target]
    }

    fn json(&self) -> Value {
        let target = self.target.map(|target| {
            let (rule, bound) = match target {
                Target::AtMost(bound) => ("value-at-most", bound),
                Target::AtLeast(bound) => ("value-at-least", bound),
                Target::RatioAtLeast(bound) => ("ratio-at-least", bound),
                Target::RatioAtMost(bound) => ("ratio-at-most", bound),
            };
            json!({"rule": rule, "bound": bound, "met": self.is_met()})
        });
        let comparison = self.comparison.as_ref().map(|(what, value)| json!({"what": what, "value": value}));
        json!({
            "measure": self.measure, "value": self.value, "unit": self.dimension, "comparison": comparison,
            "ratio": self.ratio(), "target": target,
        })
    }
}

/// The outcome of one benchmark.
#[derive(Debug, Clone)]
pub struct Report {
    name: &'static str,
    rows: Vec<Row>,
    notes: Vec<String>,
}

impl Report {
    /// An empty report.
    pub fn new(name: &'static str) -> Report {
        Report { name, rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a measure.
    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Adds what a reader of the numbers must know.
    pub fn add_note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Returns the measures that miss a target, of those that count, each with its value and its target.
    pub fn missed(&self, judges_all: bool) -> Vec<String> {
        let missed = self.rows.iter().filter(|row| row.is_missed(judges_all));
        missed
            .map(|row| {
                let [measure, value, _, ratio, target] = row.cells(judges_all);
                format!("{}: {measure}: {value} {ratio}, {target}", self.name)
            })
            .collect()
    }

    /// Returns the human-readable report.
    pub fn text(&self, judges_all: bool) -> String {
        let mut text = format!("bench {} ({} build)\n{}\n", self.name, build(), self.table(judges_all));
        for note in &self.notes {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {note}");
        }
        text
    }

    /// The report as a section of a page.
    pub fn markdown(&self, judges_all: bool) -> String {
        let mut text = format!("### `evenkeel bench {}`\n\n{}\n", self.name, self.table(judges_all));
        if !self.notes.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "- {note}");
        }
        text
    }

    /// The report for programs.
    pub fn json(&self, judges_all: bool) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        json!({
            "bench": self.name, "build": build(), "missed": self.missed(judges_all).len(), "rows": rows,
            "notes": self.notes,
        })
    }

    fn table(&self, judges_all: bool) -> Table {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN).set_header(["measure", "here", "beside", "ratio", "target"]);
        for row in &self.rows {
            table.add_row(row.cells(judges_all));
        }
        for column in [1, 3] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

/// Targets are meant for release builds.
pub fn build() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}

fn quantity(value: f64, dimension: &str) -> String {
    if dimension.is_empty() { number(value) } else { format!("{} {dimension}", number(value)) }
}

/// Three digits that count, thousands without a fraction.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_apply_to_the_value_or_to_the_ratio() {
        let row = |target| Row::new("m", 6.0, "ms").beside("other", 10.0).target(target);
        assert_eq!(row(Target::AtMost(5.0)).is_met(), Some(false));
        assert_eq!(row(Target::RatioAtLeast(0.6)).is_met(), Some(true));
        assert_eq!(row(Target::RatioAtMost(0.1)).is_met(), Some(false));
        assert_eq!(Row::new("m", 1.0, "ms").is_met(), None);
    }

    #[test]
    fn ratio_to_nothing_meets_no_target() {
        let row = Row::new("m", 6.0, "ms").beside("other", 0.0).target(Target::RatioAtLeast(0.6));
        assert_eq!(row.is_met(), Some(false));
    }

    #[test]
    fn short_runs_judge_only_what_always_holds() {
        let row = || Row::new("m", 6.0, "ms");
        let mut report = Report::new("r");
        report.push(row().target(Target::AtMost(5.0)));
        report.push(row().lasting_target(Target::AtMost(5.0)));
        assert_eq!(report.missed(true).len(), 2);
        assert_eq!(report.missed(false), ["r: m: 6.00 ms , ≤ 5.00 ms: MISSED"]);
        let text = report.text(false);
        assert!(text.contains("≤ 5.00 ms: not judged") && text.contains("≤ 5.00 ms: MISSED"), "{text}");
    }
}
