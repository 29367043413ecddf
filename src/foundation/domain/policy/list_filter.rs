//! Constraints as filters of lists: the members of an entry are read as properties.

use serde::Deserialize;
use serde_json::Value;

use super::ConstraintList;
use super::constraint::{ConstraintError, Expression};
use super::property::{Property, PropertyType};

/// Most values of a list that are compared.
const MAX_ELEMENTS: usize = 1_000;

/// A filter of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListFilter {
    tree: Expression,
    /// Names of the properties, each once.
    names: Vec<String>,
}

impl ListFilter {
    /// Parses a constraint.
    ///
    /// # Errors
    /// [`ConstraintError`] for a text that is no constraint, with the position.
    pub fn parse(text: &str) -> Result<Self, ConstraintError> {
        let tree = ConstraintList::from(vec![text.to_owned()]).parse_own()?;
        let predicates = tree.predicates().into_iter();
        let mut names: Vec<String> = predicates.map(|predicate| predicate.property().to_owned()).collect();
        names.sort_unstable();
        names.dedup();
        Ok(Self { tree, names })
    }

    /// Returns the tree of the constraint.
    #[must_use]
    pub fn tree(&self) -> &Expression {
        &self.tree
    }

    /// Returns whether an entry satisfies the constraint. What it names and the entry does not have satisfies no operator.
    ///
    /// # Shape
    /// `key`: the key of the entry, which is its `id` unless it has a member of that name, and without the organization its `name`. A name with dots
    /// leads through objects, and through the elements of lists. A member precedes a property of the same name in the list `properties`.
    #[must_use]
    pub fn selects(&self, key: &str, entry: &Value) -> bool {
        let found = self.names.iter().filter_map(|name| property_of(name, key, entry));
        self.tree.is_satisfied_by(&found.collect())
    }
}

fn property_of(name: &str, key: &str, entry: &Value) -> Option<Property> {
    if let Some(property) = member(name, entry) {
        return Some(property);
    }
    let listed = entry.get("properties").and_then(Value::as_array).into_iter().flatten();
    let mut named = listed.filter(|one| one.get("name").and_then(Value::as_str) == Some(name));
    if let Some(property) = named.next() {
        return Property::deserialize(property).ok();
    }
    match name {
        "id" => Some(Property::new(name, key)),
        "name" => Some(Property::new(name, key.split_once('/').map_or(key, |(_, bare)| bare))),
        _ => None,
    }
}

fn member(name: &str, entry: &Value) -> Option<Property> {
    let mut values = Vec::new();
    let is_list = collect(name, entry, &mut values);
    match &values[..] {
        [] => None,
        [one] if !is_list => Some(Property::new(name, (*one).clone())),
        many => {
            let texts: Vec<String> = many.iter().map(|value| text(value)).collect();
            Some(Property::typed(name, texts.join(","), PropertyType::ListOfStrings))
        }
    }
}

/// Collects the scalar values to which a path leads; true when it leads through a list.
fn collect<'v>(path: &str, value: &'v Value, found: &mut Vec<&'v Value>) -> bool {
    match value {
        Value::Array(elements) => {
            for element in elements {
                if found.len() >= MAX_ELEMENTS {
                    break;
                }
                collect(path, element, found);
            }
            true
        }
        Value::Object(members) if !path.is_empty() => {
            // Names of members may have dots themselves.
            if let Some(value) = members.get(path) {
                return collect("", value, found);
            }
            let mut parts = path.match_indices('.');
            let inner = parts.find_map(|(dot, _)| Some((members.get(&path[..dot])?, &path[dot + 1..])));
            inner.is_some_and(|(value, rest)| collect(rest, value, found))
        }
        Value::Null | Value::Object(_) => false,
        scalar if path.is_empty() => {
            found.push(scalar);
            false
        }
        _ => false,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(filter: &str, entry: &Value) -> bool {
        ListFilter::parse(filter).unwrap().selects("acme/edge-1", entry)
    }

    #[test]
    fn members_are_properties_by_their_path() {
        let entry = json!({
            "owner": "acme/erin", "public": true, "version": "1.4.0", "count": 3, "empty": null,
            "service": {"name": "camera", "serviceVersions": [{"version": "1.0.0"}, {"version": "2.0.0"}]},
            "members": ["n1", "n2"],
            "tags": {"a.b": "dotted"},
        });
        for filter in [
            "owner == \"acme/erin\"",
            "public == true AND count > 2",
            "version in [1.0.0,2.0.0)",
            "service.name == camera",
            "service.serviceVersions.version == 2.0.0",
            "members == n2",
            "tags.a.b == dotted",
            "id == \"acme/edge-1\" AND name == edge-1",
            "owner == nobody OR members == n1",
        ] {
            assert!(selects(filter, &entry), "{filter}");
        }
        for filter in [
            "members == n3",
            "members != n1",
            "service == camera",
            "service.name.more == camera",
            "empty != x",
            "missing != x",
            "public == false",
        ] {
            assert!(!selects(filter, &entry), "{filter}");
        }
    }

    #[test]
    fn properties_are_found_by_name_behind_members() {
        let entry = json!({"name": "pump", "properties": [
            {"name": "site", "value": "north"},
            {"name": "name", "value": "hidden"},
            {"name": "roles", "value": "camera,gate", "type": "list of strings"},
            {"name": "openhorizon.cpu", "value": 4},
        ]});
        assert!(selects("site == north AND name == pump AND openhorizon.cpu >= 4", &entry));
        assert!(selects("roles == gate", &entry) && !selects("name == hidden", &entry));
    }

    #[test]
    fn errors_name_the_position() {
        let error = ListFilter::parse("site = = north").unwrap_err().to_string();
        assert!(error.contains("character"), "{error}");
    }
}
