//! `evenkeel bench all`: every benchmark in turn, and the page of their numbers.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use evenkeel_runtime::{ExitStatus, Failure};
use serde_json::{Value, json};

use super::report::{Options, Output, Report, build};
use super::{
    checks, claims, complete, console, exchange, groups, history, hub, index, judge, logins, machine, memory,
    orchestration, poll, rolling, several,
};

/// Between these lines of a page stand the numbers of the last run.
const BEGIN: &str = "<!-- numbers -->\n";
const END: &str = "<!-- end of the numbers -->";

/// Options of `bench all`.
#[derive(Debug, Args)]
pub struct AllArguments {
    #[command(flatten)]
    options: Options,
    /// Write the numbers into this page, between its marks (docs/reference/benchmarks.md)
    #[arg(long, value_name = "FILE")]
    update: Option<PathBuf>,
}

type Benchmark = fn(Options) -> Result<Report, Failure>;

/// In this order: these two first, because they measure the memory of this process.
const BENCHMARKS: [(&str, Benchmark); 14] = [
    ("orchestration", orchestration::run),
    ("index", |options| index::run(&index::IndexArguments::usual(options))),
    ("health", |options| complete(checks::run(options))),
    ("poll", |options| complete(poll::run(options))),
    ("exchange", |options| complete(exchange::run(options))),
    ("several", |options| complete(several::run(options))),
    ("logins", |options| complete(logins::run(options))),
    ("groups", |options| complete(groups::run(options))),
    ("claims", |options| complete(claims::run(options))),
    ("history", |options| complete(history::run(options))),
    ("memory", |options| complete(memory::run(&memory::MemoryArguments::usual(options)))),
    ("hub", |options| complete(hub::run(options))),
    ("console", |options| complete(console::run(options))),
    ("rolling", rolling::run),
];

/// Runs all, prints each report as it comes, and fails at the end when a target was missed.
pub fn run(arguments: &AllArguments) -> Result<(), Failure> {
    let options = arguments.options;
    let judges_all = options.judges_all();
    let machine = machine::describe();
    let begin = Instant::now();
    let mut reports = Vec::new();
    for (name, benchmark) in BENCHMARKS {
        eprintln!("bench {name} ({} s)", begin.elapsed().as_secs());
        let report = benchmark(options)?;
        if options.output == Output::Table {
            println!("{}", report.text(judges_all));
        }
        reports.push(report);
    }
    let secs = begin.elapsed().as_secs();
    let missed: Vec<String> = reports.iter().flat_map(|report| report.missed(judges_all)).collect();
    let page = page(&machine, &reports, options, secs);
    match options.output {
        Output::Table => println!("{machine}; {secs} s"),
        Output::Markdown => print!("{page}"),
        Output::Json => {
            let reports: Vec<Value> = reports.iter().map(|report| report.json(judges_all)).collect();
            println!(
                "{}",
                json!({"machine": machine, "secs": secs, "missed": missed.len(), "benchmarks": reports})
            );
        }
    }
    if let Some(file) = &arguments.update {
        update(file, &page)?;
    }
    judge(&missed)
}

fn page(machine: &str, reports: &[Report], options: Options, secs: u64) -> String {
    let short = if options.short { ", in the short form" } else { "" };
    let mut text = format!("Taken with a {} build{short} in {secs} s: {machine}.\n", build());
    for report in reports {
        text.push('\n');
        text.push_str(&report.markdown(options.judges_all()));
    }
    text
}

fn update(file: &Path, numbers: &str) -> Result<(), Failure> {
    let failed = |reason: String| {
        Failure::new(ExitStatus::Failure, format!("the page {} is not updated: {reason}", file.display()))
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let text = replaced(&text, numbers).ok_or_else(|| failed("its marks are missing".to_owned()))?;
    std::fs::write(file, text).map_err(|error| failed(error.to_string()))
}

fn replaced(page: &str, numbers: &str) -> Option<String> {
    let begin = page.find(BEGIN)? + BEGIN.len();
    let end = begin + page[begin..].find(END)?;
    Some(format!("{}\n{numbers}\n{}", &page[..begin], &page[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_replace_those_between_the_marks() {
        let page = format!("head\n{BEGIN}old\n{END}\ntail\n");
        assert_eq!(replaced(&page, "new\n"), Some(format!("head\n{BEGIN}\nnew\n\n{END}\ntail\n")));
        assert_eq!(replaced("no marks", "new"), None);
    }
}
