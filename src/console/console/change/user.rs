//! Users: creation, role, password and removal.

use evenkeel_client::{ClientError, Path, Resource};
use evenkeel_domain::assigned_role::AssignedRole;
use evenkeel_wire::exchange::user::{PutUser, UserResponse};
use evenkeel_wire::page::PageQuery;
use serde_json::{Value, json};

use super::field::{Field, blamed};
use super::{ChangePlan, Outcome, Planned, Refused, Sent, Wanted};
use crate::administration::{
    self, OWN_REMOVAL, OWN_ROLE, UserObjections, objection_to_creation, role_in_words, role_word,
};
use crate::command_line::word;
use crate::failure::Failure;
use crate::reads::{self, ROOT_ORG};

const CURRENT: Field = Field::secret("current", "Your current password", "current-password", "");
const NEW: Field = Field::secret("password", "New password", "new-password", "");
/// Objection of an account that only an identity provider logs in.
const NO_PASSWORD: &str = "your account has no password that you could give here: an administrator sets one";
static OF_OTHERS: [Field; 1] = [NEW];
static OF_OWN: [Field; 2] = [CURRENT, NEW];

/// Kinds of objects that go with their owner, with their names.
const COUNTED: [(Resource, &str); 4] = [
    (Resource::Node, "nodes"),
    (Resource::Service, "services"),
    (Resource::Pattern, "patterns"),
    (Resource::DeploymentPolicy, "deployment policies"),
];

/// A role as a form has it: its word, and the policies of a deployer.
pub(super) struct WantedRole<'w> {
    word: &'w str,
    policies: Vec<String>,
}

impl<'w> WantedRole<'w> {
    /// Reads the fields of a role.
    pub(super) fn read(wanted: &'w Wanted<'_>) -> Result<Self, Refused> {
        let word = match wanted.value("role") {
            "" => wanted.change.inputs().find(|field| field.name == "role").map_or("", first_choice),
            word => word,
        };
        let named = wanted.value("policies").split([',', ' ', '\n', '\r', '\t']);
        let policies: Vec<String> = named.filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if matches!(word, "admin" | "hubadmin" | "") {
            if !policies.is_empty() {
                return Err(Refused::Field("policies", "only the role deployer has policies".to_owned()));
            }
        } else if let Err(error) = AssignedRole::read(word, &policies) {
            let text = error.to_string();
            let field = blamed(&text, wanted.change.inputs()).map_or("role", |field| field.name);
            return Err(Refused::Field(field, text));
        }
        Ok(Self { word, policies })
    }

    /// Returns role and policies as the API takes them; none for one that needs no limit.
    pub(super) fn limit(&self) -> (Option<String>, Option<Vec<String>>) {
        let is_limit = matches!(self.word, "viewer" | "deployer");
        let policies = Some(self.policies.clone()).filter(|policies| !policies.is_empty());
        (is_limit.then(|| self.word.to_owned()), policies)
    }

    pub(super) fn in_words(&self) -> String {
        let (role, policies) = self.limit();
        let (admin, hub_admin) = (self.word == "admin", self.word == "hubadmin");
        role_in_words(&UserResponse { admin, hub_admin, role, policies, ..UserResponse::default() })
    }

    /// Returns the options of a command for it.
    pub(super) fn options(&self) -> String {
        match self.word {
            "admin" => " --admin".to_owned(),
            "hubadmin" => " --hubadmin".to_owned(),
            "viewer" => " --role viewer".to_owned(),
            "deployer" => format!(" --role deployer --policies {}", word(&self.policies.join(","))),
            _ => String::new(),
        }
    }
}

fn first_choice(field: &Field) -> &'static str {
    match field.kind {
        super::field::FieldKind::Choice([(value, _), ..]) => value,
        _ => "",
    }
}

pub(super) async fn plan_creation(wanted: &Wanted<'_>) -> Result<Planned, Refused> {
    let role = WantedRole::read(wanted)?;
    if (role.word == "hubadmin") != (wanted.org == ROOT_ORG) {
        let text = "administrators of the hub are the accounts of the organization root, and of no other one";
        return Err(Refused::Field("role", text.to_owned()));
    }
    let (org, name) = (wanted.org, wanted.value("user"));
    let account = reads::account(wanted.reader).await?;
    let objection = objection_to_creation(&account, org);
    if objection.is_empty() && administration::find_user(wanted.reader, org, name).await?.is_some() {
        return Err(Refused::Field("user", format!("the user {org}/{name} exists already")));
    }
    let email = wanted.value("email");
    let facts = vec![
        ("user", format!("{org}/{name}")),
        ("e-mail address", email.to_owned()),
        ("role", role.in_words()),
    ];
    let command = format!("hzn exchange user create {} - {}{}", word(name), word(email), role.options());
    let plan = ChangePlan { facts, ..ChangePlan::default() };
    Ok(Planned { plan, command, objection, secrets: OF_OTHERS.iter().collect() })
}

pub(super) async fn create(wanted: &Wanted<'_>, sent: &Sent<'_>) -> Result<Outcome, Refused> {
    let role = WantedRole::read(wanted)?;
    let (limit, policies) = role.limit();
    let body = PutUser {
        password: Some(sent.form.exact(NEW.name).to_owned()),
        email: Some(wanted.value("email").to_owned()),
        admin: role.word == "admin",
        hub_admin: role.word == "hubadmin",
        role: limit,
        policies,
    };
    wanted.reader.client.create_user(wanted.org, wanted.value("user"), &body).await?;
    Ok(Outcome::Done)
}

/// Returns the user that the address names, as it is now, with what the reader may not do to it.
async fn subject(wanted: &Wanted<'_>) -> Result<(UserResponse, UserObjections, bool), Refused> {
    let name = wanted.form.exact("user");
    let user = administration::user(wanted.reader, wanted.org, name).await?;
    let account = reads::account(wanted.reader).await?;
    let objections = UserObjections::new(&account, wanted.org, name, &user);
    let is_own = account.name == format!("{}/{name}", wanted.org);
    Ok((user, objections, is_own))
}

/// Returns the changes that give a user a role, in their order: an administrator has no other role, and no limit.
fn steps(user: &UserResponse, role: &WantedRole<'_>) -> Vec<Value> {
    let (limit, policies) = role.limit();
    let mut steps = Vec::new();
    let becomes_admin = role.word == "admin";
    if user.admin && !becomes_admin {
        steps.push(json!({"admin": false}));
    }
    if limit.is_none() && user.role.is_some() {
        steps.push(json!({"role": "user"}));
    }
    if limit.is_some() && (&limit, &policies) != (&user.role, &user.policies) {
        let mut step = json!({"role": role.word});
        if let Some(policies) = policies {
            step["policies"] = json!(policies);
        }
        steps.push(step);
    }
    if becomes_admin && !user.admin {
        steps.push(json!({"admin": true}));
    }
    steps
}

/// Returns the command that does the same as a step.
fn command_of(user: &str, step: &Value) -> String {
    match (step["admin"].as_bool(), step["role"].as_str()) {
        (Some(is_admin), _) => format!("hzn exchange user setadmin {} {is_admin}", word(user)),
        (None, role) => {
            let policies = step["policies"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let policies: Vec<&str> = policies.collect();
            let option = if policies.is_empty() {
                String::new()
            } else {
                format!(" --policies {}", word(&policies.join(",")))
            };
            format!("hzn exchange user setrole {} {}{option}", word(user), role.unwrap_or_default())
        }
    }
}

pub(super) async fn plan_role(wanted: &Wanted<'_>) -> Result<Planned, Refused> {
    let role = WantedRole::read(wanted)?;
    let (user, objections, _) = subject(wanted).await?;
    let steps = steps(&user, &role);
    if steps.is_empty() {
        return Err(Refused::Field("role", format!("it is {} already", role.in_words())));
    }
    let name = wanted.form.exact("user");
    let commands: Vec<String> = steps.iter().map(|step| command_of(name, step)).collect();
    let mut warnings = Vec::new();
    if role_word(&user) == "admin" {
        let text = "Approvals of agbots that the account gave as an administrator end, and so do the API keys that it created for others.";
        warnings.push(text.to_owned());
    }
    let facts = vec![
        ("user", format!("{}/{name}", wanted.org)),
        ("now", role_in_words(&user)),
        ("then", role.in_words()),
    ];
    let plan = ChangePlan { facts, warnings, ..ChangePlan::default() };
    Ok(Planned { plan, command: commands.join(" && "), objection: objections.role, secrets: Vec::new() })
}

fn is_own(wanted: &Wanted<'_>) -> bool {
    let session = &wanted.reader.session;
    (wanted.org, wanted.form.exact("user")) == (session.org.as_str(), session.user.as_str())
}

/// Refuses a change of the own account, which the API would allow: nobody is to lock itself out by mistake.
fn require_other(wanted: &Wanted<'_>, rule: &str) -> Result<(), Refused> {
    if is_own(wanted) { Err(Failure::Input(rule.to_owned()).into()) } else { Ok(()) }
}

pub(super) async fn set_role(wanted: &Wanted<'_>) -> Result<Outcome, Refused> {
    require_other(wanted, OWN_ROLE)?;
    let role = WantedRole::read(wanted)?;
    let name = wanted.form.exact("user");
    let user = administration::user(wanted.reader, wanted.org, name).await?;
    for step in steps(&user, &role) {
        wanted.reader.client.patch(Path::org(wanted.org, &["users", name]), &step).await?;
    }
    Ok(Outcome::Done)
}

pub(super) async fn plan_password(wanted: &Wanted<'_>) -> Result<Planned, Refused> {
    let (user, objections, is_own) = subject(wanted).await?;
    let name = wanted.form.exact("user");
    let secrets: &'static [Field] = if is_own { &OF_OWN } else { &OF_OTHERS };
    let sessions = user.apikeys.iter().filter(|key| reads::is_session(key)).count();
    let mut facts = vec![("user", format!("{}/{name}", wanted.org))];
    if is_own || sessions > 0 {
        facts.push(("sessions that end", sessions.to_string()));
    }
    let warnings =
        if is_own { vec!["You log in again with the new password.".to_owned()] } else { Vec::new() };
    let command = format!("hzn exchange user setpassword {} -", word(name));
    let plan = ChangePlan { facts, warnings, ..ChangePlan::default() };
    let has_none = is_own && !administration::has_password(wanted.reader, wanted.org, name).await?;
    let objection = if has_none { NO_PASSWORD.to_owned() } else { objections.password };
    Ok(Planned { plan, command, objection, secrets: secrets.iter().collect() })
}

/// Turns a refused password into what is wrong with the field that holds it.
pub(super) fn about_password(field: &'static str, error: ClientError) -> Refused {
    if error.is_unauthorized() {
        return Refused::Field(field, "it is not the password of your account".to_owned());
    }
    error.into()
}

pub(super) async fn set_password(wanted: &Wanted<'_>, sent: &Sent<'_>) -> Result<Outcome, Refused> {
    let path = Path::org(wanted.org, &["users", wanted.form.exact("user")]);
    let body = json!({"password": sent.form.exact(NEW.name)});
    if !is_own(wanted) {
        wanted.reader.client.patch(path, &body).await?;
        return Ok(Outcome::Done);
    }
    // A session that somebody has taken over must not become an account that somebody has taken over.
    let client = sent.client(wanted.reader, CURRENT.name)?;
    client.patch(path, &body).await.map_err(|error| about_password(CURRENT.name, error))?;
    Ok(Outcome::LoggedOut)
}

pub(super) async fn plan_removal(wanted: &Wanted<'_>) -> Result<Planned, Refused> {
    let (user, objections, _) = subject(wanted).await?;
    let name = wanted.form.exact("user");
    let mut concerned = vec![("API keys".to_owned(), user.apikeys.len().to_string())];
    for (resource, text) in COUNTED {
        concerned.push((text.to_owned(), owned(wanted, resource, name).await));
    }
    let facts = vec![("user", format!("{}/{name}", wanted.org)), ("role", role_in_words(&user))];
    let command = format!("hzn exchange user remove {}", word(name));
    let plan = ChangePlan { facts, concerned, ..ChangePlan::default() };
    Ok(Planned { plan, command, objection: objections.removal, secrets: Vec::new() })
}

/// Counts what a user owns, in words.
async fn owned(wanted: &Wanted<'_>, resource: Resource, name: &str) -> String {
    let unknown = "some may exist".to_owned();
    if name.contains(['"', '\\']) {
        return unknown;
    }
    let query = PageQuery {
        limit: Some(1),
        filter: Some(format!("owner == \"{}/{name}\"", wanted.org)),
        count: Some(true),
        ..PageQuery::default()
    };
    // The account can be removed although its objects cannot be counted.
    let Ok(found) = wanted.reader.client.records_page(resource, wanted.org, &query).await else {
        return unknown;
    };
    let Some(found) = found else { return "0".to_owned() };
    match (found.count, found.count_is_minimum) {
        (Some(count), false) => count.to_string(),
        (Some(count), true) => format!("{count} or more"),
        (None, _) => unknown,
    }
}

pub(super) async fn remove(wanted: &Wanted<'_>) -> Result<Outcome, Refused> {
    require_other(wanted, OWN_REMOVAL)?;
    let name = wanted.form.exact("user");
    if !wanted.reader.client.delete(Path::org(wanted.org, &["users", name])).await? {
        let text = format!("the user {}/{name} does not exist", wanted.org);
        return Err(Failure::Missing(text).into());
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(admin: bool, role: Option<&str>, policies: &[&str]) -> UserResponse {
        let policies: Vec<String> = policies.iter().map(|name| (*name).to_owned()).collect();
        let policies = Some(policies).filter(|policies| !policies.is_empty());
        UserResponse { admin, role: role.map(str::to_owned), policies, ..UserResponse::default() }
    }

    #[test]
    fn role_is_given_in_steps_of_which_none_gives_more_than_is_wanted() {
        let role = |word, policies: &[&str]| WantedRole {
            word,
            policies: policies.iter().map(|name| (*name).to_owned()).collect(),
        };
        let (plain, viewer) = (user(false, None, &[]), user(false, Some("viewer"), &[]));
        let (admin, deployer) = (user(true, None, &[]), user(false, Some("deployer"), &["a"]));
        for (user, role, expected) in [
            (&plain, role("user", &[]), vec![]),
            (&plain, role("admin", &[]), vec![json!({"admin": true})]),
            (&admin, role("viewer", &[]), vec![json!({"admin": false}), json!({"role": "viewer"})]),
            (&viewer, role("admin", &[]), vec![json!({"role": "user"}), json!({"admin": true})]),
            (&viewer, role("viewer", &[]), vec![]),
            (&deployer, role("deployer", &["a"]), vec![]),
            (&deployer, role("deployer", &["b"]), vec![json!({"role": "deployer", "policies": ["b"]})]),
            (&deployer, role("user", &[]), vec![json!({"role": "user"})]),
        ] {
            assert_eq!(steps(user, &role), expected, "{} of {}", role.word, role_in_words(user));
        }
    }

    #[test]
    fn commands_do_the_same() {
        let step = json!({"role": "deployer", "policies": ["a-*", "b"]});
        assert_eq!(
            command_of("it's", &step),
            r"hzn exchange user setrole 'it'\''s' deployer --policies 'a-*,b'"
        );
        assert_eq!(command_of("ann", &json!({"admin": false})), "hzn exchange user setadmin ann false");
        let role = WantedRole { word: "deployer", policies: vec!["a-*".to_owned()] };
        assert_eq!(role.options(), " --role deployer --policies 'a-*'");
    }
}
