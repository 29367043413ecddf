//! The decision on a proposal (agreement protocol 2.6).

use evenkeel_domain::policy::compatibility::deployment::needs_privileges;
use evenkeel_domain::policy::internal::{InternalPolicy, Workload, common_protocols, producer_name};
use evenkeel_domain::policy::property::builtin;
use evenkeel_wire::{agreement::message::PROTOCOL, signature};

use serde_json::Value;

use super::{Agreement, Dependency, MOST_LIVE, State, WorkloadName, merge_builtin};

/// Approval of an agbot by the exchange for agreements with this node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AgbotStanding {
    /// It does.
    Approved,
    /// It does not.
    #[default]
    NotApproved,
    /// It names none, like third-party exchanges: agbots of the node's organization and of the shared one are accepted.
    Unknown,
}

/// The deployment in the record of the proposed service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublishedDeployment {
    /// Its text.
    pub text: String,
    /// Its signature.
    pub signature: String,
}

/// The facts to judge a proposal.
#[derive(Debug, Clone, Default)]
pub struct ProposalFacts {
    /// Standing of the agbot that sent it.
    pub standing: AgbotStanding,
    /// Deployment as its publisher signed it; `None` when the exchange has no such service.
    pub published: Option<PublishedDeployment>,
    /// Services of the node's pattern, as organization and URL; `None` for nodes without one.
    pub pattern_services: Option<Vec<(String, String)>>,
    /// Texts of the trusted key files, including those of the service's publisher.
    pub trusted_keys: Vec<String>,
    /// The service's id in the exchange, `org/service`, empty when it was not found.
    pub service_id: String,
    /// User input as environment variables, in order.
    pub inputs: Vec<(String, String)>,
    /// The service's dependencies, in start order.
    pub dependencies: Vec<DependencyFacts>,
    /// The reason why they could not be resolved.
    pub unresolved: Option<String>,
    /// The reason why the facts cannot be read: then the others are empty.
    pub unreadable: Option<String>,
}

/// A dependency of the proposed service, with the keys to verify it.
#[derive(Debug, Clone, Default)]
pub struct DependencyFacts {
    /// The service.
    pub dependency: Dependency,
    /// Signature of its deployment.
    pub signature: String,
    /// Texts of the trusted key files, including those of its publisher.
    pub trusted_keys: Vec<String>,
}

/// The organization whose agbots serve all others.
const SHARED_ORG: &str = "IBM";

/// The decision on a proposal.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Dropped without a reply; the agbot times out.
    Ignore(String),
    /// Refused.
    Refuse(String),
    /// Accepted.
    Accept(Box<Agreement>),
}

/// A received proposal.
pub(super) struct Proposal<'a> {
    pub id: &'a str,
    pub version: i64,
    /// Sender named by the exchange.
    pub from: &'a str,
    pub terms: &'a str,
    pub producer_policy: &'a str,
    pub consumer_id: &'a str,
}

impl State {
    /// Decides on a proposal at `now` (seconds since 1970).
    pub(super) fn judge(&self, proposal: &Proposal<'_>, facts: &ProposalFacts, now: u64) -> Decision {
        let terms = match self.precheck(proposal, facts, now) {
            Ok(terms) => terms,
            Err(reason) => return Decision::Ignore(reason),
        };
        match self.fit(proposal, facts, &terms).and_then(|()| check_dependencies(facts, now)) {
            Ok(()) => Decision::Accept(Box::new(self.agreement(proposal, facts, &terms, now))),
            Err(reason) => Decision::Refuse(reason),
        }
    }

    /// Checks 1 to 8: a failure gets no reply.
    fn precheck(
        &self,
        proposal: &Proposal<'_>,
        facts: &ProposalFacts,
        now: u64,
    ) -> Result<InternalPolicy, String> {
        if !is_usable_id(proposal.id) {
            return Err("its id cannot be used as a name".to_owned());
        }
        if self.agreements.contains_key(proposal.id) {
            return Err("the agreement is known already".to_owned());
        }
        if proposal.consumer_id != proposal.from {
            return Err(format!("it names {} as its sender", proposal.consumer_id));
        }
        self.check_agbot(proposal, facts)?;
        let terms =
            InternalPolicy::from_text(proposal.terms).map_err(|error| format!("its terms: {error}"))?;
        let workload = only_workload(&terms)?;
        if workload.deployment.is_empty() {
            return Err("it has no deployment for a device".to_owned());
        }
        if terms.pattern_id != self.facts.pattern {
            return Err("it is for another pattern".to_owned());
        }
        let is_task = |id: &str| self.task_of(id).is_some();
        let competes = |other: &&Agreement| {
            other.name == terms.header.name && !(is_task(proposal.id) && is_task(&other.id))
        };
        if let Some(other) = self.live().find(competes) {
            return Err(format!("agreement {} has the same terms", other.id));
        }
        if self.live().count() >= MOST_LIVE {
            return Err("the node has the maximum number of agreements".to_owned());
        }
        if !terms.agreement_protocols.is_empty()
            && !terms.agreement_protocols.iter().any(|protocol| protocol.name == PROTOCOL)
        {
            return Err("it needs another protocol".to_owned());
        }
        for (text, proof) in [
            (&workload.deployment, &workload.deployment_signature),
            (&workload.deployment_overrides, &workload.deployment_overrides_signature),
        ] {
            if !signature::is_accepted(text, proof, &facts.trusted_keys, now) {
                return Err("no trusted key verifies its deployment".to_owned());
            }
        }
        Ok(terms)
    }

    /// Checks 9 to 13: a failure is refused with a reply.
    fn fit(
        &self,
        proposal: &Proposal<'_>,
        facts: &ProposalFacts,
        terms: &InternalPolicy,
    ) -> Result<(), String> {
        if self.is_unregistering {
            return Err("the node is being unregistered".to_owned());
        }
        if let Some(why) = self.task_refusal(proposal.id) {
            return Err(why.to_owned());
        }
        for workload in &terms.workloads {
            check_published(workload, facts)?;
        }
        let mut producer = InternalPolicy::from_text(proposal.producer_policy)
            .map_err(|error| format!("the node's policy in it: {error}"))?;
        merge_builtin(&mut producer.properties, &self.builtin);
        if self.facts.pattern.is_empty() && producer.header.name != producer_name(&self.node) {
            return Err("the policy in it is not this node's".to_owned());
        }
        let mut local = self.local_policy();
        // The hub decides about membership, and its view may be newer.
        local.properties.set_ha_group(None);
        let mut received = producer.properties.clone();
        received.set_ha_group(None);
        if let Some(name) = local.properties.conflict_with(&received, true) {
            return Err(format!("property {name} has another value here"));
        }
        common_protocols(&producer.agreement_protocols, &terms.agreement_protocols)
            .map_err(|error| error.to_string())?;
        if producer.max_agreements > 0 && self.live().count() as i64 >= producer.max_agreements {
            return Err("the node has as many agreements as its policy allows".to_owned());
        }
        let needed = facts.dependencies.iter().map(|one| &one.dependency.service);
        if is_suspended(self, &terms.workloads)
            || needed.into_iter().any(|one| self.is_service_suspended(one))
        {
            return Err("the service is suspended".to_owned());
        }
        self.check_privileges(facts, terms)?;
        check_pattern(facts, terms)?;
        compatible(&producer, terms)?;
        // The agbot's copy of the node's policy is not trusted: the node's own policy applies, apart from the
        // membership.
        let membership = producer.properties.get(builtin::HA_GROUP).and_then(|group| group.value.as_str());
        self.fits(terms, membership)
    }

    /// Only agbots that the exchange names, and for a task only the one that published it: no other agbot
    /// decides what runs here.
    fn check_agbot(&self, proposal: &Proposal<'_>, facts: &ProposalFacts) -> Result<(), String> {
        if let Some(why) = &facts.unreadable {
            return Err(format!("the facts about it cannot be read: {why}"));
        }
        let org = proposal.from.split('/').next().unwrap_or_default();
        let is_known = match facts.standing {
            AgbotStanding::Approved => true,
            AgbotStanding::NotApproved => false,
            AgbotStanding::Unknown => org == SHARED_ORG || self.node.split('/').next() == Some(org),
        };
        if !is_known {
            return Err("the agbot is not approved for this node".to_owned());
        }
        let publisher = self.task_of(proposal.id).and_then(|task| task.agbot.as_deref());
        if publisher.is_some_and(|publisher| publisher != proposal.from) {
            return Err("its task was published by another agbot".to_owned());
        }
        Ok(())
    }

    /// A service may require privileges only if the owner of the node allows that.
    fn check_privileges(&self, facts: &ProposalFacts, terms: &InternalPolicy) -> Result<(), String> {
        if self.local_policy().properties.allows_privileged() {
            return Ok(());
        }
        let proposed = terms.workloads.iter().map(|workload| (workload.url.as_str(), &workload.deployment));
        let needed = facts.dependencies.iter().map(|one| &one.dependency);
        let needed = needed.map(|one| (one.service_id.as_str(), &one.deployment));
        for (service, deployment) in proposed.chain(needed) {
            if needs_privileges(service, &Value::from(deployment.as_str()))
                .map_err(|error| error.to_string())?
            {
                return Err(format!(
                    "service {service} needs privileges, and the node's property openhorizon.allowPrivileged is not true"
                ));
            }
        }
        Ok(())
    }

    /// Checks terms against the node's own policy, as a member of an HA group. Patterns have no properties that constraints of a node could test.
    fn fits(&self, terms: &InternalPolicy, ha_group: Option<&str>) -> Result<(), String> {
        if !self.facts.pattern.is_empty() {
            return Ok(());
        }
        let local = self.local_policy();
        let mut own = InternalPolicy::named(producer_name(&self.node));
        own.properties = local.properties;
        own.properties.set_ha_group(ha_group);
        own.constraints = local.constraints;
        compatible(&own, terms)
    }

    fn agreement(
        &self,
        proposal: &Proposal<'_>,
        facts: &ProposalFacts,
        terms: &InternalPolicy,
        now: u64,
    ) -> Agreement {
        let workload = terms.workloads.first().cloned().unwrap_or_default();
        Agreement {
            id: proposal.id.to_owned(),
            name: terms.header.name.clone(),
            agbot: proposal.from.to_owned(),
            protocol_version: proposal.version,
            workload: WorkloadName {
                url: workload.url,
                org: workload.org,
                version: workload.version,
                arch: workload.arch,
            },
            terms: proposal.terms.to_owned(),
            deployment: workload.deployment,
            deployment_overrides: workload.deployment_overrides,
            producer_policy: proposal.producer_policy.to_owned(),
            inputs: facts.inputs.clone(),
            dependencies: facts.dependencies.iter().map(|one| one.dependency.clone()).collect(),
            service_id: facts.service_id.clone(),
            created_at: now,
            timeout_secs: self.agreement_timeout_secs(),
            ..Agreement::default()
        }
    }

    /// Returns three times the longest interval between heartbeats, 120 s when none is set.
    fn agreement_timeout_secs(&self) -> u64 {
        3 * if self.facts.max_heartbeat_secs == 0 { 120 } else { self.facts.max_heartbeat_secs }
    }

    /// Returns whether the node's current policy still fits the terms of an agreement.
    pub(super) fn still_fits(&self, agreement: &Agreement) -> bool {
        self.would_fit(&agreement.terms)
    }

    /// Returns whether the node's current policy fits the text of terms.
    pub(super) fn would_fit(&self, terms: &str) -> bool {
        InternalPolicy::from_text(terms)
            .is_ok_and(|terms| self.fits(&terms, self.facts.ha_group.as_deref()).is_ok())
    }

    /// Returns whether the node's record suspends a service.
    pub(super) fn is_service_suspended(&self, workload: &WorkloadName) -> bool {
        self.facts.registered.iter().any(|service| {
            service.config_state == "suspended"
                && service.url == workload.qualified_url()
                && (service.version.is_empty() || service.version == workload.version)
        })
    }
}

/// An agbot may propose only what the publisher of the service signed.
fn check_published(workload: &Workload, facts: &ProposalFacts) -> Result<(), String> {
    let service = format!("service {}/{} {}", workload.org, workload.url, workload.version);
    let Some(published) = &facts.published else {
        return Err(format!("{service} is not in the exchange"));
    };
    if (&published.text, &published.signature) != (&workload.deployment, &workload.deployment_signature) {
        return Err(format!("its deployment is not that of {service} in the exchange"));
    }
    Ok(())
}

/// A node with a pattern runs the services of the pattern.
fn check_pattern(facts: &ProposalFacts, terms: &InternalPolicy) -> Result<(), String> {
    let Some(services) = &facts.pattern_services else { return Ok(()) };
    let is_named =
        |workload: &Workload| services.iter().any(|(org, url)| (org, url) == (&workload.org, &workload.url));
    match terms.workloads.iter().find(|workload| !is_named(workload)) {
        Some(workload) => Err(format!("service {} is not in the node's pattern", workload.url)),
        None => Ok(()),
    }
}

/// Dependencies must exist and be signed by their publisher.
fn check_dependencies(facts: &ProposalFacts, now: u64) -> Result<(), String> {
    if let Some(why) = &facts.unresolved {
        return Err(why.clone());
    }
    for DependencyFacts { dependency, signature, trusted_keys } in &facts.dependencies {
        let name = &dependency.service_id;
        if dependency.deployment.is_empty() {
            return Err(format!("service {name}, which it needs, has no deployment for a device"));
        }
        if !signature::is_accepted(&dependency.deployment, signature, trusted_keys, now) {
            return Err(format!("no trusted key verifies the deployment of {name}, which it needs"));
        }
    }
    Ok(())
}

fn is_suspended(state: &State, workloads: &[Workload]) -> bool {
    workloads.iter().any(|workload| {
        state.is_service_suspended(&WorkloadName {
            url: workload.url.clone(),
            org: workload.org.clone(),
            version: workload.version.clone(),
            arch: workload.arch.clone(),
        })
    })
}

fn only_workload(terms: &InternalPolicy) -> Result<&Workload, String> {
    match terms.workloads.as_slice() {
        [workload] => Ok(workload),
        other => Err(format!("its terms name {} workloads instead of one", other.len())),
    }
}

/// Agreement ids become names of files, containers and networks.
fn is_usable_id(id: &str) -> bool {
    id.len() <= 128 && !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Checks that both sides' constraints hold, and that both use the same version of the policy language.
fn compatible(producer: &InternalPolicy, terms: &InternalPolicy) -> Result<(), String> {
    if producer.header.version != terms.header.version {
        return Err("the policies are of different versions".to_owned());
    }
    let holds = |requirer: &InternalPolicy, given: &InternalPolicy, whose: &str| match requirer
        .constraints
        .is_satisfied_by(&given.properties)
    {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("{whose} constraints do not hold")),
        Err(error) => Err(format!("{whose} constraints cannot be read: {error}")),
    };
    holds(terms, producer, "the policy's")?;
    holds(producer, terms, "the node's")
}
