//! The decision on a proposal (agreement protocol 2.6).

use evenkeel_domain::policy::internal::{InternalPolicy, Workload, common_protocols, producer_name};
use evenkeel_wire::{agreement::message::PROTOCOL, signature};

use super::{Agreement, Dependency, MOST_LIVE, State, WorkloadName, merge_builtin};

/// The facts to judge a proposal.
#[derive(Debug, Clone, Default)]
pub struct ProposalFacts {
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

/// The decision on a proposal.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Dropped without a reply; the agbot runs into a timeout.
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
            return Err("the node has as many agreements as it can bear".to_owned());
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
        compatible(&producer, terms)
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
        let Ok(terms) = InternalPolicy::from_text(&agreement.terms) else { return false };
        let local = self.local_policy();
        let mut producer = InternalPolicy::named(producer_name(&self.node));
        producer.properties = local.properties;
        producer.constraints = local.constraints;
        compatible(&producer, &terms).is_ok()
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
