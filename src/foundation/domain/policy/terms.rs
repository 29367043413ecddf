//! Combining two policies: the compatibility test, the terms and conditions, and the merge of two producers.
//!
//! Source: agreement-protocol 3.6, 3.7.

use std::fmt;

use serde_json::Value;

use super::constraint::{ConstraintError, ConstraintList, Predicate};
use super::internal::{
    AgreementProtocol, InternalPolicy, NoCommonProtocol, Workload, common_protocols, merge_api_specs,
};
use super::property::PropertyList;

/// The protocol version that every proposal names.
pub const PROTOCOL_VERSION: i64 = 1;

/// Maximum number of failing comparisons that are kept and shown; the others are counted.
pub const MAX_REPORTED_CLAUSES: usize = 50;

/// Maximum number of characters of a reported text before it is shortened.
const MAX_REPORTED_TEXT: usize = 200;

/// A failing comparison with the actual value.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedClause {
    /// The comparison as written, shortened when it is long.
    pub clause: String,
    /// The compared property, shortened like the comparison.
    pub property: String,
    /// The property's value, shortened when it is a long text; `None` when there is no such property.
    pub actual: Option<Value>,
}

impl FailedClause {
    fn new(predicate: &Predicate, properties: &PropertyList) -> Self {
        let name = predicate.property();
        let mut named = properties.iter().filter(|property| property.name == name);
        let decisive = named.clone().find(|property| predicate.compare(property).is_some());
        let actual = decisive.or_else(|| named.next()).map(|property| reported_value(&property.value));
        Self { clause: reported_text(predicate.source().trim()), property: reported_text(name), actual }
    }
}

/// Returns a text as reports show it: long ones are shortened, because a report repeats them for each node.
pub fn reported_text(text: &str) -> String {
    match text.char_indices().nth(MAX_REPORTED_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn reported_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(reported_text(text)),
        Value::Array(_) | Value::Object(_) => Value::Null,
        scalar => scalar.clone(),
    }
}

/// Failing comparisons, of which only the first ones are kept.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FailedClauses {
    /// The first ones, in the order of the text, at most [`MAX_REPORTED_CLAUSES`].
    pub shown: Vec<FailedClause>,
    /// Number of the others.
    pub more: usize,
}

impl FailedClauses {
    /// Describes failing comparisons with the values that the properties have.
    pub fn new(failing: &[&Predicate], properties: &PropertyList) -> Self {
        let kept = failing.len().min(MAX_REPORTED_CLAUSES);
        let shown = failing[..kept].iter().map(|predicate| FailedClause::new(predicate, properties));
        Self { shown: shown.collect(), more: failing.len() - kept }
    }
}

impl fmt::Display for FailedClauses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, clause) in self.shown.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(formatter, "{separator}{clause}")?;
        }
        write_more(self.more, formatter)
    }
}

/// Writes the number of failing comparisons that are not shown, after those that are.
///
/// # Errors
/// Those of the formatter.
pub fn write_more(more: usize, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if more == 0 { Ok(()) } else { write!(out, "; and {more} more") }
}

impl fmt::Display for FailedClause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.actual {
            Some(value) => write!(formatter, "{} (actual value: {value})", self.clause),
            None => write!(formatter, "{} (there is no property {})", self.clause, self.property),
        }
    }
}

/// The reason why a producer's and a consumer's policy are incompatible.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolicyMismatch {
    /// The schema versions differ.
    #[error("the schema version is \"{producer}\" on the node's side and \"{consumer}\" on the other")]
    SchemaVersion { producer: String, consumer: String },
    /// The producer's properties do not satisfy the consumer's constraints.
    #[error("properties of the node do not satisfy the deployment or service policy: {0}")]
    NodeProperties(FailedClauses),
    /// The consumer's constraints are invalid.
    #[error("constraints of the deployment or service policy cannot be evaluated: {0}")]
    ConsumerConstraintsUnreadable(ConstraintError),
    /// The consumer's properties do not satisfy the producer's constraints.
    #[error("properties of the deployment or service policy do not satisfy the node: {0}")]
    ConsumerProperties(FailedClauses),
    /// The producer's constraints are invalid.
    #[error("constraints of the node cannot be evaluated: {0}")]
    NodeConstraintsUnreadable(ConstraintError),
    /// There is no common agreement protocol.
    #[error(transparent)]
    AgreementProtocol(#[from] NoCommonProtocol),
    /// Data verification or metering cannot be merged.
    #[error("data verification or metering of the two sides cannot be merged")]
    DataVerification,
}

/// Checks whether an agreement is possible between a producer and a consumer.
///
/// # Errors
/// The first [`PolicyMismatch`], in the order of the contract.
/// # Source
/// Agreement-protocol 3.6.
pub fn check_compatible(producer: &InternalPolicy, consumer: &InternalPolicy) -> Result<(), PolicyMismatch> {
    TESTS.iter().find_map(|test| test(producer, consumer)).map_or(Ok(()), Err)
}

/// Returns every reason why no agreement is possible between a producer and a consumer; empty when one is.
///
/// # Source
/// Agreement-protocol 3.6.
pub fn all_mismatches(producer: &InternalPolicy, consumer: &InternalPolicy) -> Vec<PolicyMismatch> {
    TESTS.iter().filter_map(|test| test(producer, consumer)).collect()
}

type Test = fn(&InternalPolicy, &InternalPolicy) -> Option<PolicyMismatch>;

const TESTS: [Test; 5] = [
    differ_in_schema,
    node_fails_consumer,
    consumer_fails_node,
    lack_common_protocol,
    differ_in_data_verification,
];

fn differ_in_schema(producer: &InternalPolicy, consumer: &InternalPolicy) -> Option<PolicyMismatch> {
    let (producer, consumer) = (&producer.header.version, &consumer.header.version);
    (producer != consumer)
        .then(|| PolicyMismatch::SchemaVersion { producer: producer.clone(), consumer: consumer.clone() })
}

fn node_fails_consumer(producer: &InternalPolicy, consumer: &InternalPolicy) -> Option<PolicyMismatch> {
    match failed_clauses(&consumer.constraints, &producer.properties) {
        Ok(None) => None,
        Ok(Some(clauses)) => Some(PolicyMismatch::NodeProperties(clauses)),
        Err(error) => Some(PolicyMismatch::ConsumerConstraintsUnreadable(error)),
    }
}

fn consumer_fails_node(producer: &InternalPolicy, consumer: &InternalPolicy) -> Option<PolicyMismatch> {
    match failed_clauses(&producer.constraints, &consumer.properties) {
        Ok(None) => None,
        Ok(Some(clauses)) => Some(PolicyMismatch::ConsumerProperties(clauses)),
        Err(error) => Some(PolicyMismatch::NodeConstraintsUnreadable(error)),
    }
}

fn lack_common_protocol(producer: &InternalPolicy, consumer: &InternalPolicy) -> Option<PolicyMismatch> {
    common_protocols(&producer.agreement_protocols, &consumer.agreement_protocols)
        .err()
        .map(PolicyMismatch::from)
}

fn differ_in_data_verification(
    producer: &InternalPolicy,
    consumer: &InternalPolicy,
) -> Option<PolicyMismatch> {
    let is_satisfied = producer.data_verification.is_satisfied_by(&consumer.data_verification);
    (!is_satisfied).then_some(PolicyMismatch::DataVerification)
}

/// Returns the failing comparisons, `None` when the properties satisfy the constraints.
///
/// # Shape
/// In the order of the text; of alternatives that all fail, those of each.
/// # Errors
/// [`ConstraintError`] when the constraints are invalid.
pub fn failed_clauses(
    constraints: &ConstraintList,
    properties: &PropertyList,
) -> Result<Option<FailedClauses>, ConstraintError> {
    let expression = constraints.parse()?;
    let failing = expression.failing_predicates(properties);
    Ok((!failing.is_empty()).then(|| FailedClauses::new(&failing, properties)))
}

/// Builds the terms and conditions of an agreement: the consumer's policy with one workload, named after both sides.
///
/// # Shape
/// `workload` carries deployment, signatures and hashed password already.
/// # Units
/// `default_interval_secs`: the wait for data where verification is enabled and neither side sets one.
/// # Errors
/// [`PolicyMismatch`] when the two are incompatible.
/// # Source
/// Agreement-protocol 3.7 (terms and conditions).
pub fn terms_and_conditions(
    producer: &InternalPolicy,
    consumer: &InternalPolicy,
    workload: Workload,
    default_interval_secs: u64,
) -> Result<InternalPolicy, PolicyMismatch> {
    check_compatible(producer, consumer)?;
    let protocols = common_protocols(&producer.agreement_protocols, &consumer.agreement_protocols)?;
    let mut terms = InternalPolicy::named(merged_name(producer, consumer));
    terms.pattern_id.clone_from(&consumer.pattern_id);
    terms.api_specs.clone_from(&consumer.api_specs);
    terms.agreement_protocols = protocols.into_iter().take(1).map(chosen_protocol).collect();
    terms.workloads = vec![workload];
    terms.value_exchange = consumer.value_exchange.clone();
    terms.data_verification =
        producer.data_verification.merge_consumer(&consumer.data_verification, default_interval_secs);
    terms.properties.merge(&consumer.properties, false);
    terms.constraints = consumer.constraints.clone();
    terms.required_workload.clone_from(&producer.required_workload);
    terms.node_health = consumer.node_health;
    terms.user_input.clone_from(&consumer.user_input);
    terms.secret_binding.clone_from(&consumer.secret_binding);
    terms.secret_details.clone_from(&consumer.secret_details);
    terms.cluster_namespace.clone_from(&consumer.cluster_namespace);
    Ok(terms)
}

fn merged_name(left: &InternalPolicy, right: &InternalPolicy) -> String {
    format!("{} merged with {}", left.header.name, right.header.name)
}

fn chosen_protocol(mut protocol: AgreementProtocol) -> AgreementProtocol {
    protocol.version = PROTOCOL_VERSION;
    protocol.blockchains.truncate(1);
    protocol
}

/// The reason why two producer policies cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProducerConflict {
    /// The schema versions differ.
    #[error("the schema versions are \"{left}\" and \"{right}\"")]
    SchemaVersion { left: String, right: String },
    /// There is no common agreement protocol.
    #[error(transparent)]
    AgreementProtocol(#[from] NoCommonProtocol),
    /// A property has two values.
    #[error("the property \"{name}\" has different values")]
    Property { name: String },
    /// Data verification cannot be merged.
    #[error("the data verifications name different URLs or users")]
    DataVerification,
}

/// Merges two producer policies of a node with several dependencies of a pattern.
///
/// # Units
/// `default_interval_secs` as in [`terms_and_conditions`].
/// # Errors
/// [`ProducerConflict`] when they contradict each other; memory and number of CPUs may differ.
/// # Source
/// Agreement-protocol 3.7 (merging two producer policies).
pub fn merge_producers(
    left: &InternalPolicy,
    right: &InternalPolicy,
    default_interval_secs: u64,
) -> Result<InternalPolicy, ProducerConflict> {
    if left.header.version != right.header.version {
        let (left, right) = (left.header.version.clone(), right.header.version.clone());
        return Err(ProducerConflict::SchemaVersion { left, right });
    }
    let protocols = common_protocols(&left.agreement_protocols, &right.agreement_protocols)?;
    if let Some(name) = left.properties.conflict_with(&right.properties, true) {
        return Err(ProducerConflict::Property { name: name.to_owned() });
    }
    if !left.data_verification.agrees_with(&right.data_verification) {
        return Err(ProducerConflict::DataVerification);
    }
    let mut merged = InternalPolicy::named(merged_name(left, right));
    merged.api_specs = merge_api_specs(&left.api_specs, &right.api_specs);
    for protocol in protocols {
        if !merged.agreement_protocols.iter().any(|existing| existing.name == protocol.name) {
            merged.agreement_protocols.push(protocol);
        }
    }
    for side in [left, right] {
        merged.properties.merge(&side.properties, true);
        merged.constraints.merge(&side.constraints);
    }
    merged.data_verification =
        left.data_verification.merge_producer(&right.data_verification, default_interval_secs);
    merged.max_agreements = left.max_agreements.min(right.max_agreements);
    merged.user_input.clone_from(&left.user_input);
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::Property;

    fn policy(value: Value) -> InternalPolicy {
        let mut policy: InternalPolicy = serde_json::from_value(value).unwrap();
        policy.header.version = "2.0".into();
        policy
    }

    #[test]
    fn every_failing_clause_is_named_with_the_actual_value() {
        let node =
            policy(json!({"properties": [{"name": "site", "value": "south"}], "constraints": ["tier == 2"]}));
        let consumer = policy(json!({"constraints": ["site == north AND (gpu == true OR cpu > 4)"]}));
        let reasons: Vec<_> =
            all_mismatches(&node, &consumer).iter().map(PolicyMismatch::to_string).collect();
        assert_eq!(
            reasons,
            [
                "properties of the node do not satisfy the deployment or service policy: \
                 site == north (actual value: \"south\"); gpu == true (there is no property gpu); \
                 cpu > 4 (there is no property cpu)",
                "properties of the deployment or service policy do not satisfy the node: \
                 tier == 2 (there is no property tier)",
            ]
        );
        assert!(matches!(check_compatible(&node, &consumer), Err(PolicyMismatch::NodeProperties(_))));
    }

    #[test]
    fn schema_protocol_and_data_verification_are_compared() {
        let plain = policy(json!({}));
        let other_schema =
            InternalPolicy { header: super::super::internal::PolicyHeader::default(), ..plain.clone() };
        assert!(matches!(check_compatible(&other_schema, &plain), Err(PolicyMismatch::SchemaVersion { .. })));
        let (one, two) = (
            policy(
                json!({"agreementProtocols": [{"name": "Basic"}], "dataVerification": {"enabled": true, "URL": "a"}}),
            ),
            policy(
                json!({"agreementProtocols": [{"name": "Other"}], "dataVerification": {"enabled": true, "URL": "b"}}),
            ),
        );
        let reasons = all_mismatches(&one, &two);
        assert!(matches!(
            reasons[..],
            [PolicyMismatch::AgreementProtocol(_), PolicyMismatch::DataVerification]
        ));
    }

    #[test]
    fn clauses_are_reported_only_for_alternatives_that_all_fail_and_long_values_are_shortened() {
        let properties =
            PropertyList::from(vec![Property::new("a", 1), Property::new("long", "x".repeat(1_000))]);
        let failed = |text: &str| failed_clauses(&ConstraintList::from_iter([text]), &properties).unwrap();
        assert_eq!(failed("(b == 1 OR a == 1) AND long != y"), None);
        let clauses = failed("(b == 1 OR a == 1) AND (a == 2 OR long == y)").unwrap().shown;
        assert_eq!(clauses.iter().map(|one| one.property.as_str()).collect::<Vec<_>>(), ["a", "long"]);
        assert_eq!(
            clauses[1].actual.as_ref().and_then(Value::as_str).map(|text| text.chars().count()),
            Some(201)
        );
    }

    #[test]
    fn only_the_first_failing_clauses_are_kept_and_their_texts_are_short() {
        let long = "v".repeat(10_000);
        let text = vec![format!("site == {long}"); 6].join(" || ");
        let constraints = ConstraintList::from(vec![text; 10]);
        let failed = failed_clauses(&constraints, &PropertyList::default()).unwrap().unwrap();
        assert_eq!((failed.shown.len(), failed.more), (MAX_REPORTED_CLAUSES, 10));
        let shown = failed.to_string();
        assert!(shown.ends_with("; and 10 more") && shown.len() < 20_000, "{} bytes", shown.len());
    }

    #[test]
    fn terms_of_incompatible_policies_are_refused() {
        let consumer = policy(json!({"constraints": ["site == north"]}));
        assert!(terms_and_conditions(&policy(json!({})), &consumer, Workload::default(), 0).is_err());
    }
}
