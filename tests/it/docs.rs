//! What the pages print works: the blocks marked `sh run` are run in the order of the pages, and every link leads somewhere.
//!
//! Each page may go on from where the ones before it ended, so all blocks share one shell, one hub and one fleet.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::support::wait::must;
use crate::support::{Hub, Scratch};

/// How long all blocks together may take on a loaded machine; usually they need half a minute.
const LIMIT: Duration = Duration::from_secs(240);
/// How long the agents may take to stop their services.
const STOP_LIMIT: Duration = Duration::from_secs(20);
const MARK: &str = "```sh run";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Pages with runnable blocks, in the order in which they are run.
const RUNNABLE: [&str; 2] = ["docs/tutorial/five-minutes.md", "docs/how-to/ha-groups.md"];

fn add_pages(directory: &Path, pages: &mut Vec<PathBuf>) {
    for entry in must(std::fs::read_dir(directory), "a directory of docs") {
        let path = must(entry, "an entry").path();
        if path.is_dir() {
            add_pages(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

/// Returns README and all pages of `docs`, sorted by path.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    add_pages(&root().join("docs"), &mut pages);
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
    fn start(scratch: &Scratch, hub: &Hub, output: &Path) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_evenkeel"));
        let folder = must(program.parent().ok_or("no folder"), "the program's folder");
        let path = std::env::var("PATH").unwrap_or_default();
        let file = must(File::create(output), "a file");
        let mut command = Command::new("bash");
        command.arg(scratch.write("pages.sh", &script())).current_dir(scratch.path());
        // Settings of whoever runs the tests must not reach the commands.
        command.env_clear().env("PATH", format!("{}:{path}", folder.display())).env("HOME", scratch.path());
        command.env("HUB", &hub.url).env("DATA", scratch.path()).env("EVENKEEL", program);
        command.stdin(Stdio::null()).stderr(must(file.try_clone(), "a file")).stdout(file);
        command.process_group(0);
        Self(must(command.spawn(), "starting bash"))
    }

    /// Whether it ended well; nothing when the time is over.
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
    let mut shell = Shell::start(&scratch, &hub, &output);
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

#[test]
fn links_between_pages_lead_somewhere() {
    for page in pages() {
        let folder = page.parent().unwrap_or(root());
        let text = read(&page);
        let targets =
            text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        for target in targets.filter(|target| !target.contains("://") && !target.starts_with('#')) {
            let file = target.split_once('#').map_or(target, |(file, _)| file);
            assert!(folder.join(file).exists(), "{}: {target} leads nowhere", name(&page));
        }
    }
}

#[test]
fn the_table_of_settings_names_the_options_of_up() {
    let page = read(&root().join("docs/reference/settings.md"));
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    // The second table is of files, whose names are no options.
    let first_cells =
        rows.take_while(|line| !line.contains("`lock`")).filter_map(|line| line.split('|').nth(1));
    // A table of the configuration file is no option either.
    let told: BTreeSet<String> = first_cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter(|name| !name.starts_with('['))
        .map(str::to_owned)
        .collect();
    let help = Command::new(env!("CARGO_BIN_EXE_evenkeel")).args(["up", "--help"]).output();
    let help = String::from_utf8_lossy(&must(help, "the help").stdout).into_owned();
    let options: BTreeSet<String> = help
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("--"))
        .filter_map(|option| option.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    assert_eq!(told, options);
}
