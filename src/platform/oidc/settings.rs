//! The `[oidc]` table of the configuration file, and the choice of a role.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_domain::assigned_role::PolicyPatterns;
use reqwest::Url;
use serde::{Deserialize, Deserializer};

use crate::{BrowserClient, OidcError};

/// Settings of token logins.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OidcSettings {
    /// Issuer exactly as in the tokens; its discovery document is below it. `https`, or `http` on a loopback address.
    pub issuer: String,
    /// Audiences of which a token must name one.
    pub audiences: Vec<String>,
    /// File with the only trusted certificate authorities, PEM; without it those of the system.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Claim that becomes the user's name.
    #[serde(default = "default_user_claim")]
    pub user_claim: String,
    /// Claim with the groups: a name, or a path of names with dots such as `realm_access.roles`.
    #[serde(default = "default_groups_claim")]
    pub groups_claim: String,
    /// Roles of groups; the first match counts.
    pub roles: Vec<GroupRole>,
    /// Lets a provider's user take over the local user of the same name. Only for providers whose names cannot be chosen freely.
    #[serde(default)]
    pub link_existing_users: bool,
    /// Tolerated clock difference in seconds.
    #[serde(default = "default_leeway")]
    pub leeway_secs: u64,
    /// Minimum number of seconds between two fetches of the keys.
    #[serde(default = "default_refresh")]
    pub key_refresh_min_secs: u64,
    /// Seconds after which the keys are fetched again.
    #[serde(default = "default_max_age")]
    pub key_max_age_secs: u64,
    /// Logins to the console; without it the console knows passwords and API keys only.
    #[serde(default)]
    pub console: Option<BrowserClient>,
}

fn default_user_claim() -> String {
    "preferred_username".to_owned()
}

fn default_groups_claim() -> String {
    "groups".to_owned()
}

fn default_leeway() -> u64 {
    30
}

fn default_refresh() -> u64 {
    10
}

fn default_max_age() -> u64 {
    3_600
}

/// A role of the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Full access.
    Root,
    /// Administrator of the hub.
    HubAdmin,
    /// Administrator of one organization.
    OrgAdmin,
    /// User of one organization.
    User,
    /// Reader of one organization.
    Viewer,
    /// The same, who writes and operates the deployment policies that the patterns of the group match.
    Deployer,
}

/// The role of a group.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GroupRole {
    /// Group as written in the claim.
    pub group: String,
    /// Role of its members.
    pub role: Role,
    /// Organization of the role; none for `root` and `hub-admin`, which belong to `root`.
    #[serde(default)]
    pub organization: Option<String>,
    /// Deployment policies of deployers: names, and beginnings of names that end in `*`.
    #[serde(default, deserialize_with = "patterns")]
    pub policies: PolicyPatterns,
}

/// Reads patterns, which are invalid when the list is there and has none.
fn patterns<'de, D: Deserializer<'de>>(input: D) -> Result<PolicyPatterns, D::Error> {
    PolicyPatterns::read(&Vec::<String>::deserialize(input)?).map_err(serde::de::Error::custom)
}

/// Organization of root and hub admins.
const ROOT_ORG: &str = "root";
const LONGEST_LEEWAY: u64 = 300;

impl GroupRole {
    /// Returns the organization of the members.
    #[must_use]
    pub fn organization(&self) -> &str {
        self.organization.as_deref().unwrap_or(ROOT_ORG)
    }

    fn check(&self) -> Result<(), String> {
        let organization = self.organization.as_deref();
        match self.role {
            _ if self.group.is_empty() => Err("roles: group must not be empty".to_owned()),
            Role::Root | Role::HubAdmin if organization.is_some_and(|name| name != ROOT_ORG) => {
                Err(format!("roles: group '{}' needs no organization", self.group))
            }
            _ if (self.role == Role::Deployer) != self.policies.iter().next().is_some() => {
                let group = &self.group;
                Err(format!(
                    "roles: group '{group}' needs policies if its role is deployer, and has none otherwise"
                ))
            }
            Role::OrgAdmin | Role::User | Role::Viewer | Role::Deployer
                if matches!(organization, None | Some("" | ROOT_ORG)) =>
            {
                Err(format!("roles: group '{}' needs an organization, other than root", self.group))
            }
            _ => Ok(()),
        }
    }
}

impl OidcSettings {
    /// Checks rules that the types cannot express.
    ///
    /// # Errors
    /// [`OidcError::Settings`] naming the key and the rule.
    pub fn check(&self) -> Result<(), OidcError> {
        let url = |text: &str| allowed_url(text).map(|_| ());
        url(&self.issuer)
            .map_err(|why| format!("issuer: {why}"))
            .and_then(|()| {
                if self.audiences.iter().any(|name| !name.is_empty()) {
                    Ok(())
                } else {
                    Err("audiences: at least one is needed".to_owned())
                }
            })
            .and_then(|()| {
                if self.leeway_secs <= LONGEST_LEEWAY {
                    Ok(())
                } else {
                    Err(format!("leeway-secs: at most {LONGEST_LEEWAY}"))
                }
            })
            .and_then(|()| {
                if self.roles.is_empty() { Err("roles: at least one is needed".to_owned()) } else { Ok(()) }
            })
            .and_then(|()| self.roles.iter().try_for_each(GroupRole::check))
            .and_then(|()| self.console.iter().try_for_each(|console| console.check(&self.audiences)))
            .map_err(OidcError::Settings)
    }

    /// Returns the role of a user in these groups: the first in the order of the configuration; one in the requested organization
    /// takes precedence.
    #[must_use]
    pub fn choose_role(&self, groups: &[String], organization: Option<&str>) -> Option<&GroupRole> {
        let fits = |rule: &&GroupRole| groups.contains(&rule.group);
        let preferred = |rule: &&GroupRole| organization == Some(rule.organization());
        let there = self.roles.iter().filter(preferred).find(fits);
        there.or_else(|| self.roles.iter().find(fits))
    }

    pub(crate) fn key_max_age(&self) -> Duration {
        Duration::from_secs(self.key_max_age_secs.max(1))
    }

    pub(crate) fn key_refresh_min(&self) -> Duration {
        Duration::from_secs(self.key_refresh_min_secs.max(1))
    }
}

/// Parses a URL that may be called: `https`, or `http` on this machine.
pub(crate) fn allowed_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("'{text}' is not a URL: {error}"))?;
    let is_loopback = match url.host_str() {
        Some("localhost" | "[::1]") => true,
        Some(host) => host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback()),
        None => false,
    };
    match url.scheme() {
        _ if url.host_str().is_none() => Err(format!("'{text}' names no server")),
        "https" => Ok(url),
        "http" if is_loopback => Ok(url),
        _ => Err(format!("'{text}' must begin with https://, or be on a loopback address")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(group: &str, role: Role, organization: Option<&str>) -> GroupRole {
        let organization = organization.map(str::to_owned);
        GroupRole { group: group.into(), role, organization, policies: PolicyPatterns::default() }
    }

    fn shops() -> PolicyPatterns {
        PolicyPatterns::read(&["shop-*".to_owned()]).unwrap_or_default()
    }

    fn settings() -> OidcSettings {
        OidcSettings {
            issuer: "https://idp.example/realms/plant".into(),
            audiences: vec!["evenkeel".into()],
            ca_file: None,
            user_claim: default_user_claim(),
            groups_claim: default_groups_claim(),
            roles: vec![
                rule("admins", Role::HubAdmin, None),
                rule("plant-admins", Role::OrgAdmin, Some("plant")),
                rule("staff", Role::User, Some("plant")),
                rule("staff", Role::User, Some("lab")),
                rule("guests", Role::Viewer, Some("plant")),
                GroupRole { policies: shops(), ..rule("shop", Role::Deployer, Some("plant")) },
            ],
            link_existing_users: false,
            leeway_secs: 30,
            key_refresh_min_secs: 10,
            key_max_age_secs: 3600,
            console: None,
        }
    }

    #[test]
    fn first_matching_rule_counts_and_the_requested_organization_takes_precedence() {
        let settings = settings();
        let role = |groups: &[&str], organization: Option<&str>| {
            let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
            settings
                .choose_role(&groups, organization)
                .map(|rule| (rule.role, rule.organization().to_owned()))
        };
        assert_eq!(role(&["staff", "plant-admins"], None), Some((Role::OrgAdmin, "plant".into())));
        assert_eq!(role(&["staff", "admins"], None), Some((Role::HubAdmin, "root".into())));
        assert_eq!(role(&["staff", "admins"], Some("lab")), Some((Role::User, "lab".into())));
        assert_eq!(role(&["admins"], Some("lab")), Some((Role::HubAdmin, "root".into())));
        assert_eq!(role(&["shop", "guests"], None), Some((Role::Viewer, "plant".into())));
        assert_eq!(role(&["others"], Some("lab")), None);
        assert_eq!(role(&["others"], None), None);
        assert_eq!(role(&[], None), None);
    }

    #[test]
    fn policies_of_a_group_are_read_as_those_of_a_user() {
        let read = |policies: serde_json::Value| {
            let rule = serde_json::json!({"group": "g", "role": "deployer", "organization": "o", "policies": policies});
            serde_json::from_value::<GroupRole>(rule).map_err(|error| error.to_string())
        };
        assert_eq!(read(serde_json::json!(["shop-*"])).map(|rule| rule.policies), Ok(shops()));
        for (policies, word) in [
            (serde_json::json!([]), "at least one"),
            (serde_json::json!(["a", "*b"]), "policies[1]"),
            (serde_json::json!(vec!["a"; 33]), "at most 32"),
        ] {
            let error = read(policies).expect_err(word);
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn insecure_settings_are_refused_by_name() {
        assert_eq!(settings().check(), Ok(()));
        let refused = |change: fn(&mut OidcSettings), word: &str| {
            let mut settings = settings();
            change(&mut settings);
            let error = settings.check().expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        };
        refused(|settings| settings.issuer = "http://idp.example".into(), "issuer");
        refused(|settings| settings.issuer = "http://127.0.0.1.evil.example".into(), "issuer");
        refused(|settings| settings.issuer = "idp".into(), "issuer");
        refused(|settings| settings.audiences = vec![String::new()], "audiences");
        refused(|settings| settings.roles.clear(), "roles");
        refused(|settings| settings.roles[1].organization = None, "plant-admins");
        refused(|settings| settings.roles[2].organization = Some("root".into()), "staff");
        refused(|settings| settings.roles[0].organization = Some("plant".into()), "admins");
        refused(|settings| settings.roles[4].organization = None, "guests");
        refused(|settings| settings.roles[4].policies = shops(), "guests");
        refused(|settings| settings.roles[5].policies = PolicyPatterns::default(), "shop");
        refused(|settings| settings.leeway_secs = 3600, "leeway-secs");
        for issuer in ["http://127.0.0.1:1/x", "http://localhost:1", "http://[::1]:1"] {
            assert!(allowed_url(issuer).is_ok(), "{issuer}");
        }
    }
}
