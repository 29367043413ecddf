//! Waits until a change of an HA group's members is carried out.

use std::collections::BTreeSet;

use evenkeel_client::Path;
use serde_json::Value;

use super::policy::is_settled;
use super::{Progress, Wait, entries, read, text};
use crate::context::{Context, Exchange};
use crate::exchange::ha_group;
use crate::exit::{Exit, Outcome};

/// Waits until the agbot knows the members of a group as they are now and nothing is to be done on them or on `removed`.
///
/// # Errors
/// As [`Wait::follow`].
pub async fn follow(
    wait: &Wait,
    context: &Context,
    exchange: &Exchange,
    name: &str,
    removed: &[String],
) -> Outcome {
    if wait.limit.is_none() || context.is_dry_run {
        return Ok(());
    }
    let members = match ha_group::members(exchange, name).await {
        Err(error) if error.exit == Exit::NotFound => Vec::new(),
        found => found?,
    };
    let (org, id) = exchange.split(name);
    let qualified = |node: &String| format!("{org}/{}", exchange.split(node).1);
    let change = Change {
        group: format!("{org}/{id}"),
        members: members.iter().map(&qualified).collect(),
        removed: removed.iter().map(&qualified).collect(),
    };
    let look = async || {
        let path = Path::org(&org, &["hagroups", &id, "upgrades"]);
        let group = context.agbot(exchange)?.get("asking the agbot for the group", &path).await?;
        Ok(change.judge(&group, &read(context, exchange, &org, "reasons").await?))
    };
    wait.follow(context, &format!("the change of HA group {}", change.group), look).await
}

struct Change {
    group: String,
    members: BTreeSet<String>,
    removed: BTreeSet<String>,
}

impl Change {
    fn judge(&self, group: &Value, reasons: &Value) -> Progress {
        if let Some(known) = group.get("members").and_then(Value::as_array) {
            let known: BTreeSet<String> = known.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            if !self.members.is_subset(&known) || known.iter().any(|node| self.removed.contains(node)) {
                return Progress::Pending(format!("the agbot has not read HA group {} yet", self.group));
            }
        }
        let concerns = |pair: &&Value| {
            let node = text(pair, "/node");
            self.members.contains(node) || self.removed.contains(node)
        };
        match entries(reasons, "reasons").iter().filter(concerns).find(|pair| !is_settled(pair)) {
            Some(pair) => Progress::Pending(format!("{}: {}", text(pair, "/node"), text(pair, "/text"))),
            None => Progress::Done(format!("HA group {} is as it was asked for", self.group)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn change_is_carried_out_when_the_agbot_knows_it_and_nothing_waits() {
        let set = |nodes: &[&str]| nodes.iter().map(|node| (*node).to_owned()).collect();
        let change = Change { group: "o/g".to_owned(), members: set(&["o/a"]), removed: set(&["o/b"]) };
        let runs = json!({"placement": "placed", "is_running": true});
        let reasons = |state: Value| json!({"reasons": [{"node": "o/b", "text": "x", "state": state}]});
        let judge =
            |members: Value, state: Value| change.judge(&json!({ "members": members }), &reasons(state));
        assert!(matches!(judge(json!(["o/a"]), runs.clone()), Progress::Done(_)));
        assert!(matches!(judge(json!(["o/a", "o/b"]), runs.clone()), Progress::Pending(_)));
        assert!(matches!(judge(json!([]), runs), Progress::Pending(_)));
        assert!(matches!(judge(json!(["o/a"]), json!({"placement": "acting"})), Progress::Pending(_)));
    }
}
