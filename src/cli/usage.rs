//! What the parser of arguments has to say, in the three lines of every other failure.

use clap::error::ErrorKind;

use crate::exit::{CliError, Exit};

/// The failure that a parser's error means; `None` for help, which is an answer.
pub fn failure(error: &clap::Error) -> Option<CliError> {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::DisplayVersion
    );
    (!is_help).then(|| of_text(&error.render().to_string()))
}

/// The parser's text: what is wrong, then perhaps tips, then how the command is used.
fn of_text(text: &str) -> CliError {
    let (mut why, mut tips, mut usage) = (Vec::new(), Vec::new(), "hzn --help");
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(tip) = line.strip_prefix("tip: ") {
            tips.push(tip);
        } else if let Some(words) = line.strip_prefix("Usage: ") {
            usage = words;
        } else if !line.starts_with("For more information") {
            why.push(line.strip_prefix("error: ").unwrap_or(line));
        }
    }
    tips.push("use it as: ");
    let advice = format!("{}{usage}", tips.join("; "));
    CliError::new(Exit::Input, "the command was not understood", why.join(" "), advice)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn refused(line: &str) -> Option<CliError> {
        failure(&crate::Hzn::try_parse_from(line.split(' ')).expect_err(line))
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
}
