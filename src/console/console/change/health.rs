//! Reports about health, and events that are suppressed by one.

use evenkeel_wire::agbot::health::{HealthEvent, HealthQuery, HealthReport};

use super::catalog::Effect;
use super::{ChangePlan, Outcome, Planned, Refused, Wanted};
use crate::command_line::word;
use crate::failure::Failure;
use crate::health_target::{self, HealthTarget};
use crate::reads;

/// Beginning of the sources that are the hub's own.
pub(crate) const SYSTEM: &str = "System.";

/// Returns the report that a reader wants.
fn body(wanted: &Wanted<'_>) -> Result<HealthReport, Refused> {
    let given = |name: &str| Some(wanted.value(name).to_owned()).filter(|text| !text.is_empty());
    let ttl_seconds = match wanted.value("ttl") {
        "" if wanted.change.effect == Effect::SuppressHealth => {
            return Err(Refused::Field("ttl", "must not be empty".to_owned()));
        }
        "" => None,
        text => Some(
            text.parse()
                .map_err(|_| Refused::Field("ttl", "must be a number of seconds from 1 on".to_owned()))?,
        ),
    };
    Ok(match wanted.change.effect {
        Effect::SuppressHealth => HealthReport {
            source_id: wanted.form.exact("source").to_owned(),
            property: wanted.form.exact("property").to_owned(),
            health_state: "Ok".to_owned(),
            ttl_seconds,
            remove_when_expired: Some(true),
            description: given("description"),
            ..HealthReport::default()
        },
        _ => HealthReport {
            source_id: wanted.value("source").to_owned(),
            property: wanted.value("property").to_owned(),
            health_state: given("state").unwrap_or_else(|| "Warning".to_owned()),
            ttl_seconds,
            remove_when_expired: ttl_seconds.map(|_| wanted.value("expired") != "error"),
            description: given("description"),
            ..HealthReport::default()
        },
    })
}

pub(super) async fn plan(wanted: &Wanted<'_>) -> Result<Planned, Refused> {
    let target = HealthTarget::read(wanted.org, wanted.form);
    let body = body(wanted)?;
    let query = HealthQuery { limit: Some(1), ..HealthQuery::default() };
    let (found, account) = tokio::try_join!(
        health_target::evaluation(wanted.reader, &target, &query),
        reads::account(wanted.reader)
    )?;
    let same = |event: &&HealthEvent| event.source_id == body.source_id && event.property == body.property;
    let event = found.health_events.iter().find(same);
    if wanted.change.effect == Effect::SuppressHealth {
        let Some(event) = event else {
            let text =
                format!("{} has no event of {} about {}", target.in_words(), body.source_id, body.property);
            return Err(Failure::Missing(text).into());
        };
        if event.health_state == "Ok" && !event.is_expired {
            return Err(Failure::Input("the event is Ok: there is nothing to suppress".to_owned()).into());
        }
    }
    let mut objection = target.objection(wanted.reader, &account).await?;
    if body.source_id.starts_with(SYSTEM) {
        let text = format!(
            "sources that begin with {SYSTEM} are the hub's own: their events end when the cause does"
        );
        match wanted.change.effect {
            Effect::SuppressHealth => objection = text,
            _ => return Err(Refused::Field("source", text)),
        }
    }
    let now = event.map_or_else(|| "no event".to_owned(), in_words);
    let mut facts = vec![
        ("about", target.in_words()),
        ("source", body.source_id.clone()),
        ("property", body.property.clone()),
        ("now", now),
        ("then", body.health_state.clone()),
    ];
    facts.extend(body.description.clone().map(|text| ("description", text)));
    facts.extend(body.ttl_seconds.map(|_| ("expires after", wanted.duration("ttl"))));
    let plan = ChangePlan { facts, ..ChangePlan::default() };
    Ok(Planned { plan, command: command(&target, &body), objection, secrets: Vec::new() })
}

/// Returns an event in words.
fn in_words(event: &HealthEvent) -> String {
    let expired = if event.is_expired { ", expired" } else { "" };
    match event.description.as_str() {
        "" => format!("{}{expired}", event.health_state),
        text => format!("{}{expired}: {text}", event.health_state),
    }
}

fn command(target: &HealthTarget, body: &HealthReport) -> String {
    let mut command = format!(
        "hzn exchange health report{} --source {} --property {} --state {}",
        target.arguments(),
        word(&body.source_id),
        word(&body.property),
        word(&body.health_state),
    );
    if let Some(text) = &body.description {
        command.push_str(&format!(" --description {}", word(text)));
    }
    if let Some(secs) = body.ttl_seconds {
        command.push_str(&format!(" --ttl {secs}"));
    }
    if body.remove_when_expired == Some(true) {
        command.push_str(" --remove-when-expired");
    }
    command
}

pub(super) async fn report(wanted: &Wanted<'_>) -> Result<Outcome, Refused> {
    let target = HealthTarget::read(wanted.org, wanted.form);
    let sent = wanted.reader.client.report_health(&target.subject(), &body(wanted)?).await?;
    sent.ok_or_else(|| Failure::Missing(format!("{} does not exist", target.in_words())))?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::Form;

    #[test]
    fn command_does_the_same() {
        let target = HealthTarget::read("o", &Form::parse(b"policy=shop&node=edge+1"));
        let body = HealthReport {
            source_id: "dog".to_owned(),
            property: "Disk".to_owned(),
            health_state: "Ok".to_owned(),
            ttl_seconds: Some(3_600),
            remove_when_expired: Some(true),
            description: Some("it's known".to_owned()),
            ..HealthReport::default()
        };
        let expected = r"hzn exchange health report shop --node 'edge 1' --source dog --property Disk --state Ok --description 'it'\''s known' --ttl 3600 --remove-when-expired";
        assert_eq!(command(&target, &body), expected);
    }
}
