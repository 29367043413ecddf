//! What a benchmark says: one row a measure, with its comparison of the same run and its target.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use evenkeel_runtime::{ExitStatus, Failure};
use serde_json::{Value, json};

/// Options that every benchmark has.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Take only a few seconds: proves that everything still runs, says little about speed
    #[arg(long)]
    pub short: bool,
    /// How to print the numbers
    #[arg(long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// End with status 1 when a target is missed
    #[arg(long)]
    pub check: bool,
}

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table for people.
    Table,
    /// One JSON object.
    Json,
}

/// What must hold.
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
    unit: &'static str,
    comparison: Option<(String, f64)>,
    target: Option<Target>,
}

impl Row {
    /// A measure without comparison and target.
    pub fn new(measure: impl Into<String>, value: f64, unit: &'static str) -> Row {
        Row { measure: measure.into(), value, unit, comparison: None, target: None }
    }

    /// What it is compared with, in the same unit.
    pub fn beside(mut self, what: impl Into<String>, value: f64) -> Row {
        self.comparison = Some((what.into(), value));
        self
    }

    /// What must hold.
    pub fn target(mut self, target: Target) -> Row {
        self.target = Some(target);
        self
    }

    fn ratio(&self) -> Option<f64> {
        let (_, other) = self.comparison.as_ref()?;
        (*other > 0.0).then(|| self.value / other)
    }

    /// Whether the target holds; none without a target. A ratio that cannot be told holds no target.
    pub fn is_met(&self) -> Option<bool> {
        Some(match self.target? {
            Target::AtMost(bound) => self.value <= bound,
            Target::AtLeast(bound) => self.value >= bound,
            Target::RatioAtLeast(bound) => self.ratio().is_some_and(|ratio| ratio >= bound),
            Target::RatioAtMost(bound) => self.ratio().is_some_and(|ratio| ratio <= bound),
        })
    }

    fn cells(&self) -> [String; 5] {
        let beside = self
            .comparison
            .as_ref()
            .map(|(what, value)| format!("{} {} {what}", number(*value), self.unit))
            .unwrap_or_default();
        let ratio = self.ratio().map(|ratio| format!("{}×", number(ratio))).unwrap_or_default();
        let verdict = match self.is_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        let target = match self.target {
            Some(Target::AtMost(bound)) => format!("≤ {} {}: {verdict}", number(bound), self.unit),
            Some(Target::AtLeast(bound)) => format!("≥ {} {}: {verdict}", number(bound), self.unit),
            Some(Target::RatioAtLeast(bound)) => format!("≥ {}×: {verdict}", number(bound)),
            Some(Target::RatioAtMost(bound)) => format!("≤ {}×: {verdict}", number(bound)),
            None => String::new(),
        };
        [self.measure.clone(), format!("{} {}", number(self.value), self.unit), beside, ratio, target]
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
            "measure": self.measure, "value": self.value, "unit": self.unit, "comparison": comparison,
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
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Prints the report.
    ///
    /// # Errors
    /// When a target is missed and that was to be checked.
    pub fn finish(&self, options: &Options) -> Result<(), Failure> {
        match options.output {
            Output::Table => print!("{}", self.text()),
            Output::Json => println!("{}", self.json()),
        }
        let missed = self.rows.iter().filter(|row| row.is_met() == Some(false)).count();
        if options.check && missed > 0 {
            return Err(Failure::new(ExitStatus::Failure, format!("{missed} targets were missed")));
        }
        Ok(())
    }

    fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN).set_header(["measure", "here", "beside", "ratio", "target"]);
        for row in &self.rows {
            table.add_row(row.cells());
        }
        for column in [1, 3] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = format!("bench {} ({} build)\n{table}\n", self.name, build());
        for note in &self.notes {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {note}");
        }
        text
    }

    fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        json!({"bench": self.name, "build": build(), "rows": rows, "notes": self.notes})
    }
}

/// Targets are meant for release builds.
fn build() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}

/// Three digits that count, thousands without a fraction.
fn number(value: f64) -> String {
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
    fn targets_look_at_the_value_or_at_the_ratio() {
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
}
