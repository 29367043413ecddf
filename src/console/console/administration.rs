//! Reads about users and settings, and who may change them.

use evenkeel_client::{Path, Resource};
use evenkeel_domain::orchestration::org_settings::OrgSettings;
use evenkeel_wire::exchange::user::{UserResponse, UsersResponse};
use evenkeel_wire::page::PageQuery;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::reads::{Account, ROOT_ORG};
use crate::session::Reader;

/// Rules of the console about the own account.
pub(crate) const OWN_ROLE: &str = "another administrator changes your role";
pub(crate) const OWN_REMOVAL: &str = "another administrator removes your account";
/// The setting whose members are names that the organization chooses.
const BUFFER: &str = "nodeBufferPercentage";
/// The member that only the exchange sets.
const AUTHOR: &str = "lastUpdatedBy";

/// Returns a page of the users of an organization.
pub(crate) async fn users(reader: &Reader, org: &str, query: &PageQuery) -> Result<UsersResponse, Failure> {
    let path = Path::org(org, &["users"]).parameters(query)?;
    Ok(reader.client.get(path).await?.unwrap_or_default())
}

/// Returns a user; none if there is none that the reader may see.
pub(crate) async fn find_user(
    reader: &Reader,
    org: &str,
    name: &str,
) -> Result<Option<UserResponse>, Failure> {
    let found: Option<UsersResponse> = reader.client.get(Path::org(org, &["users", name])).await?;
    Ok(found.and_then(|mut found| found.users.remove(&format!("{org}/{name}"))))
}

/// Returns a user.
pub(crate) async fn user(reader: &Reader, org: &str, name: &str) -> Result<UserResponse, Failure> {
    let found = find_user(reader, org, name).await?;
    found.ok_or_else(|| Failure::Missing(format!("the user {org}/{name} does not exist")))
}

/// Returns whether a user has a password: typed records leave out what the API shows in its place.
pub(crate) async fn has_password(reader: &Reader, org: &str, name: &str) -> Result<bool, Failure> {
    let found = reader.client.record(Resource::User, org, name).await?;
    Ok(found.is_some_and(|(_, record)| has_secret(record.as_value())))
}

fn has_secret(record: &Value) -> bool {
    record["password"].as_str().is_some_and(|shown| !shown.is_empty())
}

/// Returns the word for the role of a user, as forms name it.
pub(crate) fn role_word(user: &UserResponse) -> &str {
    match &user.role {
        _ if user.hub_admin => "hubadmin",
        _ if user.admin => "admin",
        Some(role) => role,
        None => "user",
    }
}

/// Returns the role of a user in words.
pub(crate) fn role_in_words(user: &UserResponse) -> String {
    match (role_word(user), user.policies.as_deref().unwrap_or_default()) {
        ("hubadmin", _) => "administrator of the hub".to_owned(),
        ("admin", _) => "administrator".to_owned(),
        (role, []) => role.to_owned(),
        (role, policies) => format!("{role} of {}", policies.join(", ")),
    }
}

/// Why the reader may not change a user; each is empty if it may.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UserObjections {
    pub(crate) role: String,
    pub(crate) password: String,
    pub(crate) removal: String,
    /// To its API keys.
    pub(crate) keys: String,
}

impl UserObjections {
    pub(crate) fn new(account: &Account, org: &str, name: &str, user: &UserResponse) -> Self {
        let is_own = account.name == format!("{org}/{name}");
        let of_org = account.objection(org, None);
        let general =
            if user.admin || user.hub_admin { to_administrators(account, &of_org) } else { of_org.clone() };
        let unless_own = |text: &str| if is_own { text.to_owned() } else { general.clone() };
        Self {
            role: match is_own {
                true => OWN_ROLE.to_owned(),
                false if of_org.is_empty() && user.hub_admin => {
                    "an administrator of the hub has no other role".to_owned()
                }
                false => of_org,
            },
            password: unless_own(""),
            removal: match (org, name) {
                (ROOT_ORG, "root") => "the root user cannot be removed".to_owned(),
                _ => unless_own(OWN_REMOVAL),
            },
            keys: unless_own(""),
        }
    }
}

/// Returns the objection to changes of administrators, which those of the hub may make.
fn to_administrators(account: &Account, of_org: &str) -> String {
    if account.is_hub_admin { String::new() } else { of_org.to_owned() }
}

/// Returns why the reader may not create users.
pub(crate) fn objection_to_creation(account: &Account, org: &str) -> String {
    to_administrators(account, &account.objection(org, None))
}

/// Where the value of a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingSource {
    Default,
    Hub,
    Organization,
}

impl SettingSource {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Hub => "hub",
            Self::Organization => "organization",
        }
    }
}

/// A setting with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Its name, with dots for members.
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) source: SettingSource,
    /// The value that applies where neither organization nor hub sets one.
    pub(crate) default: String,
}

/// The settings of an organization.
pub(crate) struct Settings {
    /// Those that the organization sets.
    pub(crate) given: Value,
    pub(crate) all: Vec<Setting>,
}

impl Settings {
    fn new(given: Value, shown: &Value) -> Self {
        let defaults = OrgSettings::default().with_defaults().document();
        let all = leaves(shown).into_iter().map(|(key, value)| {
            let default = find(&defaults, &key);
            let source = match find(&given, &key) {
                Some(_) => SettingSource::Organization,
                None if default == Some(&value) => SettingSource::Default,
                None => SettingSource::Hub,
            };
            let default = default.map(in_words).unwrap_or_default();
            Setting { value: in_words(&value), source, default, key }
        });
        Self { all: all.collect(), given }
    }

    pub(crate) fn find(&self, key: &str) -> Option<&Setting> {
        self.all.iter().find(|setting| setting.key == key)
    }

    /// Returns who changed them last.
    pub(crate) fn author(&self) -> &str {
        self.given[AUTHOR].as_str().unwrap_or_default()
    }
}

/// Returns the settings of an organization.
pub(crate) async fn settings(reader: &Reader, org: &str) -> Result<Settings, Failure> {
    let missing = || Failure::Missing(format!("the organization {org} does not exist"));
    let (given, shown) =
        tokio::try_join!(reader.client.org_orchestration(org), reader.client.org_orchestration_record(org))?;
    let given = given.ok_or_else(missing)?.into_value();
    Ok(Settings::new(given, shown.ok_or_else(missing)?.as_value()))
}

/// Returns the members of a document that hold values, by their names with dots.
fn leaves(document: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    collect("", document, &mut found);
    found
}

fn collect(prefix: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(members) if !members.is_empty() && prefix != BUFFER => {
            for (name, value) in members.iter().filter(|(name, _)| *name != AUTHOR) {
                let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                collect(&path, value, found);
            }
        }
        value => found.push((prefix.to_owned(), value.clone())),
    }
}

fn find<'v>(document: &'v Value, key: &str) -> Option<&'v Value> {
    key.split('.').try_fold(document, |value, name| value.get(name))
}

/// Returns a value as a form shows it: texts without quotes.
fn in_words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the document that sets one value; a name with dots is that of a member.
pub(crate) fn nested(key: &str, value: Value) -> Map<String, Value> {
    let (name, value) = match key.split_once('.') {
        Some((name, rest)) => (name, Value::Object(nested(rest, value))),
        None => (key, value),
    };
    Map::from_iter([(name.to_owned(), value)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::reads::LimitingRole;

    fn account(name: &str, is_admin: bool, is_hub_admin: bool) -> Account {
        Account { name: name.to_owned(), is_admin, is_hub_admin, role: None }
    }

    #[test]
    fn settings_name_where_their_values_come_from() {
        let given =
            json!({"eventRetention": 7, "nodeBufferPercentage": {"cpu": 0.1}, "lastUpdatedBy": "o/ann"});
        let given_settings = OrgSettings::read(given.clone()).expect("valid settings");
        let shown = given_settings.or_of_hub(42, 90).with_defaults().document();
        let settings = Settings::new(given, &shown);
        let one = |key: &str| {
            let found = settings.find(key).unwrap_or_else(|| panic!("{key}: {:?}", settings.all));
            (found.value.as_str(), found.source, found.default.as_str())
        };
        assert_eq!(one("eventRetention"), ("7", SettingSource::Organization, "200000"));
        assert_eq!(one("nodeDownAfterSeconds"), ("42", SettingSource::Hub, "180"));
        assert_eq!(one("rejoinGracePeriodSeconds"), ("90", SettingSource::Default, "90"));
        assert_eq!(one("nodeBufferPercentage"), ("{\"cpu\":0.1}", SettingSource::Organization, "{}"));
        assert_eq!(one("blocklist.baseSeconds").1, SettingSource::Default);
        assert_eq!(settings.author(), "o/ann");
        assert!(settings.find("lastUpdatedBy").is_none());
        for setting in &settings.all {
            let change = Value::Object(nested(&setting.key, Value::Null));
            OrgSettings::default().patched(change).unwrap_or_else(|error| panic!("{}: {error}", setting.key));
        }
    }

    #[test]
    fn objections_follow_the_accounts() {
        let plain = UserResponse::default();
        let admin = UserResponse { admin: true, ..UserResponse::default() };
        let hub_admin = UserResponse { hub_admin: true, ..UserResponse::default() };
        let ada = account("o/ada", true, false);
        assert_eq!(UserObjections::new(&ada, "o", "bob", &plain), UserObjections::default());
        let own = UserObjections::new(&ada, "o", "ada", &admin);
        assert_eq!((own.password.as_str(), own.keys.as_str()), ("", ""));
        assert!(!own.role.is_empty() && !own.removal.is_empty(), "nobody locks itself out");
        let bob = account("o/bob", false, false);
        let other = UserObjections::new(&bob, "o", "eve", &plain);
        let only = "only administrators of o may do this";
        assert_eq!(
            [other.role, other.password, other.removal, other.keys],
            [only, only, only, only].map(str::to_owned)
        );
        let hub = account("root/h", false, true);
        assert_eq!(UserObjections::new(&hub, "o", "ada", &admin).password, "");
        assert_eq!(UserObjections::new(&hub, "o", "bob", &plain).password, only);
        let root = account("root/root", true, true);
        assert_eq!(UserObjections::new(&root, "root", "h", &hub_admin).removal, "");
        assert!(!UserObjections::new(&root, "root", "h", &hub_admin).role.is_empty());
        let role = LimitingRole { name: "viewer".to_owned(), policies: Vec::new(), is_of_user: false };
        let vera = Account { role: Some(role), ..account("o/vera", false, false) };
        assert_eq!(UserObjections::new(&vera, "o", "bob", &plain).keys, "your role viewer changes nothing");
        assert_eq!(UserObjections::new(&vera, "o", "vera", &plain).keys, "");
        assert_eq!(objection_to_creation(&hub, "o"), "");
        assert_eq!(objection_to_creation(&bob, "o"), only);
    }

    #[test]
    fn password_is_known_by_what_is_shown_in_its_place() {
        assert!(has_secret(&json!({"password": "***"})));
        assert!(!has_secret(&json!({"password": ""})) && !has_secret(&json!({})));
    }

    #[test]
    fn roles_are_in_words() {
        let deployer = UserResponse {
            role: Some("deployer".to_owned()),
            policies: Some(vec!["shop-*".to_owned(), "web".to_owned()]),
            ..UserResponse::default()
        };
        assert_eq!(role_in_words(&deployer), "deployer of shop-*, web");
        assert_eq!(role_in_words(&UserResponse::default()), "user");
        assert_eq!(role_in_words(&UserResponse { admin: true, ..UserResponse::default() }), "administrator");
    }
}
