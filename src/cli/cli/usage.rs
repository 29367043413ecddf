//! Errors of the argument parser in the three-line format of all other errors.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::completion::takes_next_word;
use crate::exit::{CliError, Exit};

/// Converts an error of the parser to a failure; `None` for help, which is a result. `words`: the arguments
/// without the program.
pub fn failure(error: &clap::Error, command: Command, words: &[String]) -> Option<CliError> {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::DisplayVersion
    );
    (!is_help).then(|| of_text(&error.render().to_string(), accepted(error), &usage_of(command, words)))
}

/// The parser's text: the error, then tips if there are any, then the usage. The usage is missing for invalid values.
fn of_text(text: &str, accepted: Option<String>, usage: &str) -> CliError {
    let (mut why, mut tips, mut usage) = (Vec::new(), Vec::new(), usage);
    tips.extend(accepted.map(|values| format!("give one of: {values}")));
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(tip) = line.strip_prefix("tip: ") {
            // The parser suggests for every unknown option that it may be a value.
            if !tip.starts_with("to pass '-") {
                tips.push(tip.to_owned());
            }
        } else if let Some(words) = line.strip_prefix("Usage: ") {
            usage = words;
        } else if !line.starts_with("For more information") && !line.starts_with("[possible values: ") {
            why.push(line.strip_prefix("error: ").unwrap_or(line));
        }
    }
    tips.push(format!("use it as: {usage}"));
    CliError::new(Exit::Input, "the command was not understood", why.join(" "), tips.join("; "))
}

/// Returns the possible values of the argument with the invalid value, if they can be listed.
fn accepted(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::ValidValue)? {
        ContextValue::Strings(values) if !values.is_empty() => Some(values.join(", ")),
        _ => None,
    }
}

/// Returns the usage of the command that the words name.
fn usage_of(mut command: Command, words: &[String]) -> String {
    command.build();
    let mut named = named_by(&command, words).clone();
    let usage = named.render_usage().to_string();
    let first = usage.lines().next().unwrap_or_default();
    first.trim_start_matches("Usage: ").trim().to_owned()
}

fn named_by<'a>(command: &'a Command, words: &[String]) -> &'a Command {
    let (mut named, mut is_value) = (command, false);
    for word in words {
        if std::mem::take(&mut is_value) {
            continue;
        }
        if word.starts_with('-') && word != "-" {
            is_value = takes_next_word(named, word);
        } else if let Some(next) = named.find_subcommand(word) {
            named = next;
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    fn refused(line: &str) -> Option<CliError> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let error = crate::Hzn::try_parse_from(&words).expect_err(line);
        failure(&error, crate::Hzn::command(), &words[1..])
    }

    #[test]
    fn error_about_wrong_words_has_three_lines_with_what_was_meant() {
        let error = refused("hzn exchange hagruop list").expect("a failure");
        assert_eq!((error.exit, error.to_string().lines().count()), (Exit::Input, 3));
        assert!(error.why.contains("'hagruop'") && error.advice.contains("'hagroup'"), "{error}");
        let error = refused("hzn explain").expect("a failure");
        assert!(error.why.contains("<NODE>") && error.advice.contains("hzn explain"), "{error}");
        assert_eq!(refused("hzn exchange hagroup --help"), None);
        assert_eq!(refused("hzn exchange hagroup"), None);
    }

    #[test]
    fn unknown_option_is_no_value() {
        for line in ["hzn explain n1 p --frobnicate", "hzn exchange deployment orchestration scale p 2 -x"] {
            let error = refused(line).expect("a failure");
            assert!(error.why.contains("unexpected argument"), "{error}");
            assert!(error.advice.starts_with("use it as: hzn e"), "{error}");
        }
        let error = refused("hzn exchange deployment orchestration scale p 2 --wiat").expect("a failure");
        assert!(error.advice.contains("'--wait'") && !error.advice.contains("as a value"), "{error}");
    }

    #[test]
    fn error_about_a_wrong_value_names_the_command_and_what_it_takes() {
        let error =
            refused("hzn exchange -o acme node orchestration set n1 --availability off").expect("a failure");
        let expected =
            "give one of: active, pause, drain; use it as: hzn exchange node orchestration set [OPTIONS] <";
        assert!(error.advice.starts_with(expected), "{error}");
        assert!(error.why.contains("'off'") && !error.why.contains("possible values"), "{error}");
        let error = refused("hzn exchange deployment orchestration scale p many").expect("a failure");
        let expected = "use it as: hzn exchange deployment orchestration scale [OPTIONS] <POLICY> <COUNT>";
        assert_eq!(error.advice, expected, "{error}");
        let error = refused("hzn exchange health list --limit 0").expect("a failure");
        assert!(
            error.why.contains("1..=10000") && error.advice.contains("hzn exchange health list"),
            "{error}"
        );
    }

    #[test]
    fn every_option_that_changes_a_node_is_named_when_none_is_given() {
        let error = refused("hzn exchange node orchestration set n1").expect("a failure");
        for option in ["--availability", "--capacity", "--fault-domain", "--upgrade-domain"] {
            assert!(error.why.contains(option), "{error}");
        }
    }
}
