//! Results of commands: the exit status, and for a failure three lines with the operation, the reason and the
//! suggested action.
//!
//! The numbers are those of the existing tool (agbot 5.1), because scripts test them.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

use evenkeel_client::ClientError;
use evenkeel_domain::text::printable;

use crate::settings::{AGENT_URL, CA_FILE};

/// Exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done; also when the result is "no" or "incompatible".
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
    /// The command could not be carried out for a reason inside it.
    Internal = 99,
    /// An interrupt ended the wait of `--wait`.
    Interrupted = 130,
}

impl Exit {
    /// Every status with the words of the table in the documentation.
    pub const TABLE: [(Exit, &'static str); 15] = [
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

    /// A call that failed; `server` is the address that was called, `source` the setting it came from.
    pub fn call(what: impl Into<String>, error: &ClientError, server: &str, source: &'static str) -> Self {
        let is_agent = source == AGENT_URL;
        let why = match error {
            ClientError::Transport { reason, .. } if is_agent => {
                format!("no agent responds at {server}: {reason}")
            }
            ClientError::Transport { reason, .. } => format!("no hub responds at {server}: {reason}"),
            other if is_agent => other.to_string().replace("the hub", "the agent"),
            other => other.to_string(),
        };
        let advice = match error.status() {
            None => of_transport(server, source, error),
            Some(401) => {
                "check id and secret in -u, -n, HZN_EXCHANGE_USER_AUTH or HZN_EXCHANGE_NODE_AUTH".to_owned()
            }
            Some(403) => {
                "use credentials that may do this: those of the owner or of an administrator".to_owned()
            }
            Some(404) => {
                format!("check the names, and that {server} ({source}) is the right address").to_owned()
            }
            Some(409) if is_change_of_mode(error) => {
                "scale the policy to 0 (hzn exchange deployment orchestration scale) and wait until nothing of it runs, or remove it; then write it again"
                    .to_owned()
            }
            Some(409) => "change or remove the object that the reason names, or leave it as it is".to_owned(),
            Some(400) => match other_scheme(server, error) {
                Some(url) => format!("the port uses the other protocol: set {source} to {url}"),
                None => "correct the input according to the reason".to_owned(),
            },
            Some(503) if is_full_disk(error) => {
                "free space on the disk of the hub's database, then try again".to_owned()
            }
            Some(429 | 502 | 503 | 504) => "try again later".to_owned(),
            Some(_) => format!("see the log of {server}"),
        };
        Self { is_retryable: error.is_retryable(), ..Self::new(Exit::Http, what, why, advice) }
    }

    /// Returns the same failure with a more detailed reason.
    pub fn with_reason(self, why: impl Into<String>) -> Self {
        Self { why: why.into(), ..self }
    }

    /// The same failure with an advice that fits it better.
    pub fn with_advice(self, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..self }
    }
}

/// The address with the other scheme, when the failure shows that a server speaks TLS where plain HTTP was tried, or the
/// other way round.
fn other_scheme(server: &str, error: &ClientError) -> Option<String> {
    // Error texts of an HTTP parser for a TLS alert, of a TLS client for an HTTP response, and of common
    // servers for a plain request.
    const OF_TLS_PORT: [&str; 3] = ["invalid HTTP version", "HTTPS port", "HTTPS server"];
    const OF_PLAIN_PORT: [&str; 3] = ["InvalidContentType", "corrupt message", "wrong version number"];
    let text = error.to_string();
    let shows = |signs: [&str; 3]| signs.iter().any(|sign| text.contains(sign));
    match server.split_once("://")? {
        ("http", rest) if shows(OF_TLS_PORT) => Some(format!("https://{rest}")),
        ("https", rest) if shows(OF_PLAIN_PORT) => Some(format!("http://{rest}")),
        _ => None,
    }
}

/// Returns the advice for a request without a response.
fn of_transport(server: &str, source: &str, error: &ClientError) -> String {
    if let Some(url) = other_scheme(server, error) {
        return format!("the port uses the other protocol: set {source} to {url}");
    }
    if let Some(advice) = of_certificate(server, source, error) {
        return advice;
    }
    if source == AGENT_URL {
        return format!(
            "start the agent on this machine, or set {source} to its address; the hub is not concerned"
        );
    }
    format!("check that the hub runs, and {source}, which names its address")
}

/// Returns the advice for a certificate that is not accepted.
fn of_certificate(server: &str, source: &str, error: &ClientError) -> Option<String> {
    let text = error.to_string();
    let shows = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
    if shows(&[
        "UnknownIssuer",
        "CaUsedAsEndEntity",
        "self-signed",
        "self signed",
        "unable to get local issuer",
    ]) {
        return Some(format!(
            "set {CA_FILE} to a file with the authority that signed the hub's certificate (a hub that makes its own keeps it in tls/ca.pem of its data directory)"
        ));
    }
    if shows(&["NotValidForName"]) {
        return Some(format!(
            "set {source} to a name that the certificate of {server} is for, or give the hub one for this name"
        ));
    }
    let is_about_time = shows(&["certificate expired", "Expired", "NotValidYet"]);
    is_about_time.then(|| "renew the certificate of the hub, or set the clock of this machine".to_owned())
}

/// Returns whether a write was refused because mode or kind of scope would change while instances run.
fn is_change_of_mode(error: &ClientError) -> bool {
    matches!(error, ClientError::Status { msg, .. } if msg.contains("mode change needs"))
}

/// Returns true if the hub reports that its storage is full.
fn is_full_disk(error: &ClientError) -> bool {
    matches!(error, ClientError::Status { code, .. } if code == "disk-full")
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
    use evenkeel_domain::orchestration::form::FormConflict;
    use evenkeel_ids::PolicyId;

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
    fn missing_agent_is_not_a_missing_hub() {
        let error = ClientError::Transport { retryable: true, reason: "connection refused".into() };
        let agent = CliError::call("asking", &error, "http://localhost:8510", AGENT_URL);
        assert!(agent.why.starts_with("no agent responds at http://localhost:8510"), "{agent}");
        assert!(agent.advice.contains("start the agent"), "{agent}");
        let hub = CliError::call("asking", &error, "http://h/v1", "HZN_EXCHANGE_URL");
        assert!(
            hub.why.starts_with("no hub responds at") && hub.advice.contains("HZN_EXCHANGE_URL"),
            "{hub}"
        );
    }

    #[test]
    fn wrong_protocol_is_recognized_both_ways() {
        let advice = |server: &str, reason: &str| {
            let error = ClientError::Transport { retryable: true, reason: reason.into() };
            CliError::call("asking", &error, server, "HZN_EXCHANGE_URL").advice
        };
        let plain = advice("https://h:8080/v1", "received corrupt message of type InvalidContentType");
        assert!(plain.ends_with("set HZN_EXCHANGE_URL to http://h:8080/v1"), "{plain}");
        let tls = advice("http://h:8443/v1", "error sending request: invalid HTTP version parsed");
        assert!(tls.ends_with("set HZN_EXCHANGE_URL to https://h:8443/v1"), "{tls}");
        assert!(!advice("http://h/v1", "connection refused").contains("protocol"));
    }

    #[test]
    fn advice_names_the_cure_of_certificates_modes_and_full_disks() {
        let advice =
            |error: &ClientError| CliError::call("asking", error, "https://h/v1", "HZN_EXCHANGE_URL").advice;
        let of_tls =
            |reason: &str| advice(&ClientError::Transport { retryable: true, reason: reason.into() });
        assert!(of_tls("invalid peer certificate: UnknownIssuer").contains("set HZN_MGMT_HUB_CERT_PATH"));
        assert!(of_tls("invalid peer certificate: NotValidForName").contains("set HZN_EXCHANGE_URL"));
        assert!(of_tls("invalid peer certificate: Expired").contains("clock"));
        let status = |status, code: &str, msg: String| {
            advice(&ClientError::Status { status, code: code.into(), msg, retry_after: None })
        };
        let conflict = FormConflict { policy: PolicyId::new("o", "p") };
        assert!(status(409, "conflict", conflict.to_string()).starts_with("scale the policy to 0"));
        assert!(status(503, "disk-full", "full".into()).starts_with("free space"));
        assert_eq!(status(503, "database-connection-error", "busy".into()), "try again later");
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert!(CliError::file("writing", Path::new("f"), &full).advice.starts_with("free space"));
    }

    #[test]
    fn statuses_have_the_numbers_of_the_contract() {
        let codes: Vec<u8> = Exit::TABLE.iter().map(|(exit, _)| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 99, 130]);
    }
}
