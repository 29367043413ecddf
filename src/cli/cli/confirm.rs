//! Asks before something is removed.

use std::io::{BufRead, Write};

use evenkeel_domain::text::printable;

use crate::exit::{CliError, Outcome};

/// Asks on standard error and reads the reply from standard input; true when it is yes. With `is_forced`
/// there is no question.
///
/// # Errors
/// With status 1 when there is no terminal to confirm on.
pub fn confirm(question: &str, is_forced: bool) -> Outcome<bool> {
    confirm_by("-f", question, is_forced)
}

/// Like [`confirm`], for commands with another option that confirms.
///
/// # Errors
/// See [`confirm`].
pub fn confirm_by(option: &str, question: &str, is_forced: bool) -> Outcome<bool> {
    if is_forced {
        return Ok(true);
    }
    confirm_with(option, question, &mut std::io::stdin().lock(), &mut std::io::stderr())
}

fn confirm_with(
    option: &str,
    question: &str,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> Outcome<bool> {
    // A closed terminal shows in what is read.
    let _ = write!(output, "{} [y/N]: ", printable(question)).and_then(|()| output.flush());
    let mut line = String::new();
    match input.read_line(&mut line) {
        Ok(0) | Err(_) => {
            let _ = writeln!(output);
            Err(CliError::input(
                "nothing was changed",
                "there was no reply to the question",
                format!("give {option} to do it without asking"),
            ))
        }
        Ok(_) => Ok(matches!(line.trim(), "y" | "Y" | "yes" | "Yes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(text: &str) -> Outcome<bool> {
        confirm_with("-f", "remove it?", &mut text.as_bytes(), &mut Vec::new())
    }

    #[test]
    fn only_yes_is_yes_and_silence_is_a_failure() {
        assert_eq!((response("y\n"), response("n\n"), response("\n")), (Ok(true), Ok(false), Ok(false)));
        assert_eq!(response("").map_err(|error| error.exit), Err(crate::exit::Exit::Input));
    }
}
