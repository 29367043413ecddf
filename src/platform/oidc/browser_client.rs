//! The `[oidc.console]` table: the hub as a client of the provider, for logins of browsers.

use std::fmt;
use std::path::PathBuf;

use reqwest::Url;
use serde::Deserialize;

use crate::OidcError;
use crate::settings::allowed_url;

/// Path of the redirect address below the public address of the hub.
const REDIRECT_PATH: &str = "/console/login/oidc/callback";
/// Longest accepted name, client id and scope, in characters.
const MAX_NAME: usize = 60;
const MAX_TEXT: usize = 200;
const MAX_SCOPES: usize = 20;
/// Life of a session in seconds. API keys, which sessions are, live for a minute at least.
const SESSION_SECS: std::ops::RangeInclusive<u64> = 60..=43_200;
/// Largest file with a secret, in bytes.
const MAX_SECRET: usize = 4_096;

/// Settings of logins to the console.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BrowserClient {
    /// Name of the provider on the login page.
    pub name: String,
    /// Id of the client at the provider; one of the audiences, because the console opens the API with the id token.
    pub client_id: String,
    /// File with the secret of a confidential client.
    #[serde(default)]
    pub client_secret_file: Option<PathBuf>,
    /// Address of the hub as browsers see it, without a path: the redirect address is below it.
    pub public_url: String,
    /// Scopes besides `openid`.
    #[serde(default = "default_scopes")]
    pub scopes: Vec<String>,
    /// Seconds after which the provider has to confirm the user of a session again.
    #[serde(default = "default_session_secs")]
    pub session_secs: u64,
}

fn default_scopes() -> Vec<String> {
    vec!["profile".to_owned(), "email".to_owned()]
}

fn default_session_secs() -> u64 {
    3_600
}

impl BrowserClient {
    /// Checks rules that the types cannot express.
    pub(crate) fn check(&self, audiences: &[String]) -> Result<(), String> {
        let rule = |is_met: bool, rule: &str| if is_met { Ok(()) } else { Err(format!("console.{rule}")) };
        rule(
            is_printable(&self.name) && self.name.chars().count() <= MAX_NAME,
            "name: 1 to 60 printable characters",
        )?;
        rule(
            is_printable(&self.client_id) && self.client_id.chars().count() <= MAX_TEXT,
            "client-id: 1 to 200 printable characters",
        )?;
        rule(audiences.contains(&self.client_id), "client-id: must be one of the audiences")?;
        rule(
            self.scopes.len() <= MAX_SCOPES && self.scopes.iter().all(|scope| is_scope(scope)),
            "scopes: at most 20, each without blanks",
        )?;
        rule(SESSION_SECS.contains(&self.session_secs), "session-secs: an integer from 60 to 43200")?;
        public_origin(&self.public_url).map(|_| ())
    }

    /// Returns the address to which the provider sends browsers. It is a setting and never derived from a request, whose `Host` an
    /// attacker may choose.
    #[must_use]
    pub fn redirect_address(&self) -> String {
        format!("{}{REDIRECT_PATH}", self.public_address())
    }

    /// Returns the public address without a slash at its end.
    #[must_use]
    pub fn public_address(&self) -> &str {
        self.public_url.trim_end_matches('/')
    }

    /// Returns whether browsers reach the hub over TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        public_origin(&self.public_url).is_ok_and(|url| url.scheme() == "https")
    }

    /// Returns whether a `Host` header is that of the public address.
    #[must_use]
    pub fn is_host(&self, host: &str) -> bool {
        let Ok(url) = public_origin(&self.public_url) else { return false };
        let usual = if url.scheme() == "https" { ":443" } else { ":80" };
        let name = url.host_str().unwrap_or_default();
        let own = url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        own.eq_ignore_ascii_case(host.strip_suffix(usual).unwrap_or(host))
    }

    /// Returns the port of the public address, unless it is the default one.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        public_origin(&self.public_url).ok()?.port()
    }

    /// Returns the value of the parameter `scope`.
    pub(crate) fn scope(&self) -> String {
        let others = self.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid");
        std::iter::once("openid").chain(others).collect::<Vec<_>>().join(" ")
    }

    /// Reads the secret.
    pub(crate) fn read_secret(&self) -> Result<Option<ClientSecret>, OidcError> {
        let Some(file) = &self.client_secret_file else { return Ok(None) };
        let unusable = |why: String| {
            OidcError::Settings(format!("console.client-secret-file: {}: {why}", file.display()))
        };
        let text = std::fs::read_to_string(file).map_err(|error| unusable(error.to_string()))?;
        let secret = text.trim();
        if secret.is_empty() || secret.len() > MAX_SECRET || secret.contains(char::is_control) {
            return Err(unusable(format!("must hold one line with a secret of at most {MAX_SECRET} bytes")));
        }
        Ok(Some(ClientSecret(secret.to_owned())))
    }
}

/// A secret of a client, which `Debug` hides.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ClientSecret(String);

impl ClientSecret {
    /// Returns the secret itself.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ClientSecret")
    }
}

fn is_printable(text: &str) -> bool {
    !text.trim().is_empty() && !text.chars().any(char::is_control)
}

/// RFC 6749, section 3.3.
fn is_scope(text: &str) -> bool {
    let is_sign = |sign: u8| sign.is_ascii_graphic() && sign != b'"' && sign != b'\\';
    !text.is_empty() && text.len() <= MAX_TEXT && text.bytes().all(is_sign)
}

fn public_origin(text: &str) -> Result<Url, String> {
    let url = allowed_url(text).map_err(|why| format!("console.public-url: {why}"))?;
    let is_origin = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let is_anonymous = url.username().is_empty() && url.password().is_none();
    // The address is compared letter by letter at the provider: nothing in it may have two spellings.
    let is_plain = text.trim_end_matches('/') == url.as_str().trim_end_matches('/');
    if is_origin && is_anonymous && is_plain {
        Ok(url)
    } else {
        Err("console.public-url: must be a scheme, a host in lower case and, unless it is the default one, a port, such as https://hub.example".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> BrowserClient {
        BrowserClient {
            name: "Plant".to_owned(),
            client_id: "evenkeel".to_owned(),
            client_secret_file: None,
            public_url: "https://hub.example".to_owned(),
            scopes: default_scopes(),
            session_secs: default_session_secs(),
        }
    }

    #[test]
    fn redirect_address_is_that_of_the_settings() {
        for (public_url, address) in [
            ("https://hub.example", "https://hub.example/console/login/oidc/callback"),
            ("https://hub.example:8443/", "https://hub.example:8443/console/login/oidc/callback"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/console/login/oidc/callback"),
        ] {
            let client = BrowserClient { public_url: public_url.to_owned(), ..client() };
            assert_eq!(client.check(&["evenkeel".to_owned()]), Ok(()));
            assert_eq!(client.redirect_address(), address);
        }
    }

    #[test]
    fn unusable_settings_are_refused_by_name() {
        let refused = |change: fn(&mut BrowserClient), word: &str| {
            let mut client = client();
            change(&mut client);
            let error = client.check(&["evenkeel".to_owned()]).expect_err(word);
            assert!(error.starts_with(&format!("console.{word}")), "{error}");
        };
        refused(|client| client.name = " ".into(), "name");
        refused(|client| client.name = "x".repeat(61), "name");
        refused(|client| client.client_id = "a\nb".into(), "client-id");
        refused(|client| client.client_id = "other".into(), "client-id");
        refused(|client| client.scopes = vec!["a b".into()], "scopes");
        refused(|client| client.scopes = vec!["a".into(); 21], "scopes");
        refused(|client| client.session_secs = 59, "session-secs");
        refused(|client| client.session_secs = 43_201, "session-secs");
        for address in [
            "http://hub.example",
            "https://hub.example/path",
            "https://hub.example?a=b",
            "https://user@hub.example",
            "https://HUB.example",
            "https://hub.example:443",
            "hub.example",
        ] {
            let client = BrowserClient { public_url: address.to_owned(), ..client() };
            let error = client.check(&["evenkeel".to_owned()]).expect_err(address);
            assert!(error.starts_with("console.public-url"), "{address}: {error}");
        }
    }

    #[test]
    fn host_of_the_public_address_is_known_with_and_without_the_usual_port() {
        let at = |public_url: &str, host: &str| {
            BrowserClient { public_url: public_url.to_owned(), ..client() }.is_host(host)
        };
        assert!(at("https://hub.example", "hub.example") && at("https://hub.example", "Hub.example:443"));
        assert!(!at("https://hub.example", "hub.example:80") && !at("https://hub.example", "evil.example"));
        assert!(at("http://127.0.0.1:8080", "127.0.0.1:8080") && !at("http://127.0.0.1:8080", "127.0.0.1"));
        assert!(at("http://[::1]:1", "[::1]:1"));
    }

    #[test]
    fn scope_names_openid_once() {
        assert_eq!(client().scope(), "openid profile email");
        let groups = vec!["openid".to_owned(), "groups".to_owned()];
        assert_eq!(BrowserClient { scopes: groups, ..client() }.scope(), "openid groups");
    }

    #[test]
    fn secret_is_one_line_of_a_file_and_is_not_shown() {
        let directory = std::env::temp_dir().join(format!("evenkeel-secret-{:016x}", rand::random::<u64>()));
        let read = |content: &str| {
            std::fs::write(&directory, content).expect("a file");
            BrowserClient { client_secret_file: Some(directory.clone()), ..client() }.read_secret()
        };
        let secret = read(" s3cret\n").expect("a secret").expect("a secret");
        assert_eq!((secret.expose(), format!("{secret:?}")), ("s3cret", "ClientSecret".to_owned()));
        for content in ["", "\n", "a\nb"] {
            let error = read(content).expect_err(content).to_string();
            assert!(error.contains("console.client-secret-file"), "{error}");
        }
        std::fs::remove_file(&directory).expect("removed");
        assert!(BrowserClient { client_secret_file: Some(directory), ..client() }.read_secret().is_err());
    }
}
