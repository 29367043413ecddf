//! API keys: creation and removal.

use evenkeel_wire::exchange::user::NewApiKey;

use super::field::Field;
use super::user::{WantedRole, about_password};
use super::{ChangePlan, Outcome, Planned, Refused, Sent, Wanted};
use crate::administration::{self, UserObjections};
use crate::command_line::word;
use crate::failure::Failure;
use crate::reads;

/// The password of the reader: what a session creates ends with the session.
static PASSWORD: [Field; 1] = [Field::secret(
    "password",
    "Your password",
    "current-password",
    "Needed for a key that outlives your session. Without it, the key ends with the session.",
)
.optional()];

/// Returns the seconds after which a new key ends; none if it does not.
fn expires_in(wanted: &Wanted<'_>) -> Result<Option<i64>, Refused> {
    match wanted.value("expires") {
        "never" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| Refused::Field("expires", "must be a number of seconds, or never".to_owned())),
    }
}

pub(super) async fn plan_creation(wanted: &Wanted<'_>) -> Result<Planned, Refused> {
    let (role, secs) = (WantedRole::read(wanted)?, expires_in(wanted)?);
    let (org, name) = (wanted.org, wanted.form.exact("user"));
    let user = administration::user(wanted.reader, org, name).await?;
    let account = reads::account(wanted.reader).await?;
    let objection = UserObjections::new(&account, org, name, &user).keys;
    let (label, description) = (wanted.value("label"), wanted.value("description"));
    let is_limited = role.limit().0.is_some();
    let facts = vec![
        ("user", format!("{org}/{name}")),
        ("label", label.to_owned()),
        ("description", description.to_owned()),
        ("ends after", wanted.duration("expires")),
        ("role", if is_limited { role.in_words() } else { "all rights of the account".to_owned() }),
    ];
    let option = |name: &str, value: &str| {
        if value.is_empty() { String::new() } else { format!(" --{name} {}", word(value)) }
    };
    let command = [
        format!("hzn exchange user createkey {}", word(name)),
        option("label", label),
        option("description", description),
        option("expires-in", &secs.map(|secs| secs.to_string()).unwrap_or_default()),
        role.options(),
    ];
    let facts = facts.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    let plan = ChangePlan { facts, ..ChangePlan::default() };
    Ok(Planned { plan, command: command.concat(), objection, secrets: PASSWORD.iter().collect() })
}

pub(super) async fn create(wanted: &Wanted<'_>, sent: &Sent<'_>) -> Result<Outcome, Refused> {
    let (role, policies) = WantedRole::read(wanted)?.limit();
    let given = |name: &str| Some(wanted.value(name).to_owned()).filter(|text| !text.is_empty());
    let body = NewApiKey {
        label: given("label"),
        description: given("description"),
        expires_in: expires_in(wanted)?,
        role,
        policies,
    };
    let [password] = &PASSWORD;
    let user = wanted.form.exact("user");
    let created = if sent.form.exact(password.name).is_empty() {
        wanted.reader.client.create_api_key(wanted.org, user, &body).await?
    } else {
        let client = sent.client(wanted.reader, password.name)?;
        let created = client.create_api_key(wanted.org, user, &body).await;
        created.map_err(|error| about_password(password.name, error))?
    };
    Ok(Outcome::Key(Box::new(created)))
}

pub(super) async fn plan_removal(wanted: &Wanted<'_>) -> Result<Planned, Refused> {
    let (org, name, id) = (wanted.org, wanted.form.exact("user"), wanted.form.exact("key"));
    let user = administration::user(wanted.reader, org, name).await?;
    let account = reads::account(wanted.reader).await?;
    let objection = UserObjections::new(&account, org, name, &user).keys;
    let key = user.apikeys.into_iter().find(|key| key.id == id);
    let key = key.ok_or_else(|| Failure::Missing(format!("{org}/{name} has no API key {id}")))?;
    let mut facts = vec![("user", format!("{org}/{name}")), ("key", id.to_owned()), ("label", key.label)];
    facts.push(("ends at", key.expires_at.unwrap_or_else(|| "it does not end".to_owned())));
    let is_own = id == wanted.reader.session.key_id;
    let warnings =
        if is_own { vec!["This is your session: you are logged out.".to_owned()] } else { Vec::new() };
    let facts = facts.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    let command = format!("hzn exchange user removekey {} {}", word(name), word(id));
    let plan = ChangePlan { facts, warnings, ..ChangePlan::default() };
    Ok(Planned { plan, command, objection, secrets: Vec::new() })
}

pub(super) async fn remove(wanted: &Wanted<'_>) -> Result<Outcome, Refused> {
    let (name, id) = (wanted.form.exact("user"), wanted.form.exact("key"));
    if !wanted.reader.client.delete_api_key(wanted.org, name, id).await? {
        return Err(Failure::Missing(format!("{}/{name} has no API key {id}", wanted.org)).into());
    }
    Ok(if id == wanted.reader.session.key_id { Outcome::LoggedOut } else { Outcome::Done })
}
