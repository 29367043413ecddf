//! Changes of user input: values are merged into those that are stored.

use serde_json::Value;

/// Members that identify the subject of a user input entry; absent and empty are equal.
const KEY: [&str; 4] = ["serviceOrgid", "serviceUrl", "serviceArch", "serviceVersionRange"];

/// Returns the stored user input with a change: values of the same service and name are replaced, others are added, and
/// nothing is removed.
pub(super) fn merged(mut stored: Vec<Value>, change: Vec<Value>) -> Vec<Value> {
    for entry in change {
        match stored.iter_mut().find(|known| is_same(known, &entry, &KEY)) {
            Some(known) => merge_values(known, entry),
            None => stored.push(entry),
        }
    }
    stored
}

fn merge_values(known: &mut Value, mut entry: Value) {
    let Some(Value::Array(change)) = entry.get_mut("inputs").map(Value::take) else { return };
    let Some(Value::Array(values)) = known.get_mut("inputs") else {
        known["inputs"] = Value::Array(change);
        return;
    };
    for value in change {
        match values.iter_mut().find(|known| is_same(known, &value, &["name"])) {
            Some(known) => *known = value,
            None => values.push(value),
        }
    }
}

fn is_same(one: &Value, two: &Value, members: &[&str]) -> bool {
    let text = |value: &Value, member: &str| {
        value.get(member).and_then(Value::as_str).filter(|text| *text != "*").unwrap_or_default().to_owned()
    };
    members.iter().all(|member| text(one, member) == text(two, member))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(url: &str, inputs: Value) -> Value {
        json!({"serviceOrgid": "o", "serviceUrl": url, "serviceArch": "", "inputs": inputs})
    }

    #[test]
    fn values_are_replaced_by_name_and_everything_else_stays() {
        let stored = vec![
            entry("cam", json!([{"name": "RATE", "value": 1}, {"name": "MODE", "value": "a"}])),
            entry("mic", json!([{"name": "GAIN", "value": 3}])),
        ];
        let same = json!({"serviceOrgid": "o", "serviceUrl": "cam", "serviceArch": "*",
                          "inputs": [{"name": "RATE", "value": 2}, {"name": "NEW", "value": true}]});
        let change = vec![same, entry("gps", json!([]))];
        let expected = vec![
            entry(
                "cam",
                json!([{"name": "RATE", "value": 2}, {"name": "MODE", "value": "a"}, {"name": "NEW", "value": true}]),
            ),
            stored[1].clone(),
            entry("gps", json!([])),
        ];
        assert_eq!(merged(stored, change), expected);
    }
}
