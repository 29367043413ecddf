//! Waits until a change of an HA group's members has taken effect.

use std::collections::BTreeSet;

use evenkeel_ids::NodeId;
use evenkeel_wire::agbot::reason::Reason;

use super::policy::is_settled;
use super::{Progress, Wait};
use crate::context::{Context, Exchange};
use crate::exit::{Exit, Outcome};
use crate::resource::ha_group;

/// Waits until the agbot knows the members of a group as they are now and nothing is to be done on them or on `removed`.
///
/// # Errors
/// See [`Wait::follow`].
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
    let qualified = |node: &String| NodeId::new(&org, &exchange.split(node).1);
    let change = Change {
        group: format!("{org}/{id}"),
        members: members.iter().map(&qualified).collect(),
        removed: removed.iter().map(&qualified).collect(),
    };
    let progress = async || {
        let agbot = context.agbot(exchange)?;
        let members = match agbot.client.upgrades(&org, &id).await {
            Ok(group) => group.members,
            // The group was removed, and the agbot has read that.
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(agbot.failed("asking the agbot for the group", &error)),
        };
        let reasons = agbot.call("asking the agbot for its reasons", agbot.client.reasons(&org)).await?;
        Ok(change.judge(&members, &reasons.reasons))
    };
    wait.follow(context, &format!("the change of HA group {}", change.group), progress).await
}

struct Change {
    group: String,
    members: BTreeSet<NodeId>,
    removed: BTreeSet<NodeId>,
}

impl Change {
    fn judge(&self, known: &[NodeId], reasons: &[Reason]) -> Progress {
        let is_unread = !self.members.iter().all(|node| known.contains(node));
        if is_unread || known.iter().any(|node| self.removed.contains(node)) {
            return Progress::Unread(format!("the agbot has not read HA group {} yet", self.group));
        }
        let mut pairs = reasons
            .iter()
            .filter(|pair| self.members.contains(&pair.node) || self.removed.contains(&pair.node));
        match pairs.find(|pair| !is_settled(&pair.placement())) {
            Some(pair) => Progress::Pending(format!("{}: {}", pair.node, pair.text)),
            None => Progress::Done(format!("HA group {} is as requested", self.group)),
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::PolicyId;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn change_has_taken_effect_when_the_agbot_knows_it_and_nothing_waits() {
        let set = |nodes: &[&str]| nodes.iter().map(|node| NodeId::from_text(node)).collect();
        let change = Change { group: "o/g".to_owned(), members: set(&["o/a"]), removed: set(&["o/b"]) };
        let runs = json!({"placement": "placed", "is_running": true});
        let judge = |known: &[&str], state: Value| {
            let known: Vec<NodeId> = known.iter().map(|node| NodeId::from_text(node)).collect();
            let (node, policy) = (NodeId::from_text("o/b"), PolicyId::from_text("o/p"));
            let text = "x".to_owned();
            change.judge(&known, &[Reason { node, policy, state, text }])
        };
        assert!(matches!(judge(&["o/a"], runs.clone()), Progress::Done(_)));
        assert!(matches!(judge(&["o/a", "o/b"], runs.clone()), Progress::Unread(_)));
        assert!(matches!(judge(&[], runs), Progress::Unread(_)));
        assert!(matches!(judge(&["o/a"], json!({"placement": "acting"})), Progress::Pending(_)));
    }
}
