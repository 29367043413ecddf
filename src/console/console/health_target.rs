//! Objects that have health: what an address names, and their reads.

use evenkeel_client::{ClientError, HealthSubject, Path};
use evenkeel_wire::agbot::health::{HealthEvaluation, HealthQuery};
use evenkeel_wire::agbot::orchestration::{OrchestrationEvent, OrchestrationEvents, OrganizationEventsQuery};

use crate::address::{address_of, with_fields};
use crate::command_line::word;
use crate::failure::Failure;
use crate::form::Form;
use crate::layout::bare_name;
use crate::reads::Account;
use crate::session::Reader;

/// An object that has health: the organization, unless a part names something in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HealthTarget {
    pub(crate) org: String,
    pub(crate) policy: Option<String>,
    pub(crate) unit: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) group: Option<String>,
}

impl HealthTarget {
    /// The organization.
    pub(crate) fn org(org: &str) -> Self {
        Self { org: org.to_owned(), ..Self::default() }
    }

    /// Reads what an address names.
    pub(crate) fn read(org: &str, form: &Form) -> Self {
        let part = |name: &str| Some(form.exact(name).to_owned()).filter(|text| !text.is_empty());
        let (policy, unit, node, group) = (part("policy"), part("unit"), part("node"), part("group"));
        // A unit is one of a policy, and a node with a policy is the instance there.
        let unit = unit.filter(|_| policy.is_some() && node.is_none());
        let group = group.filter(|_| policy.is_none() && node.is_none());
        Self { org: org.to_owned(), policy, unit, node, group }
    }

    /// Returns the object that the API names by kind and id; none if it is not one of this organization, or hidden.
    pub(crate) fn of(org: &str, entity: &str, id: &str) -> Option<Self> {
        let target = match HealthSubject::of(entity, id)? {
            HealthSubject::Org { org } => Self::org(&org),
            HealthSubject::Node { org, node } => Self { node: Some(node), ..Self::org(&org) },
            HealthSubject::Group { org, group } => Self { group: Some(group), ..Self::org(&org) },
            HealthSubject::Workload { org, policy } => Self { policy: Some(policy), ..Self::org(&org) },
            HealthSubject::WorkloadUnit { org, policy, unit } => {
                Self { policy: Some(policy), unit: Some(unit), ..Self::org(&org) }
            }
            HealthSubject::Instance { org, policy, node } => {
                Self { policy: Some(policy), node: Some(node), ..Self::org(&org) }
            }
        };
        let is_hidden = target.node.as_deref().is_some_and(|node| node == "?" || node.ends_with("/?"));
        (target.org == org && !is_hidden).then_some(target)
    }

    pub(crate) fn subject(&self) -> HealthSubject {
        let org = self.org.clone();
        match (self.policy.clone(), self.unit.clone(), self.node.clone(), self.group.clone()) {
            (Some(policy), Some(unit), ..) => HealthSubject::WorkloadUnit { org, policy, unit },
            (Some(policy), None, Some(node), _) => HealthSubject::Instance { org, policy, node },
            (Some(policy), None, None, _) => HealthSubject::Workload { org, policy },
            (None, _, Some(node), _) => HealthSubject::Node { org, node },
            (None, _, None, Some(group)) => HealthSubject::Group { org, group },
            (None, _, None, None) => HealthSubject::Org { org },
        }
    }

    pub(crate) fn in_words(&self) -> String {
        self.subject().to_string()
    }

    /// Returns its parts with their names.
    pub(crate) fn parts(&self) -> Vec<(&'static str, &str)> {
        let parts =
            [("policy", &self.policy), ("unit", &self.unit), ("node", &self.node), ("group", &self.group)];
        parts.into_iter().filter_map(|(name, part)| Some((name, part.as_deref()?))).collect()
    }

    /// Returns the address of its page.
    pub(crate) fn href(&self) -> String {
        with_fields(&address_of(&self.org, &["health"]), self.parts())
    }

    /// Returns the arguments of a command that name it.
    pub(crate) fn arguments(&self) -> String {
        let policy = self.policy.iter().map(|policy| format!(" {}", word(policy)));
        let options = self.parts().into_iter().filter(|(name, _)| *name != "policy");
        policy.chain(options.map(|(name, part)| format!(" --{name} {}", word(part)))).collect()
    }

    /// Returns what contains it, from the organization on, without itself.
    pub(crate) fn ancestors(&self) -> Vec<Self> {
        let mut found = Vec::new();
        if self.parts().is_empty() {
            return found;
        }
        found.push(Self::org(&self.org));
        if self.policy.is_some() && (self.unit.is_some() || self.node.is_some()) {
            found.push(Self { unit: None, node: None, ..self.clone() });
        }
        found
    }

    /// Returns its name among what contains it.
    pub(crate) fn name(&self) -> &str {
        let part = self.unit.as_ref().or(self.node.as_ref()).or(self.group.as_ref()).or(self.policy.as_ref());
        part.unwrap_or(&self.org)
    }

    /// Returns why the reader may not report about it; empty if it may.
    ///
    /// # Errors
    /// When the policy cannot be read.
    pub(crate) async fn objection(&self, reader: &Reader, account: &Account) -> Result<String, Failure> {
        let Some(policy) = &self.policy else { return Ok(account.objection(&self.org, None)) };
        let stored = reader.client.deployment_policy(&self.org, policy).await?;
        let owner = stored.as_ref().map(|stored| stored.owner.as_str());
        Ok(account.policy_objection((&self.org, policy), owner))
    }
}

/// Returns the health of an object.
pub(crate) async fn evaluation(
    reader: &Reader,
    target: &HealthTarget,
    query: &HealthQuery,
) -> Result<HealthEvaluation, Failure> {
    let found = reader.client.health_record(&target.subject(), query).await?;
    let found = found.ok_or_else(|| Failure::Missing(format!("the {} does not exist", target.in_words())))?;
    Ok(found.read().map_err(ClientError::from)?)
}

/// Returns the newest changes of health in an organization, or in a group of it.
pub(crate) async fn changes(
    reader: &Reader,
    org: &str,
    group: Option<&str>,
    limit: u16,
) -> Result<Vec<OrchestrationEvent>, Failure> {
    let query = OrganizationEventsQuery {
        kind: Some("health.*".to_owned()),
        group: group.map(|group| bare_name(org, group).to_owned()),
        limit: Some(limit),
        since: None,
    };
    let path = Path::org(org, &["orchestration", "events"]).parameters(&query)?;
    let found: OrchestrationEvents = reader.client.get_existing(path).await?;
    Ok(found.events)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> HealthTarget {
        HealthTarget::read("o", &Form::parse(query.as_bytes()))
    }

    #[test]
    fn addresses_and_ids_name_the_same_objects() {
        for (entity, id, query) in [
            ("node", "o/a b", "node=a%20b"),
            ("hagroup", "o/g", "group=g"),
            ("workload", "o/p", "policy=p"),
            ("unit", "o/p/all", "policy=p&unit=all"),
            ("unit", "o/pattern/edge/cam/all", "policy=pattern%2Fedge%2Fcam&unit=all"),
            ("instance", "o/p@n", "policy=p&node=n"),
            ("instance", "o/p@other/n", "policy=p&node=other%2Fn"),
        ] {
            let target = HealthTarget::of("o", entity, id).expect("an object");
            assert_eq!(target, read(query), "{id}");
            assert_eq!(target.href(), format!("/console/orgs/o/health?{query}"));
        }
        for (entity, id) in [
            ("node", "other/n"),
            ("node", "o/?"),
            ("instance", "o/p@?"),
            ("instance", "o/p@x/?"),
            ("x", "o/n"),
        ] {
            assert_eq!(HealthTarget::of("o", entity, id), None, "{entity} {id}");
        }
        assert_eq!(read("").href(), "/console/orgs/o/health");
    }

    #[test]
    fn commands_name_the_object() {
        assert_eq!(read("policy=p&unit=g").arguments(), " p --unit g");
        assert_eq!(read("policy=p&node=n+1").arguments(), " p --node 'n 1'");
        assert_eq!(read("group=g").arguments(), " --group g");
        assert_eq!(read("").arguments(), "");
    }

    #[test]
    fn path_leads_from_the_organization_to_the_object() {
        let path = |query: &str| {
            let names: Vec<String> = read(query).ancestors().iter().map(HealthTarget::in_words).collect();
            names.join(", ")
        };
        assert_eq!(path(""), "");
        assert_eq!(path("node=n"), "organization o");
        assert_eq!(path("policy=p&node=n"), "organization o, deployment policy o/p");
    }
}
