//! Service definitions: the text of a deployment, which is the user's and is sent as it is.

use serde_json::Value;

use super::{Finding, Severity, entries, member, text};
use crate::object::nearest;
use crate::policy::compatibility::deployment::{is_empty, needs_privileges};
use crate::version::VersionRange;

/// Most findings about one document.
pub const MAX_FINDINGS: usize = 50;

/// Members of a deployment for devices.
const DEPLOYMENT: &[&str] = &["services", "service_pattern", "infrastructure", "overrides"];

/// Members of one container or process.
const CONTAINER: &[&str] = &[
    "image",
    "command",
    "entrypoint",
    "environment",
    "working_directory",
    "user",
    "privileged",
    "network",
    "network_isolation",
    "binds",
    "tmpfs",
    "ports",
    "ephemeral_ports",
    "specific_ports",
    "devices",
    "cap_add",
    "secrets",
    "max_memory_mb",
    "max_cpus",
    "pid",
    "ipc",
    "sysctls",
    "security_opt",
    "log_driver",
    "variation_label",
];

/// Members of the elements of a container's lists, and of its secrets.
const PARTS: [(&str, &[&str]); 4] = [
    ("ports", &["HostIP", "HostPort"]),
    ("specific_ports", &["HostIP", "HostPort"]),
    ("ephemeral_ports", &["localhost_only", "port_and_protocol"]),
    ("secrets", &["description", "svcOrg", "svcUrl", "svcVersionRange", "format"]),
];

/// Types of variables.
const TYPES: &[&str] = &["", "string", "int", "float", "boolean", "bool", "list of strings"];

/// Checks a service definition; its deployment may be an object or a text.
pub fn service(document: &Value) -> Vec<Finding> {
    let mut found = deployment(document);
    for (at, need) in entries(document, "requiredServices") {
        let member = if text(need, "versionRange").is_empty() { "version" } else { "versionRange" };
        let range = text(need, member);
        if let Some(error) = (!range.is_empty()).then(|| VersionRange::parse(range).err()).flatten() {
            found.push(Finding::error(format!("{at}.{member}"), format!("is not a range: {error}")));
        }
    }
    for (at, variable) in entries(document, "userInput") {
        let declared = text(variable, "type");
        // Types with such a part are floating-point numbers to the reference.
        if !TYPES.contains(&declared) && !declared.contains("float") {
            let rule = format!(
                "is {declared}, of which no value can be given; the types are string, int, float, boolean and list of strings"
            );
            found.push(Finding::warning(format!("{at}.type"), rule));
        }
    }
    found.truncate(MAX_FINDINGS);
    found
}

fn deployment(document: &Value) -> Vec<Finding> {
    let Some(given) = member(document, "deployment").filter(|given| !is_empty(given)) else {
        return Vec::new();
    };
    let parsed = match given {
        Value::String(text) => match serde_json::from_str(text) {
            Ok(parsed) => parsed,
            Err(error) => return vec![Finding::error("deployment", format!("is not JSON: {error}"))],
        },
        object => object.clone(),
    };
    if let Err(error) = needs_privileges("", &parsed) {
        return vec![Finding::error("deployment", format!("cannot be read: {}", error.reason))];
    }
    let mut found = unknown_members("deployment", &parsed, DEPLOYMENT);
    let services = member(&parsed, "services").and_then(Value::as_object);
    if services.is_none_or(serde_json::Map::is_empty) {
        found.push(Finding::warning("deployment.services", "is missing: nothing is started"));
    }
    for (name, container) in services.into_iter().flatten() {
        let path = format!("deployment.services.{name}");
        found.extend(unknown_members(&path, container, CONTAINER));
        found.extend(PARTS.iter().flat_map(|(list, known)| unknown_in_part(&path, container, list, known)));
        let runs = |name: &str| member(container, name).is_some_and(|value| !is_blank(value));
        if !["image", "command", "entrypoint"].into_iter().any(runs) {
            found.push(Finding::warning(path, "has neither an image nor a command: there is nothing to run"));
        }
    }
    found
}

fn is_blank(value: &Value) -> bool {
    value.as_str().is_some_and(str::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// Returns what is not known in the elements of a list, or in the values of a map.
fn unknown_in_part(path: &str, container: &Value, part: &str, known: &[&'static str]) -> Vec<Finding> {
    match member(container, part) {
        Some(Value::Array(_)) => entries(container, part)
            .flat_map(|(at, entry)| unknown_members(&format!("{path}.{at}"), entry, known))
            .collect(),
        Some(Value::Object(members)) => members
            .iter()
            .flat_map(|(name, entry)| unknown_members(&format!("{path}.{part}.{name}"), entry, known))
            .collect(),
        _ => Vec::new(),
    }
}

fn unknown_members(path: &str, object: &Value, known: &[&'static str]) -> Vec<Finding> {
    let is_known = |name: &str| known.iter().any(|one| one.eq_ignore_ascii_case(name));
    let names = object.as_object().into_iter().flatten().map(|(name, _)| name);
    let unknown = names.filter(|name| !is_known(name)).map(|name| {
        let meant = match nearest(known.iter().copied(), name) {
            Some(meant) => format!("; {meant} was probably meant"),
            None => String::new(),
        };
        Finding {
            severity: Severity::Warning,
            member: format!("{path}.{name}"),
            rule: format!("is not a member that any agent reads{meant}"),
        }
    });
    unknown.collect()
}
