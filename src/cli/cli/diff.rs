//! Differences between a document and the stored resource.

use serde_json::{Map, Value, json};

/// One member that a document changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Path, such as `service.serviceVersions[0].version`.
    pub path: String,
    /// The stored value; null when there is none.
    pub from: Value,
    /// The wanted value.
    pub to: Value,
}

impl Change {
    /// The change for programs.
    pub fn json(&self) -> Value {
        json!({"path": self.path, "from": self.from, "to": self.to})
    }

    /// The human-readable change.
    pub fn text(&self) -> String {
        format!("{}: {} -> {}", self.path, self.from, self.to)
    }
}

/// Members that only the exchange sets, or that name the resource.
const EXCHANGE_ONLY: [&str; 6] = ["owner", "created", "lastUpdated", "organization", "name", "admin"];
/// The member with the settings that the reference does not have.
pub const SETTINGS: &str = "orchestration";
/// Members that are generated again each time.
const SIGNATURES: [&str; 3] =
    ["deploymentSignature", "clusterDeploymentSignature", "deployment_overrides_signature"];

/// Returns the differences between a wanted document and the stored one: a member that the document does not name is
/// removed. Lists of the same length are compared element by element, others as a whole.
pub fn changes(stored: &Value, wanted: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    compare(stored, wanted, "", &mut found);
    found
}

fn compare(stored: &Value, wanted: &Value, path: &str, found: &mut Vec<Change>) {
    match (stored, wanted) {
        (Value::Object(old), Value::Object(new)) => {
            let removed = old.keys().filter(|name| !new.contains_key(*name));
            for name in new.keys().chain(removed) {
                let is_of_exchange = path.is_empty() && EXCHANGE_ONLY.contains(&name.as_str());
                if is_of_exchange || SIGNATURES.contains(&name.as_str()) {
                    continue;
                }
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let value = |members: &Map<String, Value>| members.get(name).cloned().unwrap_or(Value::Null);
                compare(&value(old), &value(new), &path, found);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (position, (old, new)) in old.iter().zip(new).enumerate() {
                compare(old, new, &format!("{path}[{position}]"), found);
            }
        }
        (old, new) if old == new || (is_usual(old, path) && is_usual(new, path)) => {}
        (old, new) => found.push(Change { path: path.to_owned(), from: old.clone(), to: new.clone() }),
    }
}

/// Returns whether a member of the exchange's documents means the same as an absent one: empty, false and 0 do.
/// Settings have other defaults, and even empty settings turn a policy into a workload.
fn is_usual(value: &Value, path: &str) -> bool {
    if path.starts_with(SETTINGS) {
        return value.is_null();
    }
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.values().all(|member| is_usual(member, path)),
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(stored: &Value, wanted: &Value) -> Vec<String> {
        changes(stored, wanted).iter().map(Change::text).collect()
    }

    #[test]
    fn members_that_the_document_changes_or_lacks_are_reported() {
        let stored =
            json!({"label": "a", "owner": "o/u", "service": {"versions": [{"v": "1"}]}, "list": [1]});
        let wanted =
            json!({"label": "a", "description": "", "service": {"versions": [{"v": "2"}]}, "list": [1, 2]});
        let expected = ["service.versions[0].v: \"1\" -> \"2\"", "list: [1] -> [1,2]"];
        assert_eq!(texts(&stored, &wanted), expected);
        assert_eq!(changes(&wanted, &wanted), []);
        let stored = json!({"label": "a", "description": "d", "orchestration": {"scale": 2},
                            "userInput": [], "enabled": false, "service": {"nodeHealth": {}, "deploymentSignature": "s"}});
        let wanted = json!({"label": "a", "service": {}});
        let expected = ["description: \"d\" -> null", "orchestration: {\"scale\":2} -> null"];
        assert_eq!(texts(&stored, &wanted), expected);
        let settings = |rollback: Value| json!({"orchestration": {"scale": 2, "rollback": rollback}});
        let expected = ["orchestration.rollback: false -> null"];
        assert_eq!(texts(&settings(json!(false)), &settings(Value::Null)), expected);
    }

    #[test]
    fn empty_settings_differ_from_absent_ones_in_both_directions() {
        let (without, removed) = (json!({"label": "a"}), json!({"label": "a", "orchestration": null}));
        for (settings, shown) in [
            (json!({}), "{}"),
            (json!({"scope": {}}), "{\"scope\":{}}"),
            (json!([]), "[]"),
            (json!(""), "\"\""),
        ] {
            let with = json!({"label": "a", "orchestration": settings});
            assert_eq!(texts(&with, &removed), [format!("orchestration: {shown} -> null")]);
            assert_eq!(texts(&without, &with), [format!("orchestration: null -> {shown}")]);
            assert_eq!(texts(&with, &with), [""; 0]);
        }
        let (with, wanted) = (json!({"orchestration": {"scope": {}}}), json!({"orchestration": {}}));
        assert_eq!(texts(&with, &wanted), ["orchestration.scope: {} -> null"]);
        assert_eq!(texts(&without, &removed), [""; 0]);
    }
}
