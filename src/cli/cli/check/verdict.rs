//! One node against one deployment policy, by the rules of the domain.

use std::collections::BTreeSet;

use evenkeel_domain::policy::compatibility::inputs::input_obstacles;
use evenkeel_domain::policy::compatibility::resolve::resolve_service;
use evenkeel_domain::policy::compatibility::service::ServiceSource;
use evenkeel_domain::policy::compatibility::{
    CompatibilityReport, Incompatibility, NodeFacts, PolicyCheck, ServiceVerdict,
};
use evenkeel_domain::policy::internal::Workload;
use evenkeel_ids::ServiceKey;
use evenkeel_planner_record::report::Blocked;

use super::definitions::{Definitions, PolicyInput};
use super::node_input::NodeInput;
use super::{Reasons, Scope, placement};
use crate::exit::{CliError, Exit, Outcome};

/// The word for a service that can run.
pub const COMPATIBLE: &str = "Compatible";

/// Stands for a service where a reason concerns all of them.
pub const GENERAL: &str = "general";

/// Result of the check of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// True if at least one version can run.
    pub is_compatible: bool,
    /// Reasons in words by service, or under `general`.
    pub reasons: Reasons,
    /// The reasons as data, when policies were compared.
    pub report: Option<CompatibilityReport>,
    /// Reason why nothing of the policy is placed on the node, regardless of the other findings.
    pub unplaced: Option<Blocked>,
}

/// Checks one node; `checks_all` checks all versions, otherwise the first that can run ends it.
///
/// # Errors
/// With status 7 when the check cannot be made.
pub fn evaluate(
    scope: Scope,
    checks_all: bool,
    node: &NodeInput,
    policy: &PolicyInput,
    definitions: &Definitions,
) -> Outcome<Verdict> {
    match scope {
        Scope::All | Scope::Policy => compare_policies(scope, checks_all, node, policy, definitions),
        Scope::UserInput => {
            compare_inputs(node, policy, definitions, |one| !matches!(one, Incompatibility::SecretBinding(_)))
        }
        Scope::SecretBinding => {
            compare_inputs(node, policy, definitions, |one| !matches!(one, Incompatibility::UserInput(_)))
        }
    }
}

fn compare_policies(
    scope: Scope,
    checks_all: bool,
    node: &NodeInput,
    policy: &PolicyInput,
    definitions: &Definitions,
) -> Outcome<Verdict> {
    let check = PolicyCheck {
        node: NodeFacts {
            id: &node.id,
            arch: &node.arch,
            node_type: &node.node_type,
            cluster_namespace: &node.cluster_namespace,
            is_namespace_scoped: node.is_namespace_scoped,
            ha_group: node.ha_group.as_deref(),
        },
        node_policy: node.policy.as_ref(),
        deployment_policy_id: &policy.id,
        deployment_policy: &policy.policy,
        service_policy: definitions.service_policy.as_ref(),
        given_services: if definitions.service_policy.is_some() { &definitions.given } else { &[] },
        source: &definitions.catalog,
        node_user_input: (scope == Scope::All).then_some(node.user_input.as_slice()),
    };
    let report = check.run().map_err(|error| cannot_check(node, &error.to_string()))?;
    let shown = if checks_all { report.clone() } else { report.brief(&node.arch) };
    let mut reasons = shown.reasons();
    let unplaced = placement::obstacle(node, policy);
    if let Some(blocked) = &unplaced {
        let placed = reasons.remove(GENERAL).into_iter().chain([format!("Not Placed: {blocked}")]);
        reasons.insert(GENERAL.to_owned(), placed.collect::<Vec<_>>().join("; "));
    }
    let is_compatible = report.is_compatible && unplaced.is_none();
    Ok(Verdict { is_compatible, reasons, report: Some(report), unplaced })
}

/// Checks variables and secrets alone, regardless of the policies.
fn compare_inputs(
    node: &NodeInput,
    policy: &PolicyInput,
    definitions: &Definitions,
    counts: impl Fn(&Incompatibility) -> bool,
) -> Outcome<Verdict> {
    let consumer =
        policy.policy.to_internal(&policy.id).map_err(|error| cannot_check(node, &error.to_string()))?;
    let mut reasons = Reasons::new();
    let mut is_compatible = false;
    for workload in &consumer.workloads {
        let service = ServiceKey::new(&workload.org, &workload.url);
        for arch in arches(node, workload, definitions, &service) {
            let resolved = resolve_service(&definitions.catalog, &service, &workload.version, &arch)
                .map_err(|error| cannot_check(node, &error.to_string()))?;
            let is_cluster = node.node_type.eq_ignore_ascii_case("cluster");
            let obstacles =
                if is_cluster { Vec::new() } else { input_obstacles(&resolved, &consumer, &node.user_input) };
            let obstacles = obstacles.into_iter().filter(&counts).collect();
            let verdict = ServiceVerdict { service_id: resolved.id, obstacles };
            is_compatible |= verdict.is_compatible();
            reasons.insert(verdict.service_id.to_string(), verdict.to_string());
        }
    }
    if reasons.is_empty() {
        let general = Incompatibility::NoServiceForArchitecture { arch: node.arch.clone() };
        reasons.insert(GENERAL.to_owned(), format!("Policy Incompatible: {general}"));
    }
    Ok(Verdict { is_compatible, reasons, report: None, unplaced: None })
}

/// Returns the architectures to check: if neither the policy nor the node names one, all for which this version of the service exists.
fn arches(
    node: &NodeInput,
    workload: &Workload,
    definitions: &Definitions,
    service: &ServiceKey,
) -> BTreeSet<String> {
    let wants_any = matches!(workload.arch.as_str(), "" | "*");
    if wants_any && node.arch.is_empty() {
        let known = definitions.catalog.definitions(service).into_iter();
        let of_version = known.filter(|definition| definition.version == workload.version);
        let found: BTreeSet<String> = of_version.map(|definition| definition.arch.clone()).collect();
        // A service that does not exist is reported later, by name.
        return if found.is_empty() { BTreeSet::from([String::new()]) } else { found };
    }
    let arch = if wants_any { &node.arch } else { &workload.arch };
    let is_of_node = node.arch.is_empty() || *arch == node.arch;
    is_of_node.then(|| arch.clone()).into_iter().collect()
}

fn cannot_check(node: &NodeInput, why: &str) -> CliError {
    CliError::new(
        Exit::General,
        format!("node {} cannot be checked", node.id),
        why,
        "correct what the reason names; a node without policy gets one with: hzn exchange node addpolicy",
    )
}

#[cfg(test)]
pub mod tests {
    use evenkeel_domain::policy::reference_json::from_value;
    use serde_json::{Value, json};

    use super::*;

    /// A deployment policy that requires a site; its service requires a camera and a variable.
    pub fn policy() -> PolicyInput {
        let document = json!({
            "label": "cam",
            "service": {"name": "cam", "org": "acme", "arch": "*", "serviceVersions": [{"version": "2.1.0"}]},
            "constraints": ["site == north AND level >= 2"],
            "properties": [{"name": "purpose", "value": "watch"}],
        });
        PolicyInput {
            id: "acme/p".to_owned(),
            policy: from_value(&document).expect("a policy"),
            ..PolicyInput::default()
        }
    }

    pub fn definitions() -> Definitions {
        let service = json!({
            "org": "acme", "url": "cam", "version": "2.1.0", "arch": "amd64", "deployment": "{\"services\":{\"c\":{}}}",
            "userInput": [{"name": "RATE", "type": "int", "defaultValue": ""}],
        });
        let mut definitions = Definitions::default();
        definitions.catalog.insert(from_value(&service).expect("a service"));
        let policy = json!({"constraints": ["camera == true"]});
        definitions.catalog.insert_policy(
            evenkeel_ids::ServiceId::from_text("acme/cam_2.1.0_amd64"),
            from_value(&policy).expect("a policy"),
        );
        definitions
    }

    pub fn node(properties: Value, constraints: Value) -> NodeInput {
        let policy = json!({"properties": properties, "constraints": constraints});
        NodeInput {
            id: "acme/n1".to_owned(),
            arch: "amd64".to_owned(),
            policy: Some(from_value(&policy).expect("a policy")),
            ..NodeInput::default()
        }
    }

    fn good() -> NodeInput {
        let properties = json!([{"name": "site", "value": "north"}, {"name": "level", "value": 3}, {"name": "camera", "value": true}]);
        node(properties, json!([]))
    }

    #[test]
    fn policies_alone_and_all_together_are_different_questions() {
        let verdict = evaluate(Scope::Policy, true, &good(), &policy(), &definitions()).expect("a check");
        assert_eq!(
            (verdict.is_compatible, verdict.reasons["acme/cam_2.1.0_amd64"].as_str()),
            (true, COMPATIBLE)
        );
        let verdict = evaluate(Scope::All, true, &good(), &policy(), &definitions()).expect("a check");
        assert!(!verdict.is_compatible);
        assert!(
            verdict.reasons["acme/cam_2.1.0_amd64"].starts_with("User Input Incompatible"),
            "{verdict:?}"
        );
    }

    #[test]
    fn user_input_alone_is_checked_whatever_the_policies_say() {
        let mut node = node(json!([]), json!([]));
        let verdict = evaluate(Scope::UserInput, true, &node, &policy(), &definitions()).expect("a check");
        assert!(!verdict.is_compatible);
        let input =
            json!([{"serviceOrgid": "acme", "serviceUrl": "cam", "inputs": [{"name": "RATE", "value": 5}]}]);
        node.user_input = from_value(&input).expect("user input");
        let verdict = evaluate(Scope::UserInput, true, &node, &policy(), &definitions()).expect("a check");
        assert!(verdict.is_compatible, "{verdict:?}");
        node.arch.clear();
        let verdict = evaluate(Scope::UserInput, true, &node, &policy(), &definitions()).expect("a check");
        assert!(verdict.is_compatible, "every architecture is checked: {verdict:?}");
        let missing = evaluate(Scope::UserInput, true, &node, &policy(), &Definitions::default());
        assert_eq!(missing.map_err(|error| error.exit), Err(Exit::General));
        node.arch = "amd64".to_owned();
        let verdict =
            evaluate(Scope::SecretBinding, true, &node, &policy(), &definitions()).expect("a check");
        assert!(verdict.is_compatible, "{verdict:?}");
    }

    #[test]
    fn check_that_cannot_be_made_is_a_failure() {
        let without_policy = NodeInput { policy: None, ..good() };
        let error = evaluate(Scope::Policy, true, &without_policy, &policy(), &definitions())
            .map_err(|error| error.exit);
        assert_eq!(error, Err(Exit::General));
        let missing = evaluate(Scope::Policy, true, &good(), &policy(), &Definitions::default());
        assert_eq!(missing.map_err(|error| error.exit), Err(Exit::General));
    }
}
