//! Reads the configuration of other agbots of the exchange, where it overlaps with this agbot's.
//!
//! Two agbots that serve the same policy for the same nodes undo each other's agreements. The hub's own agbot, which serves
//! every organization by default, leaves such a policy to the agbot that was configured for it, once an administrator of the nodes confirmed
//! that. Instances of this agbot share one agbot resource and do not count as other agbots. Source: agbot 1.2.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_client::ClientError;
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::other_agbots::{OtherAgbots, ServedElsewhere};

use super::full;
use super::served_entries::{Entries, ServedEntries};
use crate::context::Context;
use crate::settings::OtherAgbotsRule;

/// Reads what other agbots serve; returns an event when it differs from the model.
///
/// # Errors
/// When the exchange does not respond.
pub async fn changed(
    context: &Context,
    served_entries: &ServedEntries,
) -> Result<Option<Event>, ClientError> {
    let others = match context.settings.other_agbots {
        OtherAgbotsRule::Yield => read(context, served_entries).await?,
        OtherAgbotsRule::Ignore => OtherAgbots::default(),
    };
    let is_same = {
        let model = context.model();
        log(model.other_agbots(), &others);
        *model.other_agbots() == others
    };
    Ok((!is_same).then(|| Event::OtherAgbotsChanged { others: Box::new(others) }))
}

async fn read(context: &Context, served_entries: &ServedEntries) -> Result<OtherAgbots, ClientError> {
    let mut others = OtherAgbots::default();
    for org in served_entries.orgs() {
        match read_org(context, served_entries, &org).await {
            Ok(of_org) => others.extend(&of_org, |_| true),
            Err(error) => {
                full::note_failed(context, &org, error).await?;
                others.extend(context.model().other_agbots(), |agbot| agbot.org() == org);
            }
        }
    }
    Ok(others)
}

/// Reads what the other agbots of one organization serve.
async fn read_org(
    context: &Context,
    served_entries: &ServedEntries,
    org: &str,
) -> Result<OtherAgbots, ClientError> {
    let mut others = OtherAgbots::default();
    let own = context.name();
    let agbots = match context.client.list_agbots(org).await {
        // An agbot outside the shared organization may read the agbots of its own organization only.
        Err(ClientError::Status { status: 403, .. }) => BTreeMap::new(),
        found => found?,
    };
    for agbot in agbots.into_keys().filter(|agbot| agbot.as_str() != own) {
        let (agbot_org, id) = (agbot.org(), agbot.name());
        let policies = context.client.list_served_policies(agbot_org, id, true).await?;
        let entries = policies.into_values();
        let entries = entries.map(|one| (one.business_pol_orgid, one.business_pol, one.node_orgid));
        for (org, name, node_org) in shared(&served_entries.policies, entries) {
            others.add_policy(&agbot, &org, &name, &node_org);
        }
        let patterns = context.client.list_served_patterns(agbot_org, id, true).await?;
        let entries = patterns.into_values();
        let entries = entries.map(|one| (one.pattern_orgid, one.pattern, one.node_orgid));
        for (org, name, node_org) in shared(&served_entries.patterns, entries) {
            others.add_pattern(&agbot, &org, &name, &node_org);
        }
    }
    Ok(others)
}

type Entry = (String, String, String);

/// Returns the entries of another agbot that overlap with what this agbot serves.
fn shared(own: &Entries, entries: impl Iterator<Item = Entry>) -> Vec<Entry> {
    let with_node_org = entries.map(|(org, name, node_org)| {
        let node_org = if node_org.is_empty() { org.clone() } else { node_org };
        (org, name, node_org)
    });
    with_node_org.filter(|(org, name, node_org)| overlaps(own, org, name, node_org)).collect()
}

fn overlaps(own: &Entries, org: &str, name: &str, node_org: &str) -> bool {
    own.get(org).is_some_and(|names| {
        let concerns = |own_name: &str| own_name == "*" || name == "*" || own_name == name;
        names.iter().any(|(own_name, nodes)| concerns(own_name) && nodes.contains(node_org))
    })
}

fn log(known: &OtherAgbots, found: &OtherAgbots) {
    let before: BTreeSet<ServedElsewhere<'_>> = known.entries().collect();
    let after: BTreeSet<ServedElsewhere<'_>> = found.entries().collect();
    for entry in after.difference(&before) {
        let ServedElsewhere { org, name, node_org, agbot, .. } = entry;
        tracing::warn!(
            agbot.id = agbot,
            org = node_org,
            "not serving {} `{org}/{name}` for nodes of `{node_org}`: agbot `{agbot}` is configured to serve it",
            kind(entry)
        );
    }
    for entry in before.difference(&after) {
        let ServedElsewhere { org, name, node_org, agbot, .. } = entry;
        tracing::info!(
            agbot.id = agbot,
            org = node_org,
            "agbot `{agbot}` no longer serves {} `{org}/{name}` for nodes of `{node_org}`",
            kind(entry)
        );
    }
}

fn kind(entry: &ServedElsewhere<'_>) -> &'static str {
    if entry.is_pattern { "pattern" } else { "deployment policy" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_in_common_count() {
        let nodes = || BTreeSet::from(["a".parse().unwrap()]);
        let names = |name: &str| BTreeMap::from([(name.to_owned(), nodes())]);
        let own = Entries::from([("a".to_owned(), names("*")), ("b".to_owned(), names("p"))]);
        assert!(overlaps(&own, "a", "any", "a") && overlaps(&own, "a", "*", "a"));
        assert!(overlaps(&own, "b", "p", "a") && overlaps(&own, "b", "*", "a"));
        assert!(!overlaps(&own, "b", "q", "a"), "another policy");
        assert!(!overlaps(&own, "a", "any", "b"), "nodes of another organization");
        let entry = ("a".to_owned(), "p".to_owned(), String::new());
        assert_eq!(
            shared(&own, std::iter::once(entry))[0].2,
            "a",
            "the nodes' organization defaults to the policy's"
        );
    }
}
