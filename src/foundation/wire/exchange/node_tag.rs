//! A property that is set in the policies of several nodes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// Longest name of a tag, in bytes.
pub const LONGEST_TAG_NAME: usize = 128;

/// Longest value of a tag, in bytes.
pub const LONGEST_TAG_VALUE: usize = 1_024;

/// Prefix of the properties that agents and the hub write.
const BUILT_IN: &str = "openhorizon.";

/// The parts of a node's policy beside its own properties, which go before these.
const PARTS: [&str; 2] = ["deployment", "management"];

/// A property with its value; none removes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NodeTag {
    /// Name of the property.
    #[schema(required = true)]
    pub name: String,
    /// Its value: a text, a number or a truth value; null or left out removes the property.
    #[schema(value_type = Option<Object>)]
    pub value: Option<Value>,
}

impl NodeTag {
    /// Reads a tag from what somebody typed: `true`, `false` and numbers are such values, an empty text removes the property.
    ///
    /// # Errors
    /// The rule that the name or the value breaks.
    pub fn typed(name: &str, value: &str) -> Result<Self, String> {
        let value = match value.trim() {
            "" => None,
            "true" => Some(json!(true)),
            "false" => Some(json!(false)),
            text => Some(number(text).unwrap_or_else(|| json!(text))),
        };
        let tag = Self { name: name.trim().to_owned(), value };
        tag.check()?;
        Ok(tag)
    }

    /// Checks the name and the value.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn check(&self) -> Result<(), String> {
        let is_plain = |letter: char| letter.is_alphanumeric() || "._-".contains(letter);
        match self.name.as_str() {
            "" => return Err("name must not be empty".to_owned()),
            name if name.len() > LONGEST_TAG_NAME => {
                return Err(format!("name must not be longer than {LONGEST_TAG_NAME} bytes"));
            }
            name if name.starts_with(BUILT_IN) => {
                return Err(format!("name must not begin with {BUILT_IN}: agents and the hub write these"));
            }
            name if !name.chars().all(is_plain) => {
                return Err("name must consist of letters, digits, dots, hyphens and underscores".to_owned());
            }
            _ => {}
        }
        match &self.value {
            None | Some(Value::Bool(_) | Value::Number(_)) => Ok(()),
            Some(Value::String(text)) if text.len() > LONGEST_TAG_VALUE => {
                Err(format!("value must not be longer than {LONGEST_TAG_VALUE} bytes"))
            }
            Some(Value::String(text)) if text.contains('"') || text.chars().any(char::is_control) => {
                Err("value must not hold quotation marks or control characters".to_owned())
            }
            Some(Value::String(_)) => Ok(()),
            Some(_) => Err("value must be a text, a number or a truth value".to_owned()),
        }
    }

    /// Returns whether a node with this policy has the tag already.
    #[must_use]
    pub fn is_in(&self, policy: &Value) -> bool {
        self.applied(policy.clone()).is_none()
    }

    /// Sets the property in the policy of a node, as the exchange sent it; none when that changes nothing.
    #[must_use]
    pub fn applied(&self, policy: Value) -> Option<Value> {
        let mut policy = match policy {
            Value::Object(policy) => policy,
            _ => Map::from_iter([("constraints".to_owned(), json!([]))]),
        };
        policy.remove("lastUpdated");
        let mut is_changed = self.set_in(&mut policy, true);
        for part in PARTS {
            if let Some(Value::Object(part)) = policy.get_mut(part) {
                is_changed |= self.set_in(part, false);
            }
        }
        is_changed.then_some(Value::Object(policy))
    }

    /// Sets the property in a list; one that is not there is added only if it is to be.
    fn set_in(&self, part: &mut Map<String, Value>, is_added: bool) -> bool {
        let before = part.get("properties").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_it = |property: &Value| property["name"] == self.name.as_str();
        let has_it = before.iter().any(is_it);
        if !has_it && (!is_added || self.value.is_none()) {
            return false;
        }
        let mut after: Vec<Value> = before.iter().filter(|property| !is_it(property)).cloned().collect();
        if let Some(value) = &self.value {
            // It stays where it was, with its declared type, if the new value can be of that.
            let position = before.iter().position(is_it).unwrap_or(after.len());
            let known = before.iter().find(|property| is_it(property) && is_alike(&property["value"], value));
            let mut property = known.cloned().unwrap_or_else(|| json!({ "name": self.name }));
            property["value"] = value.clone();
            after.insert(position.min(after.len()), property);
            let is_same = |one: &Value| is_it(one) && one["value"] == *value;
            if before.len() == after.len() && before.iter().any(is_same) {
                return false;
            }
        }
        part.insert("properties".to_owned(), Value::Array(after));
        true
    }
}

/// Returns whether two values are of one kind.
fn is_alike(one: &Value, other: &Value) -> bool {
    one.is_string() && other.is_string()
        || one.is_number() && other.is_number()
        || one.is_boolean() && other.is_boolean()
}

fn number(text: &str) -> Option<Value> {
    let is_plain = text.starts_with(|first: char| first.is_ascii_digit() || first == '-');
    let parsed: Value = serde_json::from_str(text).ok().filter(|_| is_plain)?;
    parsed.is_number().then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(name: &str, value: &str) -> NodeTag {
        NodeTag::typed(name, value).expect("a tag")
    }

    #[test]
    fn typed_values_are_numbers_truth_values_and_texts() {
        for (typed, value) in [
            ("north", json!("north")),
            ("4", json!(4)),
            ("-1.5", json!(-1.5)),
            ("true", json!(true)),
            ("1.0.0", json!("1.0.0")),
            ("null", json!("null")),
        ] {
            assert_eq!(tag("site", typed).value, Some(value), "{typed}");
        }
        assert_eq!(tag("site", " ").value, None);
        for (name, value, rule) in [
            ("", "x", "name must not be empty"),
            ("a b", "x", "name must consist of"),
            ("<img>", "x", "name must consist of"),
            ("openhorizon.cpu", "4", "name must not begin with openhorizon."),
            ("site", "a\"b", "value must not hold quotation marks"),
        ] {
            let error = NodeTag::typed(name, value).unwrap_err();
            assert!(error.starts_with(rule), "{error}");
        }
    }

    #[test]
    fn property_is_added_replaced_and_removed_and_the_rest_stays() {
        let policy = json!({
            "label": "l", "lastUpdated": "t", "constraints": ["a == 1"],
            "properties": [{"name": "site", "value": "south", "type": "string"}, {"name": "cpu", "value": 4}],
            "deployment": {"properties": [{"name": "site", "value": "west"}], "constraints": []},
        });
        let north = tag("site", "north");
        let changed = north.applied(policy.clone()).expect("a change");
        assert_eq!(changed["properties"][0], json!({"name": "site", "value": "north", "type": "string"}));
        let number = tag("site", "4").applied(policy.clone()).expect("a change");
        assert_eq!(number["properties"][0], json!({"name": "site", "value": 4}), "it is no text any longer");
        assert_eq!(changed["properties"][1], json!({"name": "cpu", "value": 4}));
        assert_eq!(changed["deployment"]["properties"][0]["value"], "north");
        assert_eq!((&changed["constraints"], changed.get("lastUpdated")), (&json!(["a == 1"]), None));
        assert!(north.is_in(&changed) && !north.is_in(&policy));
        let removed = tag("site", "").applied(changed).expect("a change");
        assert_eq!(removed["properties"], json!([{"name": "cpu", "value": 4}]));
        assert_eq!(removed["deployment"]["properties"], json!([]));
        assert!(tag("site", "").is_in(&removed));
        let added = tag("gpu", "true").applied(Value::Null).expect("a change");
        assert_eq!(added, json!({"constraints": [], "properties": [{"name": "gpu", "value": true}]}));
    }
}
