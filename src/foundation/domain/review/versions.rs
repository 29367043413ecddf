//! Priorities of versions that can never lead to a fallback.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Finding, entries, member, text};

/// The members of a priority.
const VALUE: &str = "priority_value";
const RETRIES: &str = "retries";
const WINDOW: &str = "retry_durations";
const VERIFIED: &str = "verified_durations";

/// Checks the version list of a service; `path` leads to the service.
pub(super) fn versions(path: &str, service: &Value) -> Vec<Finding> {
    let list: Vec<(String, &Value)> =
        entries(service, "serviceVersions").map(|(at, entry)| (format!("{path}.{at}"), entry)).collect();
    let mut found = Vec::new();
    let mut known: BTreeMap<i64, &str> = BTreeMap::new();
    let is_list = list.len() > 1;
    for (at, entry) in &list {
        let at = |name: &str| format!("{at}.priority.{name}");
        let mut numbers = [0; 4];
        for (number, name) in numbers.iter_mut().zip([VALUE, RETRIES, WINDOW, VERIFIED]) {
            match priority(entry, name) {
                Ok(read) => *number = read,
                Err(rule) => found.push(Finding::error(at(name), rule)),
            }
        }
        let [value, retries, window, verified] = numbers;
        if found.iter().any(|finding| finding.member.starts_with(&at(""))) {
            continue;
        }
        if value == 0 && (retries, window, verified) != (0, 0, 0) {
            let rule = "is missing: retries, retry_durations and verified_durations mean nothing without it";
            found.push(Finding::error(at(VALUE), rule));
        } else if value == 0 && is_list {
            let rule =
                "is missing: of several versions each needs one of its own, or the others are never tried";
            found.push(Finding::error(at(VALUE), rule));
        }
        if value == 0 {
            continue;
        }
        for (name, number) in [(RETRIES, retries), (WINDOW, window)] {
            if number == 0 {
                let rule = "is missing: with a priority_value it must be at least 1, or no other version is ever tried";
                found.push(Finding::error(at(name), rule));
            }
        }
        if let Some(other) = known.insert(value, text(entry, "version")) {
            let rule = format!("is {value}, as that of version {other}: each version needs one of its own");
            found.push(Finding::error(at(VALUE), rule));
        }
    }
    found
}

/// Returns a number of a priority; absent is 0.
fn priority(version: &Value, name: &str) -> Result<i64, &'static str> {
    let given = member(version, "priority").and_then(|priority| member(priority, name));
    match given.map(Value::as_i64) {
        None => Ok(0),
        Some(Some(number)) if number >= 0 => Ok(number),
        Some(Some(_)) => Err("must not be negative"),
        Some(None) => Err("must be an integer"),
    }
}
