//! URLs of checks, with parameters that stand for a node.

use serde::Serialize;
use url::Url;

/// Longest URL, in bytes.
const MAX_BYTES: usize = 2048;
const NODE_NAME: &str = "{nodename}";
const NODE_IP: &str = "{nodeip}";

/// A URL of a check, with the parameters `{nodename}` and `{nodeip}`.
///
/// # Source
/// Orchestration C4.1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PollUrl(String);

impl PollUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("must not be longer than {MAX_BYTES} bytes"));
        }
        if text.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
            return Err("must not contain blanks or control characters".to_owned());
        }
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let rest = rest.ok_or_else(|| "must begin with http:// or https://".to_owned())?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.is_empty() || authority.starts_with(':') {
            return Err("must name a host".to_owned());
        }
        if authority.contains('@') {
            return Err("must not contain a user name or password".to_owned());
        }
        let without = text.replace(NODE_NAME, "").replace(NODE_IP, "");
        match without.find(['{', '}']) {
            None => Self(text.to_owned()).checked(),
            Some(start) => {
                let part: String =
                    without[start..].chars().take_while(|letter| *letter != '}').take(40).collect();
                Err(format!("must not contain {part}}}: only {NODE_NAME} and {NODE_IP} are replaced"))
            }
        }
    }

    /// Rejects a template that is not a URL for any node, because such a check would never show anything about an
    /// instance.
    fn checked(self) -> Result<Self, String> {
        // An address and a name as nodes have them.
        let read = Url::parse(&self.expand("node-1", "192.0.2.1"));
        let url = read.map_err(|error| format!("must be a URL that can be requested: {error}"))?;
        match url.port() {
            Some(0) => Err("must have a port from 1 to 65535".to_owned()),
            _ => Ok(self),
        }
    }

    /// Returns whether the address of the node is needed.
    #[must_use]
    pub fn needs_address(&self) -> bool {
        self.0.contains(NODE_IP)
    }

    /// Returns the URL of a node.
    #[must_use]
    pub fn expand(&self, node_name: &str, address: &str) -> String {
        let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        self.0.replace(NODE_NAME, node_name).replace(NODE_IP, &address)
    }

    /// Returns its written form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
