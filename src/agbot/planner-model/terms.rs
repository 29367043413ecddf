//! The content of a proposal: the producer policy, and the terms and conditions.
//!
//! Built when a proposal or a policy update is sent, from the model at that time. Source: agreement-protocol 2.3, 3.7.

use evenkeel_domain::policy::{
    ConstraintList, ExternalPolicy, InternalPolicy,
    internal::{AgreementProtocol, BASIC_PROTOCOL, NodeHealth, Workload, WorkloadPriority, producer_name},
    property::builtin,
    terms::terms_and_conditions,
};
use evenkeel_ids::{NodeId, PatternId, ServiceId};
use evenkeel_placement::matching::{self, Consumer};
use evenkeel_planner_record::{
    agreement::Agreement,
    facts::{DeploymentOverrides, DeploymentPolicyFacts, ServiceFacts},
    node_record::NodeRecord,
    report::Blocked,
};

use crate::model::Model;

/// Interval of data verification where neither side sets one; verification itself is no longer used.
const DEFAULT_NO_DATA_SECS: u64 = 300;

/// The content of a proposal.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposalTerms {
    /// `producerPolicy`: the node's deployment policy.
    pub producer_policy: InternalPolicy,
    /// `tsandcs`: the merged policy with one workload; `to_text` gives the wire's text.
    pub terms: InternalPolicy,
    /// Base64 of the node's public key, for the encryption.
    pub public_key: String,
}

/// Builds the content for an agreement: the current contents of its policy, for the service definition and
/// the deployment overrides of the agreement.
///
/// Constraints that name the group property are evaluated by the hub alone and left out: an agent does not know its group
/// and would refuse or cancel.
/// # Errors
/// The reason why the pair no longer fits.
pub fn proposal_terms(model: &Model, agreement: &Agreement) -> Result<ProposalTerms, Blocked> {
    let Agreement { node, policy, service, .. } = agreement;
    let record = model.node(node).ok_or(Blocked::NodeUnknown)?;
    let policy_facts = model.policy(policy).ok_or(Blocked::PolicyUnknown)?;
    let spec = model.spec_of(agreement);
    let facts = spec.map_or(policy_facts, |spec| &spec.policy);
    let definition = model.service(service).ok_or_else(|| missing(facts, service))?;
    let arch = matching::canonical_arch(&definition.arch);
    let consumer = match spec {
        Some(spec) => spec.consumers.get(&(definition.version.clone(), arch.to_owned())),
        None => model.consumer(policy, &definition.version, arch),
    };
    let consumer = consumer.ok_or_else(|| missing(facts, service))?;
    let consumer = consumer.as_ref().map_err(Clone::clone)?;
    let producer = if facts.pattern.is_none() { producer(node, record)? } else { producer_of_pattern(facts) };
    let workload = workload(facts, definition, &agreement.overrides);
    let consumer = consumer_policy(facts, consumer, &workload)?;
    let terms =
        terms_and_conditions(&producer, &consumer, workload, DEFAULT_NO_DATA_SECS).map_err(unreadable)?;
    Ok(ProposalTerms { producer_policy: producer, terms, public_key: record.facts.public_key.clone() })
}

fn missing(policy: &DeploymentPolicyFacts, service: &ServiceId) -> Blocked {
    Blocked::ServiceMissing {
        service: policy.service.clone(),
        version: service.to_string(),
        arch: policy.arch.clone(),
    }
}

fn unreadable(error: impl std::fmt::Display) -> Blocked {
    Blocked::Unreadable { detail: error.to_string() }
}

fn producer(node: &NodeId, record: &NodeRecord) -> Result<InternalPolicy, Blocked> {
    let (Some(properties), Some(constraints)) = (record.properties(), record.constraints()) else {
        return Err(Blocked::NoNodePolicy);
    };
    let mut policy = ExternalPolicy { properties: properties.clone(), constraints: constraints.clone() };
    policy.properties.set_ha_group(None);
    InternalPolicy::from_external(&producer_name(node.as_str()), policy).map_err(unreadable)
}

/// Returns the producer policy of a node that uses a pattern: empty, under the name of the requested policy (agreement protocol 2.3).
fn producer_of_pattern(facts: &DeploymentPolicyFacts) -> InternalPolicy {
    let mut policy = InternalPolicy::named(facts.internal_name());
    policy.pattern_id = pattern_text(facts);
    policy.agreement_protocols = vec![AgreementProtocol::named(BASIC_PROTOCOL)];
    policy
}

fn pattern_text(facts: &DeploymentPolicyFacts) -> String {
    facts.pattern.as_ref().map(PatternId::to_string).unwrap_or_default()
}

fn consumer_policy(
    facts: &DeploymentPolicyFacts,
    consumer: &Consumer,
    workload: &Workload,
) -> Result<InternalPolicy, Blocked> {
    let mut policy = InternalPolicy::named(facts.internal_name());
    policy.pattern_id = pattern_text(facts);
    policy.agreement_protocols = vec![AgreementProtocol::named(BASIC_PROTOCOL)];
    policy.workloads = vec![workload.clone()];
    policy.properties = consumer.properties.clone();
    policy.constraints = for_the_agent(consumer);
    policy.node_health = NodeHealth {
        missing_heartbeat_secs: clamp(facts.missing_heartbeat_secs),
        check_agreement_secs: clamp(facts.agreement_check_secs),
    };
    policy.user_input = matching::read("userInput", &facts.user_input)?;
    policy.secret_binding = matching::read("secretBinding", &facts.secret_binding)?;
    policy.cluster_namespace = facts.cluster_namespace.clone();
    Ok(policy)
}

/// The constraints without those that only the hub can evaluate.
fn for_the_agent(consumer: &Consumer) -> ConstraintList {
    let names_group = |constraint: &&evenkeel_placement::matching::consumer::Constraint| {
        constraint.tree.predicates().iter().any(|predicate| predicate.property() == builtin::HA_GROUP)
    };
    consumer.constraints.iter().filter(|one| !names_group(one)).map(|one| one.text.as_str()).collect()
}

fn workload(
    policy: &DeploymentPolicyFacts,
    service: &ServiceFacts,
    overrides: &DeploymentOverrides,
) -> Workload {
    let entry = policy.versions.iter().find(|entry| entry.version == service.version);
    Workload {
        deployment: service.deployment.clone(),
        deployment_signature: service.deployment_signature.clone(),
        cluster_deployment: service.cluster_deployment.clone(),
        cluster_deployment_signature: service.cluster_deployment_signature.clone(),
        url: service.key.name().to_owned(),
        org: service.key.org().to_owned(),
        version: service.version.clone(),
        arch: service.arch.clone(),
        priority: entry.map_or_else(WorkloadPriority::default, |entry| WorkloadPriority {
            value: i64::from(entry.priority),
            retries: i64::from(entry.retries),
            retry_secs: clamp(entry.retry_secs),
            verified_secs: clamp(entry.verified_secs),
        }),
        deployment_overrides: overrides.text.clone(),
        deployment_overrides_signature: overrides.signature.clone(),
        ..Workload::default()
    }
}

fn clamp(secs: u64) -> i64 {
    i64::try_from(secs).unwrap_or(i64::MAX)
}
