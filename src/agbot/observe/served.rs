//! What the agbot serves: which policies for the nodes of which organizations.
//!
//! Source: agbot 1.2.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_client::ClientError;
use evenkeel_client::model::ServedPolicy;
use evenkeel_store::StoreError;
use evenkeel_store::agbot::offered;
use evenkeel_store::exchange::served::{ServedRow, insert_policy};

use crate::context::Context;

/// Which policies are served for which organizations' nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Served {
    own_org: String,
    /// Policy organization → policy id or `*` → node organizations.
    entries: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Served {
    /// Organizations whose changes matter.
    #[must_use]
    pub fn orgs(&self) -> BTreeSet<String> {
        let mut orgs = self.node_orgs();
        orgs.extend(self.entries.keys().cloned());
        orgs.insert(self.own_org.clone());
        orgs
    }

    /// Organizations whose nodes are served.
    #[must_use]
    pub fn node_orgs(&self) -> BTreeSet<String> {
        self.entries.values().flat_map(BTreeMap::values).flatten().cloned().collect()
    }

    /// Organizations whose deployment policies are served.
    pub fn policy_orgs(&self) -> impl Iterator<Item = &String> {
        self.entries.keys()
    }

    /// Whether nodes of the organization are served.
    #[must_use]
    pub fn serves_nodes_of(&self, org: &str) -> bool {
        self.entries.values().flat_map(BTreeMap::values).any(|orgs| orgs.contains(org))
    }

    /// Organizations whose nodes a policy is served for; empty when it is not served.
    #[must_use]
    pub fn node_orgs_of(&self, org: &str, policy: &str) -> BTreeSet<String> {
        let Some(policies) = self.entries.get(org) else { return BTreeSet::new() };
        [policies.get("*"), policies.get(policy)].into_iter().flatten().flatten().cloned().collect()
    }

    /// Whether an organization that came or went changes what there is to read.
    #[must_use]
    pub fn is_affected_by_org(&self, org: &str, operation: &str) -> bool {
        matches!(operation, "deleted" | "created") && self.orgs().contains(org)
    }

    fn add(&mut self, entry: ServedPolicy) {
        let node_org =
            if entry.node_orgid.is_empty() { entry.business_pol_orgid.clone() } else { entry.node_orgid };
        self.entries
            .entry(entry.business_pol_orgid)
            .or_default()
            .entry(entry.business_pol)
            .or_default()
            .insert(node_org);
    }
}

/// Reads what the exchange says that this agbot serves.
///
/// # Errors
/// When the exchange does not answer.
pub async fn read(context: &Context) -> Result<Served, ClientError> {
    let mut served = Served { own_org: context.settings.org.clone(), ..Served::default() };
    let entries = context.client.list_served_policies(&context.settings.org, &context.settings.id).await?;
    for entry in entries.into_values() {
        served.add(entry);
    }
    Ok(served)
}

/// Serves all policies of an organization that has come to be for its own nodes, and notes that it was offered: what an
/// administrator takes out of the served entries later stays out. Being served already is fine.
///
/// The entry is the hub's own arrangement, made beside the API: no row of the feed tells other agbots of it.
///
/// # Errors
/// When the database does not answer.
pub async fn offer_org(context: &Context, org: &str) -> Result<(), StoreError> {
    let entry = ServedRow {
        entry: format!("{org}_*_{org}"),
        subject_org: org.to_owned(),
        subject: "*".to_owned(),
        node_org: org.to_owned(),
        updated_at: context.now(),
    };
    let mut connection = context.database.acquire().await?;
    let added = insert_policy(&mut connection, &context.settings.org, &context.settings.id, &entry).await;
    match added {
        Ok(()) | Err(StoreError::Conflict { .. }) => offered::insert_offered(&mut connection, org).await,
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(org: &str, policy: &str, node_org: &str) -> ServedPolicy {
        ServedPolicy {
            business_pol_orgid: org.into(),
            business_pol: policy.into(),
            node_orgid: node_org.into(),
            ..ServedPolicy::default()
        }
    }

    #[test]
    fn a_star_serves_every_policy_of_its_organization() {
        let mut served = Served { own_org: "hub".into(), ..Served::default() };
        served.add(entry("a", "*", ""));
        served.add(entry("a", "p", "b"));
        assert_eq!(served.node_orgs_of("a", "q"), BTreeSet::from(["a".to_owned()]));
        assert_eq!(served.node_orgs_of("a", "p"), BTreeSet::from(["a".to_owned(), "b".to_owned()]));
        assert!(served.node_orgs_of("b", "p").is_empty());
        assert!(served.serves_nodes_of("b") && !served.serves_nodes_of("hub"));
        assert_eq!(served.orgs().len(), 3);
    }
}
