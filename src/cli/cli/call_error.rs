//! Failed calls: why a server did not carry out a request, and what to do about it.

use evenkeel_client::ClientError;
use evenkeel_wire::exchange::plan_approval::APPROVAL_REQUIRED;

use crate::exit::{CliError, Exit};
use crate::settings::{AGENT_URL, CA_FILE};

impl CliError {
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
            Some(403) if needs_approval(error) => {
                "request it with hzn approval request, which takes the same names and files, and apply it with hzn approval apply".to_owned()
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
}

/// Returns whether a second person has to approve the write.
fn needs_approval(error: &ClientError) -> bool {
    matches!(error, ClientError::Status { code, .. } if code == APPROVAL_REQUIRED)
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
            "start the agent on this machine, or set {source} to its address; the hub is not involved"
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

#[cfg(test)]
mod tests {
    use evenkeel_domain::orchestration::form::FormConflict;
    use evenkeel_ids::PolicyId;

    use super::*;

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
    }
}
