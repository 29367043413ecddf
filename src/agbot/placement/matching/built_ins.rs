//! Built-in properties that a node must publish.
//!
//! While one is missing, an existing agreement is kept: the node is about to publish it. Source: agreement-protocol 3.3 (last paragraph).

use evenkeel_domain::{policy::property::builtin, version::Version};
use evenkeel_planner_record::{facts::NodeType, node_record::NodeRecord};

const DEVICE: [(&str, &[&str]); 4] = [
    ("2.23.4", &[builtin::CPU, builtin::MEMORY, builtin::ARCH]),
    ("2.24.5", &[builtin::HARDWARE_ID]),
    ("2.24.10", &[builtin::ALLOW_PRIVILEGED]),
    ("2.30.0", &[builtin::OPERATING_SYSTEM, builtin::CONTAINERIZED]),
];

const CLUSTER: [(&str, &[&str]); 4] = [
    ("2.23.4", &[builtin::CPU, builtin::MEMORY, builtin::ARCH]),
    ("2.24.10", &[builtin::ALLOW_PRIVILEGED]),
    ("2.26.4", &[builtin::KUBERNETES_VERSION]),
    ("2.31.0", &[builtin::KUBERNETES_NAMESPACE, builtin::KUBERNETES_NAMESPACE_SCOPED]),
];

/// Returns the names of the properties that the node's agent version publishes and its policy lacks.
///
/// # Shape
/// Empty when the version is unknown.
pub fn missing(record: &NodeRecord) -> Vec<String> {
    let (Ok(version), Some(properties)) = (Version::parse(&record.facts.agent_version), record.properties())
    else {
        return Vec::new();
    };
    let expected = if record.facts.node_type == NodeType::Cluster { &CLUSTER } else { &DEVICE };
    expected
        .iter()
        .filter(|(since, _)| Version::parse(since).is_ok_and(|since| since <= version))
        .flat_map(|(_, names)| *names)
        .filter(|name| !properties.has(name))
        .map(|name| (*name).to_owned())
        .collect()
}
