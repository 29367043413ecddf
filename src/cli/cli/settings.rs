//! Settings from the environment and the files of the existing tool (agbot 5.1).
//!
//! Order: environment, `/etc/default/horizon`, `/etc/horizon/anax.json`, the user's `~/.hzn/hzn.json`,
//! `/etc/horizon/hzn.json`; organization and key files also of the project in the current directory. Options of a command come before all of them and are read elsewhere. A secret may be
//! kept in a file that `<NAME>_FILE` names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::exit::{CliError, Outcome};
use crate::output::warn;
use crate::project;

/// Organization of the user.
pub const ORG: &str = "HZN_ORG_ID";
/// Address of the exchange.
pub const EXCHANGE_URL: &str = "HZN_EXCHANGE_URL";
/// Address of the agbot, if it differs from that of the exchange.
pub const AGBOT_URL: &str = "HZN_AGBOT_URL";
/// Credentials of a user.
pub const USER_AUTH: &str = "HZN_EXCHANGE_USER_AUTH";
/// Credentials of a node.
pub const NODE_AUTH: &str = "HZN_EXCHANGE_NODE_AUTH";
/// Token of an identity provider.
pub const BEARER_TOKEN: &str = "EVENKEEL_BEARER_TOKEN";
/// Address of the agent.
pub const AGENT_URL: &str = "HORIZON_URL";
/// File with the certificate authorities to trust.
pub const CA_FILE: &str = "HZN_MGMT_HUB_CERT_PATH";
/// Private key for signing.
pub const PRIVATE_KEY_FILE: &str = "HZN_PRIVATE_KEY_FILE";
/// Public key that belongs to it.
pub const PUBLIC_KEY_FILE: &str = "HZN_PUBLIC_KEY_FILE";

/// Every setting with its meaning, for the documentation and `hzn env`.
pub const KNOWN: [(&str, &str); 10] = [
    (ORG, "organization, unless -o names one"),
    (
        EXCHANGE_URL,
        "address of the exchange, such as http://hub:8080/v1; /v1 is added to an address without path",
    ),
    (USER_AUTH, "credentials of a user, [org/]user:password, unless -u gives some"),
    (
        BEARER_TOKEN,
        "token of the hub's identity provider; comes before the credentials of a user, unless -u or -n gives some",
    ),
    (NODE_AUTH, "credentials of a node, [org/]node:token, unless -n gives some"),
    (AGENT_URL, "address of the agent on this machine [default: http://localhost:8510]"),
    (AGBOT_URL, "address of the agbot's API [default: that of the exchange]"),
    (CA_FILE, "file with the only certificate authorities to trust, PEM"),
    (PRIVATE_KEY_FILE, "private key for signing, unless -k names one"),
    (PUBLIC_KEY_FILE, "public key that belongs to it, unless -K names one"),
];

const AGENT_DEFAULT: &str = "http://localhost:8510";

/// Sources of settings.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    environment: BTreeMap<String, String>,
    files: Vec<BTreeMap<String, String>>,
    project: BTreeMap<String, String>,
}

/// The settings that the configuration of a project may hold.
const OF_PROJECT: [&str; 3] = [ORG, PRIVATE_KEY_FILE, PUBLIC_KEY_FILE];

impl Settings {
    /// The settings of this process and this machine.
    pub fn of_machine() -> Self {
        let environment: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let home = environment.get("HOME").map(|home| Path::new(home).join(".hzn/hzn.json"));
        let project = std::env::current_dir().ok().and_then(|directory| project::file_of_project(&directory));
        let project = project.map(|file| configuration(&file)).unwrap_or_default();
        Self { project, ..Self::read(environment, Path::new("/etc"), home.as_deref()) }
    }

    /// Settings of an environment and of the files below `etc` and in the user's directory.
    pub fn read(environment: BTreeMap<String, String>, etc: &Path, user_file: Option<&Path>) -> Self {
        let text = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let files = vec![
            shell_assignments(&text(etc.join("default/horizon"))),
            agent_configuration(&text(etc.join("horizon/anax.json"))),
            user_file.map(configuration).unwrap_or_default(),
            configuration(&etc.join("horizon/hzn.json")),
        ];
        Self { environment, files, project: BTreeMap::new() }
    }

    /// A setting that is not empty.
    pub fn find(&self, name: &str) -> Option<&str> {
        let project = OF_PROJECT.contains(&name).then_some(&self.project);
        let sources = std::iter::once(&self.environment).chain(&self.files).chain(project);
        sources.filter_map(|source| source.get(name)).map(String::as_str).find(|value| !value.is_empty())
    }

    /// Returns the value of a variable in a file, from the environment or the configuration files of user and
    /// machine.
    pub fn variable_in_file(&self, name: &str) -> Option<&str> {
        let of_files = || self.files.iter().find_map(|file| file.get(name).filter(|value| !value.is_empty()));
        self.environment.get(name).or_else(of_files).map(String::as_str)
    }

    /// A variable of the project in the current directory.
    pub fn of_project(&self, name: &str) -> Option<&str> {
        self.project.get(name).map(String::as_str)
    }

    /// A variable of the environment.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    /// Returns a secret setting, or the content of the file that `<name>_FILE` names; the first source with either one takes precedence.
    ///
    /// # Errors
    /// With status 4 when that file cannot be read.
    pub fn find_secret(&self, name: &str) -> Outcome<Option<String>> {
        let file_name = format!("{name}_FILE");
        for source in std::iter::once(&self.environment).chain(&self.files) {
            let setting = |name: &str| source.get(name).filter(|value| !value.is_empty());
            if let Some(value) = setting(name) {
                return Ok(Some(value.clone()));
            }
            if let Some(path) = setting(&file_name).map(Path::new) {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| CliError::file(&format!("reading the file of {name},"), path, &error))?;
                return Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()));
            }
        }
        Ok(None)
    }

    /// The address of the agent on this machine.
    pub fn agent_url(&self) -> String {
        self.find(AGENT_URL).unwrap_or(AGENT_DEFAULT).trim_end_matches('/').to_owned()
    }

    /// The directory of the user's signing keys.
    pub fn key_directory(&self) -> PathBuf {
        Path::new(self.variable("HOME").unwrap_or(".")).join(".hzn/keys")
    }
}

/// Adds the API's usual path to an address that has none.
pub fn with_api_path(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    match url.split_once("://") {
        Some((_, rest)) if !rest.contains('/') => format!("{url}/v1"),
        _ => url.to_owned(),
    }
}

/// Reads lines `NAME=value`, as in a shell file; other lines are ignored.
fn shell_assignments(text: &str) -> BTreeMap<String, String> {
    let assignment = |line: &str| {
        let line = line.trim().strip_prefix("export ").unwrap_or(line.trim());
        let (name, value) = line.split_once('=')?;
        let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        let value = value.trim();
        let bare = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
        is_name.then(|| (name.to_owned(), bare.unwrap_or(value).to_owned()))
    };
    text.lines().filter_map(assignment).collect()
}

/// Returns the members of the agent's configuration that the command line needs, too.
fn agent_configuration(text: &str) -> BTreeMap<String, String> {
    let document: Value = serde_json::from_str(text).unwrap_or_default();
    let members = [("ExchangeURL", EXCHANGE_URL), ("AgbotURL", AGBOT_URL), ("CACertsPath", CA_FILE)];
    let read = |(member, name): (&str, &str)| {
        let value = document.get("Edge")?.get(member)?.as_str()?;
        Some((name.to_owned(), value.to_owned()))
    };
    members.into_iter().filter_map(read).collect()
}

/// Returns the settings and variables of a configuration file; one that cannot be used is ignored with a warning.
fn configuration(file: &Path) -> BTreeMap<String, String> {
    let Ok(text) = std::fs::read_to_string(file) else { return BTreeMap::new() };
    match project::parsed(&text) {
        Ok(pairs) => pairs.into_iter().collect(),
        Err(why) => {
            warn(format!("the configuration {} means nothing: {why}", file.display()));
            BTreeMap::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn environment_wins_over_files_and_the_first_file_over_the_next() {
        let directory = tempfile::tempdir().expect("a directory");
        for sub in ["default", "horizon"] {
            std::fs::create_dir(directory.path().join(sub)).expect("a directory");
        }
        let write =
            |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect("a file");
        write(
            "default/horizon",
            "# comment\nexport HZN_ORG_ID='from default'\nHZN_EXCHANGE_URL=http://one\n",
        );
        write("horizon/anax.json", r#"{"Edge":{"ExchangeURL":"http://two","AgbotURL":"http://agbot"}}"#);
        write("horizon/hzn.json", r#"{"HZN_ORG_ID":"x","HZN_EXCHANGE_NODE_AUTH":"n:t"}"#);
        write("user.json", r#"{"HZN_EXCHANGE_NODE_AUTH":"user's"}"#);
        let user = directory.path().join("user.json");
        let settings =
            Settings::read(environment(&[(ORG, "mine"), (AGBOT_URL, "")]), directory.path(), Some(&user));
        assert_eq!(settings.find(ORG), Some("mine"));
        assert_eq!(settings.find(EXCHANGE_URL), Some("http://one"));
        assert_eq!(settings.find(AGBOT_URL), Some("http://agbot"), "an empty variable is not set");
        assert_eq!(settings.find(NODE_AUTH), Some("user's"));
        let settings = Settings::read(environment(&[]), directory.path(), None);
        assert_eq!(settings.find(ORG), Some("from default"));
    }

    #[test]
    fn secret_is_read_from_the_file_that_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("secret");
        std::fs::write(&path, "ann:pass word\n").expect("a file");
        let path = path.to_string_lossy().into_owned();
        let user_file = directory.path().join("hzn.json");
        std::fs::write(&user_file, r#"{"HZN_EXCHANGE_USER_AUTH":"bob:other"}"#).expect("a file");
        let variables = environment(&[("HZN_EXCHANGE_USER_AUTH_FILE", &path)]);
        let settings = Settings::read(variables, directory.path(), Some(&user_file));
        assert_eq!(settings.find_secret(USER_AUTH), Ok(Some("ann:pass word".to_owned())));
        assert_eq!(settings.find_secret(NODE_AUTH), Ok(None));
    }

    #[test]
    fn only_an_address_without_path_gets_the_usual_one() {
        assert_eq!(with_api_path("http://hub:8080/"), "http://hub:8080/v1");
        assert_eq!(with_api_path("https://hub/edge-exchange/v1/"), "https://hub/edge-exchange/v1");
    }
}
