//! `hzn completion`: completions for shells.

use clap::Command;
use clap_complete::{Shell, generate};

use crate::exit::Outcome;
use crate::output::show_text;

/// Prints the completions of a shell.
///
/// # Errors
/// With status 4 when nothing can be written.
pub fn show(shell: Shell, command: Command) -> Outcome {
    show_text(&text(shell, command))
}

fn text(shell: Shell, mut command: Command) -> String {
    let mut bytes = Vec::new();
    generate(shell, &mut command, "hzn", &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn shells_learn_commands_and_options() {
        let knows = |shell: Shell, words: &[&str]| {
            let text = text(shell, crate::Hzn::command());
            words.iter().for_each(|word| assert!(text.contains(word), "{shell} does not know {word}"));
        };
        knows(Shell::Bash, &["hagroup", "deploycheck", "explain", "--checkHA", "--nodeId"]);
        knows(Shell::Zsh, &["hagroup", "deploycheck", "explain", "--checkHA", "--nodeId"]);
        // Its generator stops at the third word.
        knows(Shell::Fish, &["hagroup", "deploycheck", "explain", "checkHA"]);
    }
}
