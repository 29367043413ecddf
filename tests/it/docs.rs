//! The commands, links and tables of the pages are true: the blocks marked `sh run` are run, page by page, and compared tables name
//! what the program has.
//!
//! Each page may continue from where the ones before it ended, so all blocks share one shell, one hub and one
//! fleet.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::architecture::members;
use crate::architecture::source::{files, sources};
use crate::support::wait::must;
use crate::support::{Hub, Scratch, TestDatabase, free_address};

/// Time for which all blocks together may take on a loaded machine; usually they need half a minute.
const LIMIT: Duration = Duration::from_secs(240);
/// Time for which the agents may take to stop their services.
const STOP_LIMIT: Duration = Duration::from_secs(20);
const MARK: &str = "```sh run";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Pages with runnable blocks, in the order in which they are run.
const RUNNABLE: [&str; 12] = [
    "docs/tutorial/five-minutes.md",
    "docs/how-to/manage-ha-groups.md",
    "docs/how-to/check-a-placement.md",
    "docs/how-to/keep-configuration-in-files.md",
    "docs/how-to/roll-out-a-version.md",
    "docs/how-to/drain-a-node.md",
    "docs/how-to/run-workloads.md",
    "docs/how-to/come-from-service-fabric.md",
    "docs/how-to/come-from-opensvc.md",
    "docs/how-to/come-from-senlin.md",
    "docs/how-to/upgrade-agents.md",
    "docs/tutorial/second-hub.md",
];

/// Returns README and all pages of `docs`, sorted by path.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    pages.extend(files(&root().join("docs"), "md"));
    pages.sort();
    pages
}

fn read(page: &Path) -> String {
    must(std::fs::read_to_string(page), "a page")
}

fn name(page: &Path) -> String {
    page.strip_prefix(root()).unwrap_or(page).display().to_string()
}

/// The runnable blocks of a page, each with the number of its first line.
fn blocks(page: &Path) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut block: Option<(usize, String)> = None;
    for (number, line) in read(page).lines().enumerate() {
        match &mut block {
            None if line == MARK => block = Some((number + 2, String::new())),
            None => {}
            Some(_) if line == "```" => found.extend(block.take()),
            Some((_, text)) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    assert!(block.is_none(), "{}: a block has no end", name(page));
    found
}

/// One script of all blocks; what it starts in the background ends with it.
fn script() -> String {
    let mut script = "set -eu\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n".to_owned();
    let mut count = 0;
    for page in RUNNABLE.map(|page| root().join(page)) {
        for (line, block) in blocks(&page) {
            script.push_str(&format!("echo '== {}:{line}'\n{block}", name(&page)));
            count += 1;
        }
    }
    assert!(count >= 12, "only {count} runnable blocks are found: is the mark still {MARK}?");
    script
}

/// The shell with everything it started.
struct Shell(Child);

impl Shell {
    fn start(scratch: &Scratch, hub: &Hub, database: &TestDatabase, output: &Path) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_evenkeel"));
        let directory = must(program.parent().ok_or("no directory"), "the program's directory");
        let path = std::env::var("PATH").unwrap_or_default();
        let file = must(File::create(output), "a file");
        let mut command = Command::new("bash");
        command.arg(scratch.write("pages.sh", &script())).current_dir(scratch.path());
        // Environment settings of the test run must not reach the commands.
        command
            .env_clear()
            .env("PATH", format!("{}:{path}", directory.display()))
            .env("HOME", scratch.path());
        command.env("HUB", &hub.url).env("DATA", scratch.path()).env("EVENKEEL", program);
        command.env("DATABASE_URL", database.url());
        command.env("HUB_A", free_address()).env("HUB_B", free_address());
        command.stdin(Stdio::null()).stderr(must(file.try_clone(), "a file")).stdout(file);
        command.process_group(0);
        Self(must(command.spawn(), "starting bash"))
    }

    /// Returns true if the process succeeded; none if it did not end in time.
    async fn wait(&mut self, limit: Duration) -> Option<bool> {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Some(status) = must(self.0.try_wait(), "waiting for bash") {
                return Some(status.success());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        None
    }

    fn signal(&self, signal: Signal) {
        let group = Pid::from_raw(i32::try_from(self.0.id()).expect("process ids fit"));
        // It fails when all of the group have ended.
        let _ = killpg(group, signal);
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn commands_of_the_pages_work_in_their_order() {
    let scratch = Scratch::new();
    let settings = "upgrade-monitor-secs = 1\nupgrade-grace-secs = 1\nupgrade-start-timeout-secs = 20\n";
    let file = scratch.write("settings.toml", settings);
    let hub = Hub::start(&scratch, &["--config", &file.to_string_lossy()]).await;
    let output = scratch.join("pages.out");
    let database = TestDatabase::new().await;
    let mut shell = Shell::start(&scratch, &hub, &database, &output);
    let ended = shell.wait(LIMIT).await;
    if ended.is_none() {
        // The agents stop their services when they are asked to end.
        shell.signal(Signal::SIGTERM);
        shell.wait(STOP_LIMIT).await;
    }
    let text = std::fs::read_to_string(&output).unwrap_or_default();
    assert_eq!(ended, Some(true), "the last of these blocks fails:\n{text}");
    assert_eq!(hub.stop().await, 0);
}

#[test]
fn every_page_with_runnable_blocks_is_run() {
    let found: BTreeSet<String> =
        pages().iter().filter(|page| !blocks(page).is_empty()).map(|page| name(page)).collect();
    assert_eq!(found, RUNNABLE.map(str::to_owned).into());
}

/// Returns the anchor of a heading: its letters, digits and hyphens in lower case, with hyphens for spaces.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn has_anchor(page: &Path, wanted: &str) -> bool {
    let text = read(page);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim_start())).any(|anchor| anchor == wanted)
}

#[test]
fn links_between_pages_lead_to_pages_and_headings() {
    for page in pages() {
        let directory = page.parent().unwrap_or(root());
        let text = read(&page);
        let targets =
            text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        for target in targets.filter(|target| !target.contains("://")) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let linked = if file.is_empty() { page.clone() } else { directory.join(file) };
            assert!(linked.exists(), "{}: {target} leads nowhere", name(&page));
            let leads_to_heading = heading.is_empty() || has_anchor(&linked, heading);
            assert!(leads_to_heading, "{}: {target} names no heading", name(&page));
        }
    }
}

#[test]
fn decision_records_have_the_same_headings() {
    let records = pages().into_iter().filter(|page| name(page).starts_with("docs/adr/0"));
    for record in records {
        let text = read(&record);
        let headings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(headings, ["Context", "Decision", "Consequences"], "{}", name(&record));
    }
}

#[test]
fn page_of_the_architecture_has_a_row_for_every_crate() {
    let page = read(&root().join("docs/explanation/architecture.md"));
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `src/")?.split_once('`'));
    let documented: BTreeSet<String> = rows.map(|(name, _)| format!("src/{name}")).collect();
    let crates = members().into_iter().map(|member| member.directory);
    assert_eq!(documented, crates.filter(|directory| !directory.is_empty()).collect());
}

#[test]
fn pages_name_sources_that_exist() {
    let sources = sources();
    let exists =
        |file: &str| sources.iter().any(|source| format!("/{}", source.path).ends_with(&format!("/{file}")));
    for page in pages() {
        let text = read(&page);
        for file in text.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs")) {
            assert!(exists(file), "{}: there is no {file}", name(&page));
        }
    }
}

/// Kinds that are logged and not stored as events.
const LOGGED_KINDS: [&str; 3] = ["rollout.going-back", "rollout.updating", "health.rounds-missed"];

/// The beginnings of the kinds of events.
const EVENT_AREAS: [&str; 24] = [
    "approval.",
    "attention.",
    "lifecycle.",
    "capacity.",
    "settings.",
    "blocklist.",
    "fence.",
    "compat.",
    "health.",
    "dependency.",
    "reconcile.",
    "scale.",
    "rollout.",
    "agreement.",
    "node.",
    "hagroup.",
    "update.",
    "restart.",
    "task.",
    "placement.",
    "snapshot.",
    "instance.",
    "workload.",
    "orchestration.",
];

/// Returns the kinds of events that `code` names, as literals of Rust or SQL; names of transactions look the same.
fn event_kinds(code: &str) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    for area in EVENT_AREAS {
        for (start, _) in code.match_indices(area) {
            let before = code[..start].trim_end_matches(['"', '\'']);
            let name = &code[start..];
            let end =
                name.find(|letter: char| !matches!(letter, 'a'..='z' | '-' | '.')).unwrap_or(name.len());
            let is_literal = before.len() + 1 == start && name[end..].starts_with(['"', '\'']);
            let is_transaction =
                ["retry(", "write(", "name:"].iter().any(|call| before.trim_end().ends_with(call));
            if is_literal && !is_transaction && !LOGGED_KINDS.contains(&&name[..end]) {
                kinds.insert(name[..end].to_owned());
            }
        }
    }
    kinds
}

#[test]
fn page_of_events_names_the_kinds_in_the_code() {
    let page = read(&root().join("docs/reference/events.md"));
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let documented: BTreeSet<String> = rows.map(|(kind, _)| kind.to_owned()).collect();
    let crates = [
        "src/agbot/planner-record/",
        "src/agbot/change/",
        "src/agbot/placement/",
        "src/agbot/planner-model/",
        "src/agbot/reconcile/",
        "src/agbot/status/",
        "src/agbot/agreement/",
        "src/agbot/explain/",
        "src/agbot/health/",
        "src/agbot/planner/",
        "src/agbot/agbot/",
        "src/agbot/agbot-api/",
        "src/agbot/agbot-store/",
        "src/platform/store/",
    ];
    let found: BTreeSet<String> = sources()
        .iter()
        .filter(|source| !source.is_test() && !source.path.contains("/sim/"))
        .filter(|source| crates.iter().any(|directory| source.path.starts_with(directory)))
        .flat_map(|source| event_kinds(source.product_text()))
        .collect();
    assert_eq!(documented, found);
}

#[test]
fn troubleshooting_names_every_alert() {
    let page = read(&root().join("docs/how-to/troubleshoot-a-hub.md"));
    let rules = read(&root().join("docs/monitoring/alerts.yml"));
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(page.contains(&format!("`{alert}`")), "{alert}");
    }
}

#[test]
fn table_of_settings_names_the_options_of_up() {
    let page = read(&root().join("docs/reference/settings.md"));
    let tables = page.split_once("\n## Data directory\n").map_or(page.as_str(), |(tables, _)| tables);
    let first_cells =
        tables.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
    // A table of the configuration file is not an option.
    let documented: BTreeSet<String> = first_cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter(|name| !name.starts_with('['))
        .map(str::to_owned)
        .collect();
    assert_eq!(documented, options_of("up"));
}

#[test]
fn tables_of_the_identity_provider_name_its_keys() {
    let page = read(&root().join("docs/reference/settings.md"));
    let (_, rest) = page.split_once("\n### Identity provider\n").expect("the section");
    let (section, _) = rest.split_once("\n## ").expect("the next section");
    let (main, console) = section.split_once("`[oidc.console]`, which").expect("both tables");
    let documented = |table: &str| -> BTreeSet<String> {
        let rows = table.lines().filter_map(|line| line.strip_prefix("| [`"));
        rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned())).collect()
    };
    // The error of a key that is unknown names those that are known.
    let known = |text: &str| -> BTreeSet<String> {
        let error =
            toml::from_str::<evenkeel_exchange::OidcSettings>(text).expect_err("an unknown key").to_string();
        let (_, names) = error.split_once("expected one of").unwrap_or_else(|| panic!("{error}"));
        names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    assert_eq!(documented(main), known("nonsense = 1"));
    assert_eq!(documented(console), known("[console]\nnonsense = 1"));
}

#[test]
fn table_of_options_names_those_of_the_agent() {
    let page = read(&root().join("docs/reference/agent.md"));
    let rows = page.lines().filter(|line| line.starts_with("| `--"));
    let first_cells = rows.filter_map(|line| line.split('|').nth(1));
    let documented: BTreeSet<String> = first_cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(|name| name.trim_start_matches('-').to_owned())
        .collect();
    assert_eq!(documented, options_of("agent"));
}

/// Returns the long options that the help of a command lists.
fn options_of(command: &str) -> BTreeSet<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_evenkeel")).args([command, "--help"]).output();
    let help = String::from_utf8_lossy(&must(help, "the help").stdout).into_owned();
    let options = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    options.filter_map(|option| option.split_whitespace().next()).map(str::to_owned).collect()
}
