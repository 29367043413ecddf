//! Names of public types: two types of the workspace have one name only for a reason.

use std::collections::BTreeMap;

use super::source::{sources, without_comments_and_strings};

/// Names that several public types have, by the reason.
const SHARED: &[(&str, &[&str])] = &[
    (
        "the planner decides with one and the API shows the other, which is the contract with clients",
        &[
            "Availability",
            "Blocked",
            "BlocklistEntry",
            "Claim",
            "CommonCause",
            "CommonCauses",
            "EliminatedNode",
            "EndedCommand",
            "ExplainedConstraint",
            "HealthEvent",
            "HealthReport",
            "InertPolicy",
            "MemberRecovery",
            "NodeMonitorState",
            "NodeRestarts",
            "NodeStatistics",
            "PeerWatch",
            "RegisteredService",
            "Rollback",
            "Rollout",
            "RolloutDetail",
            "RolloutState",
            "ServedElsewhere",
            "TaskHealth",
            "UpdateBlocked",
            "Violation",
            "WorkloadStatus",
            "WorkloadUnit",
        ],
    ),
    (
        "the rules of a document, and the document on the wire",
        &["PatternService", "PatternServiceVersion", "ServiceDefinition"],
    ),
    (
        "the hub and the agent name the same thing, each as far as it knows it",
        &[
            "Agreement",
            "Choice",
            "Command",
            "Container",
            "Decision",
            "Dependency",
            "DependencyFacts",
            "Ending",
            "Phase",
            "Registration",
            "ServiceFailure",
            "Task",
            "TaskReport",
        ],
    ),
    (
        "the agent, the hub's resources and the wire have commands of the same name",
        &[
            "AgbotArguments",
            "ExchangeArguments",
            "ManagementCommand",
            "NodeCommand",
            "NodeHealth",
            "NodeState",
            "ServiceCommand",
        ],
    ),
    (
        "the state of a task, and what is written of it",
        &["DesiredState", "Failure", "Instance", "TaskState", "Workload"],
    ),
    (
        "facts of the planner, and those of a check of one document",
        &["FailedClause", "Goal", "HaGroupFacts", "NodeFacts", "NodeType", "Reason", "Scope"],
    ),
    (
        "client and server, or writer and reader, of the same thing",
        &[
            "Client",
            "Connection",
            "Connections",
            "Credentials",
            "Departure",
            "Exchange",
            "Feed",
            "Hub",
            "Input",
            "Login",
            "Observer",
            "Operation",
            "PublicKey",
            "Records",
            "Server",
            "ServiceReference",
            "ServiceVersion",
            "WorkerStatus",
        ],
    ),
    (
        "one word of the language for parts of programs that never meet: the paths distinguish them",
        &[
            "Candidate",
            "Change",
            "Chosen",
            "Constraint",
            "Context",
            "Counts",
            "Definitions",
            "Deployment",
            "Expression",
            "Fleet",
            "HealthRow",
            "Listing",
            "Outcome",
            "Part",
            "Placement",
            "Refusal",
            "Report",
            "Restart",
            "Role",
            "Seen",
            "Stage",
            "Subject",
            "Table",
            "Target",
            "Verdict",
            "View",
            "Wanted",
            "Watch",
        ],
    ),
];

const KINDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

#[test]
fn public_types_have_names_of_their_own() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources().iter().filter(|source| source.path.starts_with("src/") && !source.is_test()) {
        let code = without_comments_and_strings(source.product_text());
        for name in code.lines().filter_map(public_type) {
            places.entry(name.to_owned()).or_default().push(source.path.clone());
        }
    }
    assert!(places.len() > 1_000, "only {} public types are found", places.len());
    places.retain(|_, places| places.len() > 1);
    let listed: Vec<&str> = SHARED.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let unlisted: Vec<_> = places.iter().filter(|(name, _)| !listed.contains(&name.as_str())).collect();
    assert!(unlisted.is_empty(), "rename these types, or list them with a reason: {unlisted:#?}");
    let unused: Vec<_> = listed.iter().filter(|name| !places.contains_key(**name)).collect();
    assert!(unused.is_empty(), "these names are no longer shared, remove them from the list: {unused:?}");
}

/// Returns the name of the public type that a line declares.
fn public_type(line: &str) -> Option<&str> {
    let (kind, rest) = line.trim_start().strip_prefix("pub ")?.split_once(' ')?;
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    // A macro declares types whose names it is given.
    (KINDS.contains(&kind) && end > 0).then_some(&rest[..end])
}

#[test]
fn declarations_are_found() {
    assert_eq!(public_type("    pub struct Claim {"), Some("Claim"));
    assert_eq!(public_type("pub enum Fit<'a> {"), Some("Fit"));
    assert_eq!(public_type("pub(crate) struct Hidden;"), None);
    assert_eq!(public_type("pub fn claim() {"), None);
}
