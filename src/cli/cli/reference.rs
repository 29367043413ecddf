//! The reference of all commands, generated from the definitions that parse them.

use clap::{Arg, ArgAction, Command};

use crate::examples;
use crate::exit::Exit;
use crate::settings::KNOWN;

/// Returns the reference as Markdown; `command` as it was defined, before options are propagated.
pub fn markdown(command: Command) -> String {
    let mut text = String::from(INTRODUCTION);
    text.push_str("\n## Settings\n\n| name | meaning |\n| --- | --- |\n");
    for (name, meaning) in KNOWN {
        text.push_str(&format!("| `{name}` | {} |\n", cell(meaning)));
    }
    text.push_str(SETTINGS);
    text.push_str("\n## Exit statuses\n\n| status | meaning |\n| --- | --- |\n");
    for (exit, meaning) in Exit::TABLE {
        text.push_str(&format!("| {} | {meaning} |\n", exit.code()));
    }
    text.push_str("\n## Options of every command\n\n");
    arguments_of(&command, &mut text);
    text.push_str("\n## Commands\n");
    for inner in visible(&command) {
        describe(inner, "hzn", &mut text);
    }
    text
}

const INTRODUCTION: &str = "<!-- Made by `evenkeel hzn reference`; a test compares the two. -->

# The command line

`evenkeel hzn …`, or a link to the program or a copy of it named `hzn`, is the command line for the hub and for the agent on this machine. Data is
written to standard output, everything else to standard error. Output is a table on a terminal and JSON otherwise; `--output json|yaml|table`
selects a format. A failure prints three lines: what failed, why, and what to do.

Names of other organizations are written `ORG/NAME`. Where a file is expected, `-` means standard input. JSON and YAML are both accepted, and JSON may
contain comments (`/* … */`, `// …`). Names of members are found without regard to case, null is as absent, and members that do not exist are left out
with a warning.

`$NAME` and `${NAME}` in a file are replaced in texts, in names of members, and in JSON also in place of a value. The value is taken from the
environment, else from the configuration files of the user and the machine, else from `hzn.json` or `horizon/hzn.json` beside the file, else from
that of the project in the current directory; `ARCH` is the architecture of this machine unless it is set. A variable that is not set stays as it
is, with a warning; `$$NAME` stands for the text `$NAME`. With `--strict`, unknown members and variables that are not set are errors.

Where a secret is an argument, `-` reads it from standard input, where no other user of the machine sees it.

Commands that remove something ask for confirmation unless `-f` is given; without a terminal they end with status 1.

With `--dry-run` nothing is changed: standard error shows what would be sent, with secrets hidden.

Shell completions for `hzn` and `evenkeel hzn`, with names from the hub: `source <(hzn completion bash)`, or `zsh`; for fish,
`hzn completion fish | source`.
";

const SETTINGS: &str = "
Each is taken from the environment, else from `/etc/default/horizon`, else from `/etc/horizon/anax.json`, else from
`~/.hzn/hzn.json`, else from `/etc/horizon/hzn.json`. The organization and the key files are also taken from the `hzn.json` of the project in the
current directory (that beside `service.definition.json`, in it or in `horizon`); addresses and credentials are not. Credentials may be kept in a file: `HZN_EXCHANGE_USER_AUTH_FILE` and
`HZN_EXCHANGE_NODE_AUTH_FILE` name it.
";

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
}

fn describe(command: &Command, parent: &str, text: &mut String) {
    let name = format!("{parent} {}", command.get_name());
    let level = if parent == "hzn" { "###" } else { "####" };
    text.push_str(&format!("\n{level} `{name}`\n\n"));
    if let Some(about) = command.get_about() {
        text.push_str(&format!("{about}.\n"));
    }
    let aliases: Vec<String> = command.get_all_aliases().map(|alias| format!("`{alias}`")).collect();
    if !aliases.is_empty() {
        text.push_str(&format!("Also: {}.\n", aliases.join(", ")));
    }
    let is_runnable = !command.has_subcommands() || !command.is_subcommand_required_set();
    if is_runnable {
        text.push_str(&format!("\n```\n{}\n```\n", usage(command, &name)));
    }
    if let Some(lines) = examples::of(name.trim_start_matches("hzn ")) {
        text.push_str(&format!("\n```sh\n{}\n```\n", lines.join("\n")));
    }
    let mut arguments = String::new();
    arguments_of(command, &mut arguments);
    if !arguments.is_empty() {
        text.push_str(&format!("\n{arguments}"));
    }
    for inner in visible(command) {
        describe(inner, &name, text);
    }
}

/// Positional arguments in order; options are listed below.
fn usage(command: &Command, name: &str) -> String {
    let mut usage = name.to_owned();
    if own_arguments(command).any(|argument| !argument.is_positional()) {
        usage.push_str(" [OPTIONS]");
    }
    for argument in command.get_positionals() {
        let word = argument.get_id().as_str().to_uppercase();
        usage.push_str(&if argument.is_required_set() { format!(" {word}") } else { format!(" [{word}]") });
    }
    if command.has_subcommands() {
        usage.push_str(" [COMMAND]");
    }
    usage
}

/// Returns the arguments of a command itself: inherited ones are documented once, at the parent.
fn own_arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| !argument.is_hide_set())
}

fn arguments_of(command: &Command, text: &mut String) {
    let rows: Vec<String> = own_arguments(command).map(row).collect();
    if !rows.is_empty() {
        text.push_str("| argument | meaning |\n| --- | --- |\n");
        text.extend(rows);
    }
}

fn row(argument: &Arg) -> String {
    let mut names = Vec::new();
    if argument.is_positional() {
        names.push(argument.get_id().as_str().to_uppercase());
    }
    names.extend(argument.get_short().map(|short| format!("-{short}")));
    names.extend(argument.get_long().map(|long| format!("--{long}")));
    names.extend(argument.get_visible_aliases().into_iter().flatten().map(|alias| format!("--{alias}")));
    let takes_value = !argument.is_positional() && argument.get_action().takes_values();
    let value = argument.get_value_names().and_then(|names| names.first()).filter(|_| takes_value);
    let value = match (value, argument.is_require_equals_set()) {
        (Some(value), true) => format!("[={value}]"),
        (Some(value), false) => format!(" {value}"),
        (None, _) => String::new(),
    };
    let last = names.pop().unwrap_or_default();
    names.push(format!("{last}{value}"));
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<String> = match argument.get_action() {
        ArgAction::Set if !argument.is_hide_possible_values_set() => {
            argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
        }
        _ => Vec::new(),
    };
    let choices = if values.is_empty() { String::new() } else { format!(" ({})", values.join(", ")) };
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .filter(|value| !value.is_empty())
        .collect();
    let default =
        if defaults.is_empty() { String::new() } else { format!(" [default: {}]", defaults.join(", ")) };
    format!("| {} | {} |\n", names.join(", "), cell(&format!("{help}{choices}{default}")))
}

/// A text inside one cell of a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}
