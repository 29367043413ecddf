//! The exit statuses of all subcommands, and the message of a failure.
//!
//! The table is also in `docs/reference/exit-codes.md`; a test compares the two.

use std::error::Error;
use std::fmt;

use evenkeel_domain::causes::chain;
use evenkeel_domain::text::printable;

/// Reason why the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// Everything requested was done; for a server: a clean stop after a signal.
    Success = 0,
    /// A failure that none of the others names.
    Failure = 1,
    /// A bad option, a bad setting, or an unusable configuration file.
    Usage = 2,
    /// A listener's address is taken or cannot be bound.
    Address = 3,
    /// The data directory (or a file in it) cannot be used.
    DataDirectory = 4,
    /// The database does not respond, or refuses the login.
    DatabaseUnreachable = 5,
    /// The database was migrated by a newer version of the program.
    DatabaseNewer = 6,
    /// Another process is using the data directory.
    DataDirectoryLocked = 7,
    /// The embedded PostgreSQL cannot be found, fetched, initialized or started.
    Postgres = 8,
    /// A second signal, or the time limit, ended the process before it had drained.
    NotDrained = 9,
    /// The source of an import is not the database of a reference exchange at the level that the import understands.
    ImportSource = 10,
    /// The import left out invalid rows; all others were imported (or would be, in a dry run).
    ImportIncomplete = 11,
}

impl ExitStatus {
    /// Every status with its description in the documentation.
    pub const TABLE: [(ExitStatus, &'static str); 12] = [
        (ExitStatus::Success, "done, or stopped cleanly by a signal"),
        (ExitStatus::Failure, "any other failure"),
        (ExitStatus::Usage, "a bad option, setting or configuration file"),
        (ExitStatus::Address, "an address to listen on is taken or cannot be bound"),
        (ExitStatus::DataDirectory, "the data directory or a file in it cannot be used"),
        (ExitStatus::DatabaseUnreachable, "the database is unavailable or rejects the login"),
        (ExitStatus::DatabaseNewer, "the database belongs to a newer version"),
        (ExitStatus::DataDirectoryLocked, "the data directory is in use by another process"),
        (ExitStatus::Postgres, "the embedded PostgreSQL cannot be found, fetched or started"),
        (ExitStatus::NotDrained, "ended by a second signal or by the time limit before it had drained"),
        (ExitStatus::ImportSource, "the source of the import is not a reference exchange at schema level 62"),
        (ExitStatus::ImportIncomplete, "the import left out rows that cannot be imported, and listed them"),
    ];

    /// The number that the shell sees.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<ExitStatus> for std::process::ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}

/// A failure with the status it ends the process with.
#[derive(Debug)]
pub struct Failure {
    /// The status of the process.
    pub status: ExitStatus,
    /// The attempted action and the reason of its failure, in one sentence.
    pub message: String,
}

impl Failure {
    /// Creates a failure with a message.
    pub fn new(status: ExitStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// Creates a failure from an error and all its causes.
    pub fn from_error(status: ExitStatus, error: &(dyn Error + 'static)) -> Self {
        Self { status, message: chain(error) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&printable(&self.message))
    }
}

impl Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_table_names_every_status() {
        let document = include_str!("../../../docs/reference/exit-codes.md");
        let (document, _) =
            document.split_once("\n## hzn\n").expect("the command line has a table of its own");
        for (status, meaning) in ExitStatus::TABLE {
            let row = format!("| {} | {meaning} |", status.code());
            assert!(document.contains(&row), "docs/reference/exit-codes.md lacks the row {row}");
        }
        let rows =
            document.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit());
        assert_eq!(rows.count(), ExitStatus::TABLE.len());
    }

    #[test]
    fn statuses_are_numbered_as_listed() {
        for (position, (status, _)) in ExitStatus::TABLE.iter().enumerate() {
            assert_eq!(usize::from(status.code()), position);
        }
    }

    #[test]
    fn chain_contains_every_cause_once() {
        let inner = std::io::Error::other("the disk is full");
        let outer = crate::files::FileError::new("write", std::path::Path::new("d/file"), inner);
        assert_eq!(chain(&outer), "cannot write d/file: the disk is full");
    }
}
