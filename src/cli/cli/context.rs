//! Context of every command: settings, connections to the servers, and output.

use std::io::IsTerminal as _;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use evenkeel_client::{Client, Credentials, HttpSettings, Transport, is_plain_off_loopback};
use evenkeel_ids::NodeId;
use serde_json::Value;

use crate::exit::{CliError, Outcome};
use crate::output::{Screen, View, print_note};
use crate::server::{Server, Trace};
use crate::settings::{self, Settings, with_api_path};

/// True once the user was warned that credentials are sent without TLS, so that a command which calls several
/// servers warns once.
static PLAIN_WARNED: AtomicBool = AtomicBool::new(false);

/// Members with the time of a reading.
const TIMES: [&str; 2] = ["evaluatedAt", "heartbeatAgeSeconds"];

/// The surroundings of one command.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Environment and configuration files.
    pub settings: Settings,
    /// Destination of the output.
    pub screen: Screen,
    /// True if calls are reported on standard error.
    pub is_verbose: bool,
    /// True if writes are not sent.
    pub is_dry_run: bool,
    /// True if files with unknown members or unset variables are rejected.
    pub is_strict: bool,
}

/// Caller of the exchange and its organization.
#[derive(Debug, Clone, Default, Args)]
pub struct UserOptions {
    /// Organization [default: HZN_ORG_ID]
    #[arg(short = 'o', long, alias = "nodeorg", global = true, value_name = "ORG")]
    pub org: Option<String>,
    /// User and password, or apikey and key, as [ORG/]USER:PASSWORD [default: HZN_EXCHANGE_USER_AUTH, which other
    /// users of the machine cannot see]
    #[arg(short = 'u', long, global = true, value_name = "CREDENTIALS")]
    pub user_pw: Option<String>,
}

/// Longest reason, in characters.
const LONGEST_REASON: usize = 1_000;

/// Reason for a write.
#[derive(Debug, Clone, Default, Args)]
pub struct ReasonOption {
    /// Reason for a write, which is recorded with the revision of the document
    #[arg(long, global = true, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
}

impl ReasonOption {
    /// Returns the reason, if one is given.
    pub fn text(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}

fn reason(text: &str) -> Result<String, String> {
    let count = text.chars().count();
    if count > LONGEST_REASON {
        return Err(format!("it has {count} characters, and may have {LONGEST_REASON}"));
    }
    if text.chars().any(char::is_control) {
        return Err("it must be one line of printable characters".to_owned());
    }
    Ok(text.to_owned())
}

/// Shows a result again whenever it changes.
#[derive(Debug, Clone, Default, Args)]
pub struct Watch {
    /// Refresh interval in seconds [default: 2] until interrupted; when piped, write only changes
    #[arg(long = "watch", value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2")]
    pub seconds: Option<u64>,
}

/// The exchange as the caller sees it.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Its server.
    pub server: Server,
    /// The organization that the command works in.
    pub org: String,
    /// Credentials of the caller.
    pub caller: Credentials,
}

impl Context {
    /// The exchange, with the credentials of a user or else of a node.
    ///
    /// # Errors
    /// With status 1 when address, organization or credentials are missing or wrong.
    pub fn exchange(&self, user: &UserOptions, node_auth: Option<&str>) -> Outcome<Exchange> {
        let url = self.exchange_url()?;
        self.exchange_at(url, user, node_auth)
    }

    /// The exchange at a known address.
    ///
    /// # Errors
    /// See [`Context::exchange`].
    pub fn exchange_at(&self, url: String, user: &UserOptions, node_auth: Option<&str>) -> Outcome<Exchange> {
        let org = self.org(user)?;
        let caller = self.caller(user, node_auth, &org)?;
        let server = self.server(url, settings::EXCHANGE_URL, Some(caller.clone()))?;
        Ok(Exchange { server, org, caller })
    }

    /// The exchange without credentials, for reads that need none.
    ///
    /// # Errors
    /// With status 1 when the address is missing or wrong.
    pub fn public_exchange(&self) -> Outcome<Server> {
        self.server(self.exchange_url()?, settings::EXCHANGE_URL, None)
    }

    /// The agbot of an exchange.
    ///
    /// # Errors
    /// With status 1 when its address is wrong.
    pub fn agbot(&self, exchange: &Exchange) -> Outcome<Server> {
        match self.settings.find(settings::AGBOT_URL) {
            Some(url) => {
                let url = url.trim_end_matches('/').to_owned();
                self.server(url, settings::AGBOT_URL, Some(exchange.caller.clone()))
            }
            None => Ok(exchange.server.clone()),
        }
    }

    /// The agent on this machine.
    ///
    /// # Errors
    /// With status 1 when its address is wrong.
    pub fn agent(&self) -> Outcome<Server> {
        self.server(self.settings.agent_url(), settings::AGENT_URL, None)
    }

    /// The address of the exchange.
    ///
    /// # Errors
    /// With status 1 when there is none.
    pub fn exchange_url(&self) -> Outcome<String> {
        self.settings.find(settings::EXCHANGE_URL).map(with_api_path).ok_or_else(|| {
            CliError::input(
                "the exchange cannot be called",
                "its address is not known",
                "set HZN_EXCHANGE_URL, for example to http://localhost:8080/v1",
            )
        })
    }

    /// Returns the organization of the command.
    ///
    /// # Errors
    /// With status 1 when none is named.
    pub fn org(&self, user: &UserOptions) -> Outcome<String> {
        let org = user.org.as_deref().or_else(|| self.settings.find(settings::ORG));
        let org = org.map(str::trim).filter(|org| !org.is_empty() && !org.contains('/'));
        org.map(str::to_owned).ok_or_else(|| {
            CliError::input(
                "no organization is chosen",
                "neither -o nor HZN_ORG_ID names one",
                "give -o ORG or set HZN_ORG_ID",
            )
        })
    }

    /// The credentials of a node, from the option or the settings.
    ///
    /// # Errors
    /// With status 1 when they are malformed, 4 when their file cannot be read.
    pub fn node_credentials(&self, given: Option<&str>, org: &str) -> Outcome<Option<Credentials>> {
        let text = match given {
            Some(text) => Some(text.to_owned()),
            None => self.settings.find_secret(settings::NODE_AUTH)?,
        };
        text.map(|text| parse_credentials(&text, org, "-n or HZN_EXCHANGE_NODE_AUTH", "NODE:TOKEN"))
            .transpose()
    }

    /// The credentials of a user, from the option or the settings.
    ///
    /// # Errors
    /// See [`Context::node_credentials`].
    pub fn user_credentials(&self, user: &UserOptions, org: &str) -> Outcome<Option<Credentials>> {
        let text = match &user.user_pw {
            Some(text) => Some(text.clone()),
            None => self.settings.find_secret(settings::USER_AUTH)?,
        };
        text.map(|text| parse_credentials(&text, org, "-u or HZN_EXCHANGE_USER_AUTH", "USER:PASSWORD"))
            .transpose()
    }

    fn caller(&self, user: &UserOptions, node_auth: Option<&str>, org: &str) -> Outcome<Credentials> {
        if let (None, Some(node)) = (&user.user_pw, node_auth) {
            return parse_credentials(node, org, "-n", "NODE:TOKEN");
        }
        if user.user_pw.is_none()
            && let Some(token) = self.settings.find_secret(settings::BEARER_TOKEN)?
        {
            return Ok(Credentials::bearer(org, token.trim()));
        }
        if let Some(caller) = self.user_credentials(user, org)? {
            return Ok(caller);
        }
        self.node_credentials(None, org)?.ok_or_else(|| {
            CliError::input(
                "the exchange cannot be called",
                "no credentials are given",
                "set HZN_EXCHANGE_USER_AUTH to USER:PASSWORD (or HZN_EXCHANGE_USER_AUTH_FILE to a file with that)",
            )
        })
    }

    /// A server by its address.
    ///
    /// # Errors
    /// With status 1 for a wrong address, 4 when the file with authorities cannot be read.
    pub fn server(&self, url: String, source: &'static str, caller: Option<Credentials>) -> Outcome<Server> {
        let ca_pem = match self.settings.find(settings::CA_FILE).filter(|_| url.starts_with("https://")) {
            Some(path) => Some(std::fs::read(path).map_err(|error| {
                CliError::file("reading the certificate authorities in", FilePath::new(path), &error)
            })?),
            None => None,
        };
        let refuse = |error: evenkeel_client::ClientError| {
            CliError::input(format!("{url} cannot be called"), error.to_string(), format!("correct {source}"))
        };
        let transport =
            Transport::http(HttpSettings { ca_pem, ..HttpSettings::new(url.clone()) }).map_err(refuse)?;
        let trace = Trace { url: url.clone(), is_verbose: self.is_verbose, is_dry_run: self.is_dry_run };
        let transport = transport.observed_by(Arc::new(trace));
        if caller.is_some() && is_plain_off_loopback(&url) && !PLAIN_WARNED.swap(true, Ordering::Relaxed) {
            print_note(format!(
                "warning: {url} is called without TLS, so others on the network can read the credentials; use https"
            ));
        }
        let client = match caller {
            Some(caller) => Client::new(transport, "", caller).map_err(refuse)?,
            None => Client::anonymous(transport, ""),
        };
        Ok(Server { client, url, source, is_dry_run: self.is_dry_run })
    }

    /// Shows the result of `reading`, once or repeatedly according to `watch`, and continues while the server
    /// does not respond for some time.
    ///
    /// # Errors
    /// Those of `reading`, the first time or for another cause.
    pub async fn show_watched(&self, watch: &Watch, reading: impl AsyncFn() -> Outcome<View>) -> Outcome {
        let Some(seconds) = watch.seconds else { return self.screen.show(&reading().await?) };
        let (mut shown, mut is_out_of_date): (Option<View>, bool) = (None, false);
        let is_terminal = std::io::stdout().is_terminal();
        loop {
            match reading().await {
                Ok(view) if shown.as_ref().is_none_or(|shown| is_new(&view, shown, is_terminal)) => {
                    self.screen.show_again(&view)?;
                    (shown, is_out_of_date) = (Some(view), false);
                }
                Ok(_) => is_out_of_date = false,
                // The hub may be restarted meanwhile.
                Err(error) if error.is_retryable && shown.is_some() => {
                    if !is_out_of_date {
                        print_note(format!("out of date: {}; trying again", error.why));
                    }
                    is_out_of_date = true;
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(Duration::from_secs(seconds.max(1))).await;
        }
    }
}

impl Exchange {
    /// Returns the exchange with the reason on each write.
    ///
    /// # Errors
    /// With status 1 for a reason that cannot be sent.
    pub fn with_reason(mut self, option: &ReasonOption) -> Outcome<Self> {
        if let Some(reason) = &option.reason {
            self.server.client = self.server.client.clone().with_reason(reason).map_err(|error| {
                CliError::input("the reason cannot be sent", error.to_string(), "correct --reason")
            })?;
        }
        Ok(self)
    }

    /// Returns the id of a node; a bare name belongs to the command's organization.
    pub fn node_id(&self, name: &str) -> NodeId {
        let (org, id) = self.split(name);
        NodeId::new(&org, &id)
    }

    /// Returns organization and id of a name; a bare name belongs to the command's organization.
    pub fn split(&self, name: &str) -> (String, String) {
        split_name(name, &self.org)
    }
}

/// Returns whether a view is to be shown after the previous one. In a pipe, a view that differs only in ages is not repeated.
fn is_new(view: &View, shown: &View, is_terminal: bool) -> bool {
    match is_terminal {
        true => view != shown,
        false => (&view.plain, without_times(&view.json)) != (&shown.plain, without_times(&shown.json)),
    }
}

/// Returns a document without the members that change with each reading.
fn without_times(document: &Value) -> Value {
    match document {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, _)| !TIMES.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name.clone(), without_times(value))).collect())
        }
        Value::Array(elements) => elements.iter().map(without_times).collect(),
        scalar => scalar.clone(),
    }
}

/// Organization and id of `[org/]id`.
pub fn split_name(name: &str, default_org: &str) -> (String, String) {
    let (org, id) = name.split_once('/').unwrap_or((default_org, name));
    (org.to_owned(), id.to_owned())
}

fn parse_credentials(text: &str, org: &str, place: &str, form: &str) -> Outcome<Credentials> {
    Credentials::parse(text, org).ok_or_else(|| {
        CliError::input(
            format!("the credentials in {place} cannot be used"),
            format!("they are not of the form [ORG/]{form}"),
            "correct them; quote them in the shell when they hold special characters",
        )
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn context(pairs: &[(&str, &str)]) -> Context {
        let environment: BTreeMap<String, String> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let settings = Settings::read(environment, FilePath::new("/nonexistent"), None);
        Context { settings, ..Context::default() }
    }

    #[test]
    fn options_win_over_the_environment_and_users_over_nodes() {
        let context = context(&[
            (settings::ORG, "acme"),
            (settings::EXCHANGE_URL, "http://hub:1"),
            (settings::USER_AUTH, "ann:a:b"),
            (settings::NODE_AUTH, "n1:t"),
        ]);
        let name = |user: Option<&str>, node: Option<&str>| {
            let user = UserOptions { org: None, user_pw: user.map(str::to_owned) };
            context.exchange(&user, node).map(|exchange| exchange.caller.name())
        };
        assert_eq!(name(None, None), Ok("acme/ann".to_owned()));
        assert_eq!(name(Some("root/root:x"), Some("n2:t")), Ok("root/root".to_owned()));
        assert_eq!(name(None, Some("n2:t")), Ok("acme/n2".to_owned()));
        assert_eq!(name(Some("nopassword"), None).map_err(|error| error.exit), Err(crate::exit::Exit::Input));
        let exchange = context.exchange(&UserOptions::default(), None).expect("complete settings");
        assert_eq!(exchange.server.url, "http://hub:1/v1");
        assert_eq!(exchange.caller.secret(), "a:b");
    }

    #[test]
    fn token_comes_before_a_password_of_the_environment_and_after_options() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("token");
        std::fs::write(&file, "a.b.c\n").expect("a file");
        let context = context(&[
            (settings::ORG, "acme"),
            (settings::EXCHANGE_URL, "http://hub:1"),
            (settings::USER_AUTH, "ann:a"),
            ("EVENKEEL_BEARER_TOKEN_FILE", &file.to_string_lossy()),
        ]);
        let caller = |user: Option<&str>, node: Option<&str>| {
            let user = UserOptions { org: None, user_pw: user.map(str::to_owned) };
            context.exchange(&user, node).expect("complete settings").caller
        };
        assert!(caller(None, None).is_bearer());
        assert_eq!(caller(None, None).secret(), "a.b.c");
        assert!(!caller(Some("ann:a"), None).is_bearer() && !caller(None, Some("n1:t")).is_bearer());
    }

    #[test]
    fn what_is_missing_is_named() {
        let user = UserOptions::default();
        let error = context(&[]).exchange(&user, None).expect_err("no address");
        assert!(error.advice.contains("HZN_EXCHANGE_URL"));
        let error = context(&[(settings::EXCHANGE_URL, "http://h")])
            .exchange(&user, None)
            .expect_err("no organization");
        assert!(error.advice.contains("HZN_ORG_ID"));
        let with_org = [(settings::EXCHANGE_URL, "http://h"), (settings::ORG, "o")];
        let error = context(&with_org).exchange(&user, None).expect_err("no credentials");
        assert!(error.advice.contains("HZN_EXCHANGE_USER_AUTH"));
        let error = context(&[(settings::EXCHANGE_URL, "hub:1")]).public_exchange().expect_err("no URL");
        assert_eq!(error.exit, crate::exit::Exit::Input);
    }

    #[test]
    fn passing_of_time_is_nothing_new_in_a_pipe() {
        let view = |at: &str, age: u64, placed: u32| {
            let state = json!({"state": "up", "heartbeatAgeSeconds": age});
            View::of(json!([{"evaluatedAt": at, "placed": placed, "nodeState": state}]))
        };
        let shown = view("t1", 1, 1);
        assert!(!is_new(&view("t2", 3, 1), &shown, false) && is_new(&view("t2", 3, 1), &shown, true));
        assert!(is_new(&view("t2", 3, 2), &shown, false));
    }

    #[test]
    fn names_may_name_their_organization() {
        assert_eq!(split_name("n1", "acme"), ("acme".to_owned(), "n1".to_owned()));
        assert_eq!(split_name("other/n1", "acme"), ("other".to_owned(), "n1".to_owned()));
    }
}
