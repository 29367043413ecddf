//! Examples in the help of the commands that are used most.

use clap::Command;

/// Commands with their examples; a test reads every line as the program would.
const EXAMPLES: [(&str, &[&str]); 32] = [
    ("plan", &["hzn plan watch-line-1 -f version-2.yaml", "hzn plan watch-line-1 --output json"]),
    (
        "approval request policy",
        &["hzn approval request policy watch-line-1 -f version-2.yaml --reason 'ticket 4711' --wait=4h"],
    ),
    ("approval list", &["hzn approval list --state pending"]),
    (
        "history",
        &["hzn history --at 14:05", "hzn history --at '2026-11-29 14:05' --policy watch-line-1 --kind task"],
    ),
    ("diff", &["hzn diff --from 14:00 --to 14:30", "hzn diff --from 2h --node edge-1"]),
    ("apply", &["hzn apply -f plant.yaml --dry-run", "hzn apply -f plant/ --prune 'Line 1' --wait"]),
    ("exchange org create", &["hzn exchange org create plant --description 'Plant 1'"]),
    ("exchange user create", &["hzn exchange user create --admin ada - ada@plant.example < password"]),
    ("exchange node list", &["hzn exchange node list", "hzn exchange node list edge-1 --output yaml"]),
    ("exchange node common", &["hzn exchange node common", "hzn exchange node common --availability drain"]),
    ("exchange node create", &["hzn exchange node create edge-1 - < edge-1.token"]),
    ("exchange node addpolicy", &["hzn exchange node addpolicy edge-1 -f node-policy.yaml"]),
    (
        "exchange node orchestration set",
        &[
            "hzn exchange node orchestration set edge-1 --availability drain --wait=30m",
            "hzn exchange node orchestration set edge-1 --availability active",
        ],
    ),
    (
        "exchange service list",
        &["hzn exchange service list", "hzn exchange service list watch_1.0.0_amd64 -l"],
    ),
    (
        "exchange service publish",
        &[
            "hzn exchange service publish -f watch.json",
            "hzn exchange service publish -f watch.yaml -k my.key -O",
        ],
    ),
    ("exchange deployment listpolicy", &["hzn exchange deployment listpolicy watch-line-1"]),
    (
        "exchange deployment addpolicy",
        &[
            "hzn exchange deployment addpolicy watch-line-1 -f policy.yaml --wait",
            "hzn exchange deployment addpolicy watch-line-1 -f policy.json --dry-run",
        ],
    ),
    (
        "exchange deployment updatepolicy",
        &["hzn exchange deployment updatepolicy watch-line-1 -f version-2.yaml --wait=15m"],
    ),
    (
        "exchange deployment orchestration status",
        &[
            "hzn exchange deployment orchestration status watch-line-1",
            "hzn exchange deployment orchestration status watch-line-1 --watch",
        ],
    ),
    (
        "exchange deployment orchestration events",
        &["hzn exchange deployment orchestration events watch-line-1 -f"],
    ),
    (
        "exchange deployment orchestration explain",
        &["hzn exchange deployment orchestration explain watch-line-1 --node edge-2"],
    ),
    (
        "exchange deployment orchestration set",
        &[
            "hzn exchange deployment orchestration set watch-line-1 update.parallelism=2 restart.maxAttempts=3",
            "hzn exchange deployment orchestration set watch-line-1 scope.nodes+=edge-4",
        ],
    ),
    (
        "exchange hagroup create",
        &["hzn exchange hagroup create line-1 --nodeId edge-1 --nodeId edge-2 --nodeId edge-3"],
    ),
    ("exchange hagroup list", &["hzn exchange hagroup list", "hzn exchange hagroup list line-1"]),
    ("exchange hagroup upgrades", &["hzn exchange hagroup upgrades line-1 --watch"]),
    (
        "exchange audit list",
        &[
            "hzn exchange audit list --limit 20",
            "hzn exchange audit list --caller plant/ada --since 2030-01-31T00:00:00Z",
        ],
    ),
    (
        "agbot reasons",
        &["hzn agbot reasons --policy watch-line-1", "hzn agbot reasons --node edge-1 --watch=5"],
    ),
    (
        "rollout status",
        &["hzn rollout status watch-line-1 --watch", "hzn rollout status watch-line-1 --wait=20m"],
    ),
    ("rollout show", &["hzn rollout show watch-line-1 --watch"]),
    ("rollout undo", &["hzn rollout undo watch-line-1 --group line-1 --wait"]),
    (
        "deploycheck",
        &[
            "hzn deploycheck -n edge-1 -b watch-line-1",
            "hzn deploycheck --ha-group line-1 -B policy.yaml --exit-code",
        ],
    ),
    ("explain", &["hzn explain edge-1 watch-line-1", "hzn explain edge-1 watch-line-1 --watch"]),
];

/// Returns the examples of a command; its path is without `hzn`.
pub fn of(path: &str) -> Option<&'static [&'static str]> {
    EXAMPLES.iter().find(|(command, _)| *command == path).map(|(_, lines)| *lines)
}

/// Adds the examples to the help of their commands.
pub fn add(mut command: Command) -> Command {
    for (path, lines) in EXAMPLES {
        let text = format!("Examples:\n  {}", lines.join("\n  "));
        let words: Vec<&str> = path.split(' ').collect();
        command = at(command, &words, &text);
    }
    command
}

fn at(command: Command, path: &[&str], text: &str) -> Command {
    match path.split_first() {
        Some((word, rest)) => command.mut_subcommand(word, |inner| at(inner, rest, text)),
        None => command.after_help(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_understood() {
        for (path, lines) in EXAMPLES {
            for line in lines {
                assert!(
                    line.starts_with(&format!("hzn {path} ")) || *line == format!("hzn {path}"),
                    "{line}"
                );
                let shell = line.split(" < ").next().unwrap_or(line);
                let words = shell.split(' ').map(|word| word.trim_matches('\''));
                // A quoted argument is one word, although it may contain blanks.
                let words: Vec<&str> =
                    if shell.contains('\'') { shell.split('\'').collect() } else { words.collect() };
                let words: Vec<&str> = if shell.contains('\'') {
                    let (before, quoted) = (words[0], words[1]);
                    before.split_whitespace().chain([quoted]).chain(words[2].split_whitespace()).collect()
                } else {
                    words
                };
                assert!(crate::command().try_get_matches_from(&words).is_ok(), "not understood: {line}");
            }
        }
    }
}
