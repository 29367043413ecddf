//! `evenkeel hzn …`, and the program under the name `hzn`: passes its arguments to the command line.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;

const NAME: &str = "hzn";

/// All arguments after `hzn`, which the command line parses itself.
#[derive(Debug, Args)]
pub struct HznArguments {
    /// Command and its options; see `hzn --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    arguments: Vec<OsString>,
}

impl HznArguments {
    /// Completions of a shell for a line that begins with `evenkeel` and contains no command of `hzn`.
    pub fn candidates(&self, program: impl FnOnce() -> clap::Command) -> Option<Vec<String>> {
        let (complete, words) = self.arguments.split_first()?;
        let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let is_of_program = complete == evenkeel_cli::COMPLETE
            && words.first().is_some_and(|word| Path::new(word).file_name().is_some_and(|name| name != NAME))
            && !(words.len() > 2 && words[1] == NAME);
        is_of_program.then(|| evenkeel_cli::candidates(program(), &words))
    }

    /// Returns the arguments as the command line expects them, starting with its own name.
    pub fn words(self) -> Vec<OsString> {
        std::iter::once(OsString::from(NAME)).chain(self.arguments).collect()
    }
}

/// Returns whether the program was started by a link or copy named `hzn`.
pub fn is_called_so(arguments: &[OsString]) -> bool {
    arguments.first().is_some_and(|name| Path::new(name).file_name().is_some_and(|name| name == NAME))
}

/// Runs the command line; its exit statuses are its own.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    ExitCode::from(evenkeel_cli::run(arguments))
}
