//! Documents whose members are all known, and where a member stands in the file of a user.

use evenkeel_domain::orchestration::object::Members;
use serde_json::Value;

/// The first members of [`PLANNED_NAMES`] are those of a document of `hzn apply` around a deployment policy: kind, name and spec.
const APPLIED_COUNT: usize = 3;

/// Members of what can be planned: a document of `hzn apply` with a deployment policy, or a policy.
pub const PLANNED: Members = Members { known: &PLANNED_NAMES, unsupported: &[] };

/// Members of a deployment policy; the last ones are those that only the exchange sets, which a policy that was listed holds.
pub const POLICY: Members = Members { known: PLANNED_NAMES.split_at(APPLIED_COUNT).1, unsupported: &[] };

const PLANNED_NAMES: [&str; 14] = [
    "kind",
    "name",
    "spec",
    "label",
    "description",
    "service",
    "properties",
    "constraints",
    "userInput",
    "secretBinding",
    "orchestration",
    "owner",
    "created",
    "lastUpdated",
];

/// Members of a management policy, with those that only the exchange sets.
pub const MANAGEMENT_POLICY: Members = Members {
    known: &[
        "label",
        "description",
        "properties",
        "constraints",
        "patterns",
        "enabled",
        "start",
        "startWindow",
        "agentUpgradePolicy",
        "owner",
        "created",
        "lastUpdated",
    ],
    unsupported: &[],
};

/// Refuses a document that is no object, or has a member that is not known.
///
/// `text`: the file, without comments; empty when the document is only a part of it.
///
/// # Errors
/// The reason, with line and column where there is a text.
pub fn check(document: &Value, text: &str, known: &Members) -> Result<(), String> {
    let Value::Object(members) = document else {
        let start = text.len() - text.trim_start().len();
        return Err(format!("{} holds {}, and an object is expected", place(text, start), kind_of(document)));
    };
    let Some(name) = members.keys().find(|name| !known.known.contains(&name.as_str())) else { return Ok(()) };
    let place = position(text, name).map(|at| format!("{} has ", place(text, at))).unwrap_or_default();
    let meant = match known.nearest(name) {
        Some(meant) => format!("{meant} was probably meant"),
        None => format!("the members are {}", known.known.join(", ")),
    };
    Err(format!("{place}the member {name}, which does not exist; {meant}"))
}

fn kind_of(document: &Value) -> &'static str {
    match document {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns line and column of an offset, both from 1.
fn place(text: &str, offset: usize) -> String {
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.matches('\n').count() + 1;
    format!("line {line} column {}", before[line_start..].chars().count() + 1)
}

/// Returns the offset of the name of a member of the outermost object.
fn position(text: &str, name: &str) -> Option<usize> {
    if text.trim_start().starts_with('{') { json_position(text, name) } else { yaml_position(text, name) }
}

fn json_position(text: &str, name: &str) -> Option<usize> {
    let quoted = Value::from(name).to_string();
    let (mut depth, mut is_in_text, mut is_escaped) = (0_usize, false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if std::mem::take(&mut is_escaped) => {}
            '\\' if is_in_text => is_escaped = true,
            '"' => {
                let follows = (!is_in_text && depth == 1).then(|| text[at..].strip_prefix(&quoted)).flatten();
                if follows.is_some_and(|rest| rest.trim_start().starts_with(':')) {
                    return Some(at);
                }
                is_in_text = !is_in_text;
            }
            '{' | '[' if !is_in_text => depth += 1,
            '}' | ']' if !is_in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// Members of the outermost object begin a line, with or without quotes.
fn yaml_position(text: &str, name: &str) -> Option<usize> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let key = line.split(':').next().unwrap_or_default().trim_end();
        if key.trim_matches(['"', '\'']) == name && line.len() > key.len() {
            return Some(start);
        }
        start += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_member_is_named_with_its_place_and_what_was_meant() {
        let text = "{\n  \"service\": {\"orchstration\": \"orchstration\"},\n  \"orchstration\" : {}\n}";
        let error = check(&serde_json::from_str(text).unwrap(), text, &POLICY).unwrap_err();
        let expected = "line 3 column 3 has the member orchstration, which does not exist; orchestration was probably meant";
        assert_eq!(error, expected);
        let error = check(&json!({"label": "l", "lable": ""}), "label: l\nlable: ''\n", &POLICY).unwrap_err();
        assert!(error.starts_with("line 2 column 1 has the member lable,"), "{error}");
        let error = check(&json!({"cluster": 1}), "cluster: 1", &POLICY).unwrap_err();
        assert!(error.ends_with("the members are label, description, service, properties, constraints, userInput, secretBinding, orchestration, owner, created, lastUpdated"), "{error}");
    }

    #[test]
    fn document_that_is_no_object_is_named_by_its_kind() {
        let error = check(&json!([1]), "\n [1]", &POLICY).unwrap_err();
        assert_eq!(error, "line 2 column 2 holds a list, and an object is expected");
        assert!(check(&json!("nonsense"), "nonsense", &POLICY).unwrap_err().contains("a text"));
        assert_eq!(check(&json!({"label": "l", "owner": "o/u"}), "", &POLICY), Ok(()));
    }

    #[test]
    fn every_member_of_a_policy_is_known() {
        use evenkeel_wire::exchange::{deployment_policy, management_policy};
        let policy = deployment_policy::PatchDeploymentPolicy {
            orchestration: Some(None),
            ..deployment_policy::PatchDeploymentPolicy::default()
        };
        let documents = [
            (serde_json::to_value(policy), &POLICY),
            (serde_json::to_value(deployment_policy::DeploymentPolicyResponse::default()), &POLICY),
            (serde_json::to_value(deployment_policy::DeploymentPolicyResponse::default()), &PLANNED),
            (
                serde_json::to_value(management_policy::ManagementPolicyResponse::default()),
                &MANAGEMENT_POLICY,
            ),
        ];
        for (document, known) in documents {
            assert_eq!(check(&document.unwrap(), "", known), Ok(()));
        }
    }
}
