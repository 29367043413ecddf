//! Settings of an organization.

use evenkeel_domain::orchestration::org_settings::OrgSettings;
use evenkeel_wire::agbot::plan::{DependencyWrite, PlannedStopsResponse};
use evenkeel_wire::exchange::plan_approval::ApprovalWrite;
use serde_json::{Map, Value};

use super::catalog::REASON;
use super::{ChangePlan, Outcome, Planned, Refused, Sent, Wanted};
use crate::administration::{self, nested};
use crate::approval;
use crate::command_line::word;
use crate::failure::Failure;
use crate::layout::bare_name;
use crate::reads;

/// Seconds between two heartbeats of an idle agent that was started without another interval.
const HEARTBEAT_SECS: u64 = 30;
/// Policies that a plan names.
const NAMED: usize = 50;

/// Returns the change that a reader wants, as a merge patch.
fn change(wanted: &Wanted<'_>) -> Map<String, Value> {
    let text = wanted.value("value");
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    nested(wanted.form.exact("key"), value)
}

pub(super) async fn plan(wanted: &Wanted<'_>) -> Result<Planned, Refused> {
    let key = wanted.form.exact("key");
    let settings = administration::settings(wanted.reader, wanted.org).await?;
    let now = settings.find(key);
    let now = now.ok_or_else(|| Failure::Missing(format!("there is no setting {key}")))?;
    let change = change(wanted);
    // The API checks it again, in the transaction of the write.
    let checked = OrgSettings::read(settings.given.clone())
        .and_then(|given| given.patched(Value::Object(change.clone())));
    checked.map_err(|error| Refused::Field("value", error.to_string()))?;
    let account = reads::account(wanted.reader).await?;
    let objection = account.objection(wanted.org, None);
    let (concerned, warning) =
        if objection.is_empty() { stops(wanted, &change).await? } else { (Vec::new(), None) };
    let value = wanted.value("value");
    let then = if value == "null" { "what hub or default say".to_owned() } else { value.to_owned() };
    let facts = vec![
        ("setting", key.to_owned()),
        ("now", format!("{} (from: {})", now.value, now.source.word())),
        ("then", then),
        ("default", now.default.clone()),
    ];
    let mut warnings = warnings_about(key, value);
    warnings.extend(warning);
    let assignment = word(&format!("{key}={value}"));
    let (command, secrets) = match approval::is_needed(wanted.reader, wanted.org).await? {
        true => (format!("hzn approval request settings {assignment} --reason TEXT"), vec![&REASON]),
        false => (format!("hzn exchange orchestration settings set {assignment}"), Vec::new()),
    };
    let plan = ChangePlan { facts, concerned, warnings };
    Ok(Planned { plan, command, objection, secrets })
}

/// Returns what a change stops: policy and number of each, and a warning if not all are known.
async fn stops(
    wanted: &Wanted<'_>,
    change: &Map<String, Value>,
) -> Result<(Vec<(String, String)>, Option<String>), Refused> {
    let write = DependencyWrite::Settings { settings: change.clone() };
    match wanted.reader.client.plan_stops(wanted.org, &write).await {
        Ok(found) => Ok(named_stops(wanted.org, found.unwrap_or_default())),
        Err(error) if error.is_unauthorized() => Err(error.into()),
        Err(error) => Ok((
            Vec::new(),
            Some(format!("What the change stops is not known: {}", Failure::from(error).text())),
        )),
    }
}

fn named_stops(org: &str, found: PlannedStopsResponse) -> (Vec<(String, String)>, Option<String>) {
    let others = found.policies.len().saturating_sub(NAMED);
    let named = found.policies.into_iter().take(NAMED).map(|one| {
        let text = format!("{} of {} instances stop", one.stopped, one.instances);
        (bare_name(org, one.policy.as_str()).to_owned(), text)
    });
    (named.collect(), (others > 0).then(|| format!("Instances of {others} more deployment policies stop.")))
}

fn warnings_about(key: &str, value: &str) -> Vec<String> {
    let secs =
        value.parse::<u64>().ok().filter(|secs| key == "nodeDownAfterSeconds" && *secs < 2 * HEARTBEAT_SECS);
    let too_short = secs.map(|secs| {
        format!(
            "{secs} seconds are less than two heartbeats of an agent, which sends one every {HEARTBEAT_SECS} seconds when it is idle: nodes that are alive count \
             as down between two heartbeats, unless their agents were started with a shorter interval."
        )
    });
    let is_priority = key.starts_with("constraintPriorities.");
    let relaxed = is_priority.then(|| {
        "Constraints that are not hard are relaxed without asking: instances start where a rule is violated.".to_owned()
    });
    too_short.into_iter().chain(relaxed).collect()
}

/// Changes the setting, or requests the approval of it.
pub(super) async fn set(wanted: &Wanted<'_>, sent: &Sent<'_>) -> Result<Outcome, Refused> {
    if approval::is_needed(wanted.reader, wanted.org).await? {
        let write = ApprovalWrite::Settings { settings: change(wanted) };
        let reason = sent.form.exact(REASON.name);
        let response = approval::request(wanted.reader, wanted.org, write, reason).await?;
        return Ok(Outcome::Requested(response));
    }
    match wanted.reader.client.patch_org_orchestration(wanted.org, &change(wanted)).await {
        Ok(_) => Ok(Outcome::Done),
        Err(error) if error.status() == Some(400) => {
            Err(Refused::Field("value", Failure::from(error).text()))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_shorter_than_two_heartbeats_is_warned_of() {
        assert_eq!(warnings_about("nodeDownAfterSeconds", "59").len(), 1);
        assert_eq!(warnings_about("nodeDownAfterSeconds", "60"), Vec::<String>::new());
        assert_eq!(warnings_about("readyPeriodSeconds", "1"), Vec::<String>::new());
        assert_eq!(warnings_about("constraintPriorities.Affinity", "1").len(), 1);
    }

    #[test]
    fn stops_of_many_policies_are_counted() {
        let one = evenkeel_wire::agbot::plan::PlannedStops {
            policy: evenkeel_ids::PolicyId::new("o", "p"),
            instances: 3,
            stopped: 2,
            selected: None,
        };
        let found = PlannedStopsResponse { policies: vec![one; 52] };
        let (named, warning) = named_stops("o", found);
        assert_eq!(named.len(), NAMED);
        assert_eq!(named.first(), Some(&("p".to_owned(), "2 of 3 instances stop".to_owned())));
        assert_eq!(warning.as_deref(), Some("Instances of 2 more deployment policies stop."));
        assert_eq!(named_stops("o", PlannedStopsResponse::default()), (Vec::new(), None));
    }
}
