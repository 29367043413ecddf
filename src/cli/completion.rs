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
    fn every_shell_learns_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = text(shell, crate::Hzn::command());
            for word in ["hagroup", "deploycheck", "nodeId", "explain"] {
                assert!(text.contains(word), "{shell} does not know {word}");
            }
        }
    }
}
