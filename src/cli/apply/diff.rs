//! What a document changes in a stored resource.

use serde_json::{Value, json};

/// One member that a document changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Where, such as `service.serviceVersions[0].version`.
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

    /// The change for people.
    pub fn text(&self) -> String {
        format!("{}: {} -> {}", self.path, self.from, self.to)
    }
}

/// Returns where a wanted document differs from what is stored. Members that it does not name are left out: the exchange
/// fills them in. Lists are compared element by element, and a list of another length as a whole.
pub fn changes(stored: &Value, wanted: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    compare(stored, wanted, String::new(), &mut found);
    found
}

fn compare(stored: &Value, wanted: &Value, path: String, found: &mut Vec<Change>) {
    match (stored, wanted) {
        (Value::Object(old), Value::Object(new)) => {
            for (name, value) in new {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(old.get(name).unwrap_or(&Value::Null), value, path, found);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (position, (old, new)) in old.iter().zip(new).enumerate() {
                compare(old, new, format!("{path}[{position}]"), found);
            }
        }
        (old, new) if is_same(old, new) => {}
        (old, new) => found.push(Change { path, from: old.clone(), to: new.clone() }),
    }
}

/// An absent value and an empty one are the same to the exchange.
fn is_same(old: &Value, new: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    old == new || (is_empty(old) && is_empty(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_members_that_the_document_names_and_changes_are_reported() {
        let stored =
            json!({"label": "a", "owner": "o/u", "service": {"versions": [{"v": "1"}]}, "list": [1]});
        let wanted =
            json!({"label": "a", "description": "", "service": {"versions": [{"v": "2"}]}, "list": [1, 2]});
        let texts: Vec<String> = changes(&stored, &wanted).iter().map(Change::text).collect();
        assert_eq!(texts, ["service.versions[0].v: \"1\" -> \"2\"", "list: [1] -> [1,2]"]);
        assert_eq!(changes(&wanted, &wanted), []);
    }
}
