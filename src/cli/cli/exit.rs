//! Results of commands: the exit status, and for a failure three lines with the operation, the reason and the
//! suggested action.
//!
//! The numbers are those of the existing tool (agbot 5.1), because scripts test them.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

use evenkeel_domain::text::printable;

/// Exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success; also when the result is "no" or "incompatible".
    Done = 0,
    /// A wrong argument or a wrong use.
    Input = 1,
    /// The result is "no", and `--exit-code` requests a status of its own for that.
    No = 2,
    /// A text is not the JSON that was expected.
    Json = 3,
    /// A file cannot be read or written.
    File = 4,
    /// No response was received, or it has an unexpected status.
    Http = 5,
    /// Something else failed.
    General = 7,
    /// The object does not exist.
    NotFound = 8,
    /// A signature does not match the text.
    SignatureInvalid = 9,
    /// A program that the command started failed.
    Program = 10,
    /// The operation that `--wait` waited for failed or was rolled back.
    WaitFailed = 11,
    /// The operation that `--wait` waited for does not continue until a user acts.
    WaitHeld = 12,
    /// The operation that `--wait` waited for did not finish in time.
    WaitTimeout = 13,
    /// Writes wait for the approval of a second person.
    Approval = 14,
    /// The command failed for an internal reason.
    Internal = 99,
    /// An interrupt ended the wait of `--wait`.
    Interrupted = 130,
}

impl Exit {
    /// Every status with its description in the documentation.
    pub const TABLE: [(Exit, &'static str); 16] = [
        (Exit::Done, "done; also if the result is \"no\" or \"incompatible\", unless `--exit-code` is given"),
        (Exit::Input, "a wrong argument, or something that cannot be done in this state"),
        (Exit::No, "with `--exit-code`: the result is \"no\" or \"incompatible\""),
        (Exit::Json, "a text is not the JSON or YAML that was expected"),
        (Exit::File, "a file cannot be read or written"),
        (Exit::Http, "no response, or a response with an unexpected status"),
        (Exit::General, "any other failure"),
        (Exit::NotFound, "the object does not exist"),
        (Exit::SignatureInvalid, "a signature does not match the text"),
        (Exit::Program, "a program that the command started failed"),
        (Exit::WaitFailed, "with `--wait`: it failed or was rolled back"),
        (Exit::WaitHeld, "with `--wait`: it does not continue until a user acts"),
        (Exit::WaitTimeout, "with `--wait`: the time ended first"),
        (Exit::Approval, "`hzn apply`: writes wait for the approval of a second person"),
        (Exit::Internal, "a step in the middle failed, and what was done before it was undone"),
        (Exit::Interrupted, "with `--wait`: interrupted; the change itself continues"),
    ];

    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// Reason why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliError {
    /// Exit status.
    pub exit: Exit,
    /// The operation that failed.
    pub what: String,
    /// Why.
    pub why: String,
    /// Suggested action.
    pub advice: String,
    /// True if the same call may succeed later.
    pub is_retryable: bool,
}

/// Result of a command.
pub type Outcome<T = ()> = Result<T, CliError>;

impl CliError {
    /// A failure in three sentences.
    pub fn new(
        exit: Exit,
        what: impl Into<String>,
        why: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { exit, what: what.into(), why: why.into(), advice: advice.into(), is_retryable: false }
    }

    /// A wrong argument or a wrong use.
    pub fn input(what: impl Into<String>, why: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Exit::Input, what, why, advice)
    }

    /// An object that does not exist.
    pub fn not_found(kind: &str, name: &str, list_with: &str) -> Self {
        Self::new(
            Exit::NotFound,
            format!("{kind} {name} was not found"),
            "it does not exist, or these credentials may not see it",
            format!("see what there is with: {list_with}"),
        )
    }

    /// A file that cannot be read or written.
    pub fn file(doing: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::new(
            Exit::File,
            format!("{doing} {} failed", path.display()),
            error.to_string(),
            match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space on the disk, then try again",
                ErrorKind::ReadOnlyFilesystem => "choose a path on a disk that can be written",
                _ => "check the path and its permissions",
            },
        )
    }

    /// Returns the same failure with a more detailed reason.
    pub fn with_reason(self, why: impl Into<String>) -> Self {
        Self { why: why.into(), ..self }
    }

    /// Returns the same failure with more specific advice.
    pub fn with_advice(self, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..self }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |text: &str| printable(text).replace('\n', " ");
        writeln!(formatter, "Error: {}", line(&self.what))?;
        writeln!(formatter, "  why:        {}", line(&self.why))?;
        write!(formatter, "  what to do: {}", line(&self.advice))
    }
}

impl std::error::Error for CliError {}

#[cfg(test)]
mod tests {
    use evenkeel_client::ClientError;

    use super::*;

    #[test]
    fn failure_has_three_lines_whatever_the_hub_returns() {
        let error = ClientError::Status {
            status: 409,
            code: "x".into(),
            msg: "one\ntwo\u{1b}[2J\u{202e}\u{9b}2J".into(),
            retry_after: None,
        };
        let text =
            CliError::call("making a group failed", &error, "http://h", "HZN_EXCHANGE_URL").to_string();
        assert_eq!(text.lines().count(), 3);
        assert!(text.starts_with("Error: making a group failed\n"), "{text}");
        assert!(
            !text.contains(['\u{1b}', '\u{202e}', '\u{9b}']),
            "a terminal must not obey the hub: {text:?}"
        );
    }

    #[test]
    fn advice_for_a_full_disk_is_to_free_space() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert!(CliError::file("writing", Path::new("f"), &full).advice.starts_with("free space"));
    }

    #[test]
    fn statuses_have_the_numbers_of_the_contract() {
        let codes: Vec<u8> = Exit::TABLE.iter().map(|(exit, _)| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 99, 130]);
    }
}
