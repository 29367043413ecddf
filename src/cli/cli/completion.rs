//! `hzn completion`: a short script for the shell, which runs the program itself to complete the word at the cursor.
//!
//! Commands and options are therefore always those of the installed program, and names of nodes, policies and groups
//! come from the hub. Without a hub or a login no names are completed.

use std::time::Duration;

use clap::{Arg, Command};
use clap_complete::{Shell, generate};

use crate::context::{Context, Exchange, UserOptions};
use crate::exit::Outcome;
use crate::output::show_text;
use crate::resource::Kind;
use crate::resource::kinds::{AGBOTS, GROUPS, NMPS, PATTERNS, POLICIES, SERVICES, USERS};

/// Longest wait of a shell for names of the hub.
const LONGEST: Duration = Duration::from_secs(1);
/// The hidden command that the scripts call.
pub const COMPLETE: &str = "__complete";

const BASH: &str = r#"_evenkeel_complete() {
    local program=("${COMP_WORDS[0]}") IFS=$'\n'
    [[ ${COMP_WORDS[0]##*/} == hzn ]] || program+=(hzn)
    COMPREPLY=($("${program[@]}" __complete "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null))
}
complete -o default -F _evenkeel_complete hzn evenkeel
"#;
const ZSH: &str = r#"#compdef hzn evenkeel
_evenkeel_complete() {
    local -a program=("${words[1]}") found
    [[ ${words[1]:t} == hzn ]] || program+=(hzn)
    found=("${(@f)$("${program[@]}" __complete "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    found=("${(@)found:#}")
    if (( $#found )); then compadd -a found; else _files; fi
}
compdef _evenkeel_complete hzn evenkeel
"#;
const FISH: &str = r"complete -c hzn -a '(hzn __complete (commandline -opc) (commandline -ct) 2>/dev/null)'
complete -c evenkeel -a '(evenkeel hzn __complete (commandline -opc) (commandline -ct) 2>/dev/null)'
";

/// Prints the completions of a shell.
///
/// # Errors
/// With status 4 when nothing can be written.
pub fn show(shell: Shell, command: Command) -> Outcome {
    show_text(&text(shell, command))
}

fn text(shell: Shell, mut command: Command) -> String {
    let mut bytes = Vec::new();
    match shell {
        Shell::Bash => return BASH.to_owned(),
        Shell::Zsh => return ZSH.to_owned(),
        Shell::Fish => return FISH.to_owned(),
        other => generate(other, &mut command, "hzn", &mut bytes),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Completions at the cursor.
#[derive(Debug, Clone, Default)]
pub struct Candidates {
    /// Commands, options and values that the program knows.
    pub words: Vec<String>,
    /// Kind of object that the argument at the cursor names, such as `node`.
    wanted: Option<&'static str>,
    /// The word at the cursor, as far as it is typed.
    prefix: String,
    /// Organization and credentials that were given before the cursor.
    user: UserOptions,
}

/// Finds the completions at the cursor; `words` begin with the program and end with the word at the cursor.
pub fn candidates(mut command: Command, words: &[String]) -> Candidates {
    command.build();
    let Some((prefix, before)) = words.split_last().filter(|(_, before)| !before.is_empty()) else {
        return Candidates::default();
    };
    let mut found = Candidates { prefix: prefix.clone(), ..Candidates::default() };
    let mut command = &command;
    let mut positionals = 0;
    let mut open: Option<&Arg> = None;
    for word in &before[1..] {
        // Some shells split the sign between an option and its value into a word of its own.
        if word == "=" {
            continue;
        }
        if let Some(option) = open.take() {
            found.remember(option, word);
        } else if word.starts_with('-') && word != "-" {
            open = option_of(command, word).filter(|option| is_value_needed(option, word));
        } else if let Some(next) = command.find_subcommand(word) {
            command = next;
            positionals = 0;
        } else {
            positionals += 1;
        }
    }
    if prefix == "=" {
        found.prefix.clear();
    }
    match open.or_else(|| command.get_positionals().nth(positionals)) {
        Some(argument) if open.is_some() || !prefix.starts_with('-') => {
            found.words.extend(argument.get_possible_values().iter().map(|one| one.get_name().to_owned()));
            found.wanted = noun_of(argument, command);
        }
        _ => {}
    }
    if open.is_none() {
        let commands = command.get_subcommands().filter(|one| !one.is_hide_set());
        found.words.extend(commands.map(|one| one.get_name().to_owned()));
        if prefix.starts_with('-') {
            let options = command.get_arguments().filter(|one| !one.is_hide_set());
            found.words.extend(options.filter_map(Arg::get_long).map(|long| format!("--{long}")));
        }
    }
    let prefix = found.prefix.clone();
    found.words.retain(|word| word.starts_with(&prefix) && !word.starts_with("__"));
    found
}

fn option_of<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or(word);
    command.get_arguments().find(|one| match name.strip_prefix("--") {
        Some(long) => {
            one.get_long() == Some(long) || one.get_all_aliases().is_some_and(|all| all.contains(&long))
        }
        None => {
            one.get_short().is_some_and(|short| name.strip_prefix('-') == Some(short.to_string().as_str()))
        }
    })
}

/// Returns whether the word after an option is its value.
pub fn takes_next_word(command: &Command, word: &str) -> bool {
    option_of(command, word).is_some_and(|option| is_value_needed(option, word))
}

fn is_value_needed(option: &Arg, word: &str) -> bool {
    let is_optional = option.get_num_args().is_some_and(|count| count.min_values() == 0);
    option.get_action().takes_values() && !is_optional && !word.contains('=')
}

/// Returns the kind of object at the hub that an argument names.
fn noun_of(argument: &Arg, command: &Command) -> Option<&'static str> {
    match argument.get_id().as_str() {
        "node" | "nodes" | "node_ids" => Some("node"),
        "policy" | "policy_id" => Some("policy"),
        "group" | "ha_group" => Some("group"),
        "name" if command.get_bin_name().is_some_and(|path| path.contains("hagroup")) => Some("group"),
        "service" => Some("service"),
        "nmp" => Some("nmp"),
        "agbot" => Some("agbot"),
        "pattern" => Some("pattern"),
        "user" => Some("user"),
        _ => None,
    }
}

impl Candidates {
    fn remember(&mut self, option: &Arg, value: &str) {
        match option.get_id().as_str() {
            "org" => self.user.org = Some(value.to_owned()),
            "user_pw" => self.user.user_pw = Some(value.to_owned()),
            _ => {}
        }
    }

    /// Adds names of the hub.
    async fn complete(mut self, context: &Context) -> Self {
        let Some(noun) = self.wanted else { return self };
        let Ok(exchange) = context.exchange(&self.user, None) else { return self };
        let names = tokio::time::timeout(LONGEST, names_of(noun, &self.prefix, &exchange)).await;
        if let Ok(Ok(names)) = names {
            let own = format!("{}/", exchange.org);
            let bare = names.into_iter().map(|name| name.strip_prefix(&own).unwrap_or(&name).to_owned());
            self.words.extend(bare.filter(|name| name.starts_with(&self.prefix) && is_plain_word(name)));
        }
        self
    }
}

/// Returns whether a shell takes a name literally. Shells insert completions without quotes, and other users choose the names.
fn is_plain_word(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_alphanumeric() || "._-/@:+,=%".contains(letter);
    !name.starts_with('-') && name.chars().all(is_plain)
}

async fn names_of(noun: &str, prefix: &str, exchange: &Exchange) -> Outcome<Vec<String>> {
    let kind: &Kind = match noun {
        "node" => {
            // There may be very many.
            let found = exchange.server.client.list_node_ids_with_prefix(&exchange.org, prefix);
            let found = exchange.server.call("reading nodes", found).await?;
            return Ok(found.iter().map(ToString::to_string).collect());
        }
        "group" => &GROUPS,
        "policy" => &POLICIES,
        "service" => &SERVICES,
        "nmp" => &NMPS,
        "agbot" => &AGBOTS,
        "pattern" => &PATTERNS,
        _ => &USERS,
    };
    Ok(kind.read(exchange, None).await?.into_iter().map(|(name, _)| name).collect())
}

/// Prints the completions at the cursor, one word per line.
///
/// # Errors
/// With status 4 when nothing can be written.
pub async fn complete(words: &[String], command: Command, context: &Context) -> Outcome {
    // `evenkeel hzn …` is completed like `hzn …`.
    let from = usize::from(words.get(1).is_some_and(|word| word == "hzn"));
    let found = candidates(command, &words[from.min(words.len())..]).complete(context).await;
    show_text(&found.words.iter().map(|word| format!("{word}\n")).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: &str) -> Candidates {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        candidates(crate::command(), &words)
    }

    #[test]
    fn commands_options_and_values_are_offered() {
        assert_eq!(at("hzn exchange hagr").words, ["hagroup"]);
        assert!(at("hzn exchange hagroup ").words.contains(&"upgrades".to_owned()));
        assert_eq!(at("hzn exchange hagroup member add g --nodeI").words, ["--nodeId"]);
        assert_eq!(at("hzn exchange node list --output y").words, ["yaml"]);
        assert_eq!(at("hzn exchange node orchestration set n1 --availability dr").words, ["drain"]);
        assert!(!at("hzn ").words.iter().any(|word| word.starts_with('_') || word == "reference"));
    }

    #[test]
    fn names_are_wanted_where_an_argument_names_something() {
        let wanted = |line: &str| at(line).wanted;
        assert_eq!(wanted("hzn explain "), Some("node"));
        assert_eq!(wanted("hzn explain n1 "), Some("policy"));
        assert_eq!(wanted("hzn exchange hagroup list "), Some("group"));
        assert_eq!(wanted("hzn rollout status p --group "), Some("group"));
        assert_eq!(wanted("hzn exchange -o acme node list "), Some("node"));
        assert_eq!(at("hzn exchange -o acme node list ").user.org.as_deref(), Some("acme"));
        assert_eq!(wanted("hzn exchange node "), None);
    }

    #[test]
    fn names_that_a_shell_would_obey_are_not_offered() {
        for plain in ["n1", "edge-1.plant_7", "ann@plant.example", "https:a=b,c+d%", "other/n1", "Größe"] {
            assert!(is_plain_word(plain), "{plain}");
        }
        for obeyed in [
            "n$(reboot)",
            "n`id`",
            "n\n1",
            "n 1",
            "n;id",
            "n|id",
            "n&",
            "n>f",
            "n<f",
            "n*",
            "n?",
            "n[1]",
            "n{a,b}",
            "~n",
            "n!1",
            "n#1",
            "n'",
            "n\"",
            "n\\",
            "n\t1",
            "n\u{1b}[2J",
            "n\u{202e}",
            "n(1)",
            "$HOME",
            "-f",
            "--force",
        ] {
            assert!(!is_plain_word(obeyed), "{obeyed:?}");
        }
    }

    #[test]
    fn scripts_are_short_and_for_both_names() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = text(shell, crate::command());
            assert!(script.len() < 700 && script.contains(COMPLETE), "{shell}: {script}");
            assert!(script.contains("hzn") && script.contains("evenkeel"), "{shell}: {script}");
        }
        assert!(text(Shell::PowerShell, crate::command()).contains("hagroup"));
    }
}
