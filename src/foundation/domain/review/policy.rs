//! Policies and patterns.

use evenkeel_ids::PolicyId;
use serde_json::Value;

use super::versions::versions;
use super::{Finding, MAX_FINDINGS, entries, member, settings, text};
use crate::orchestration::Orchestration;
use crate::policy::property::Property;
use crate::policy::reference_json::from_value;
use crate::version::VersionRange;

/// Checks a deployment policy, or attributes of one.
pub fn deployment_policy(id: &PolicyId, document: &Value) -> Vec<Finding> {
    let mut found =
        member(document, "service").map(|service| versions("service", service)).unwrap_or_default();
    found.extend(properties("properties", document));
    found.extend(ranges("userInput", document));
    found.extend(ranges("secretBinding", document));
    let read = member(document, "orchestration").map(|one| Orchestration::of_policy(id, one.clone()));
    if let Some(Ok(read)) = read {
        found.extend(settings::orchestration(&read));
    }
    limited(found)
}

/// Checks a pattern, or attributes of one.
pub fn pattern(document: &Value) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        entries(document, "services").flat_map(|(at, service)| versions(&at, service)).collect();
    found.extend(ranges("userInput", document));
    found.extend(ranges("secretBinding", document));
    limited(found)
}

/// Checks the policy of a node.
pub fn node_policy(document: &Value) -> Vec<Finding> {
    let mut found = properties("properties", document);
    for part in ["deployment", "management"] {
        if let Some(of_part) = member(document, part) {
            found.extend(properties(&format!("{part}.properties"), of_part));
        }
    }
    limited(found)
}

/// Checks the properties of a policy, or of a part of one; `path` leads to the list.
pub fn properties(path: &str, document: &Value) -> Vec<Finding> {
    let name = path.rsplit('.').next().unwrap_or_default();
    let check = |(index, (_, entry)): (usize, (String, &Value))| {
        // Other shapes are rejected on write.
        let property: Property = from_value(entry).ok()?;
        let error = property.validate().err()?;
        Some(Finding::error(format!("{path}[{index}]"), format!("is not a property: {error}")))
    };
    entries(document, name).enumerate().filter_map(check).collect()
}

/// Checks the ranges of versions of user input or secret bindings.
fn ranges(list: &'static str, document: &Value) -> Vec<Finding> {
    let check = |(at, entry): (String, &Value)| {
        let range = text(entry, "serviceVersionRange");
        let error = if range.is_empty() { None } else { VersionRange::parse(range).err() };
        error.map(|error| {
            Finding::error(format!("{at}.serviceVersionRange"), format!("is not a range: {error}"))
        })
    };
    entries(document, list).filter_map(check).collect()
}

fn limited(mut found: Vec<Finding>) -> Vec<Finding> {
    found.truncate(MAX_FINDINGS);
    found
}
