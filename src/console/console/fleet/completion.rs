//! Completions of a constraint from the properties, operators and values that nodes have.

use evenkeel_wire::agbot::known_properties::{KnownProperties, KnownPropertiesQuery, KnownProperty};

use crate::constraint::is_plain;
use crate::failure::Failure;
use crate::session::Reader;

/// Properties that are offered.
const PROPERTIES: u16 = 40;

/// Values of a property that are offered with each operator.
const VALUES: usize = 4;

/// Most completions of a page.
const MOST: usize = 200;

/// Longest completion, in bytes: longer values are hardly typed.
const LONGEST: usize = 120;

/// Completions of a constraint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Completion {
    /// Comparisons that can be chosen, each with the number of nodes that have the value, in words.
    pub(crate) options: Vec<(String, String)>,
    /// Names of properties, for tags.
    pub(crate) names: Vec<String>,
}

impl Completion {
    /// Reads what nodes have that the reader may read.
    pub(crate) async fn read(reader: &Reader, org: &str) -> Result<Self, Failure> {
        let query = KnownPropertiesQuery { limit: Some(PROPERTIES), prefix: None };
        Ok(Self::new(&reader.client.known_properties(org, &query).await?))
    }

    fn new(known: &KnownProperties) -> Self {
        let plain = || known.properties.iter().filter(|property| is_plain(&property.name));
        let mut options: Vec<(String, String)> = plain().flat_map(of_property).collect();
        options.retain(|(text, _)| text.len() <= LONGEST);
        options.truncate(MOST);
        let own = plain().filter(|property| !property.name.starts_with("openhorizon."));
        Self { options, names: own.map(|property| property.name.clone()).collect() }
    }
}

/// Returns the comparisons of a property: of each operator with its most frequent values.
fn of_property(property: &KnownProperty) -> Vec<(String, String)> {
    let is_ordered = property.operators.iter().any(|operator| operator == "<");
    // Comparisons that hold for most nodes first; the others differ by the operator only.
    let wanted =
        |operator: &&String| matches!(operator.as_str(), "==" | "!=") || is_ordered && *operator == ">=";
    let operators = property.operators.iter().filter(wanted);
    let values = || property.values.iter().filter(|value| !value.value.contains('"')).take(VALUES);
    let comparisons = operators.flat_map(|operator| {
        values().map(move |value| {
            let is_bare = is_ordered || matches!(value.value.as_str(), "true" | "false");
            let operand = if is_bare { value.value.clone() } else { format!("\"{}\"", value.value) };
            let label = if value.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", value.nodes) };
            (format!("{} {operator} {operand}", property.name), label)
        })
    });
    comparisons.collect()
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::agbot::known_properties::KnownValue;

    use super::*;

    fn property(name: &str, operators: &[&str], values: &[&str]) -> KnownProperty {
        let values = values.iter().map(|value| KnownValue { value: (*value).to_owned(), nodes: 2 });
        KnownProperty {
            name: name.to_owned(),
            nodes: 2,
            operators: operators.iter().map(|operator| (*operator).to_owned()).collect(),
            values: values.collect(),
            more: false,
        }
    }

    #[test]
    fn comparisons_are_constraints_of_known_names_operators_and_values() {
        let known = KnownProperties {
            properties: vec![
                property("site", &["==", "!=", "in"], &["north", "a\"b"]),
                property("cpu", &["==", "!=", "<", "<=", ">", ">="], &["4"]),
                property("gpu", &["==", "!="], &["true"]),
                property("<img src=x>", &["=="], &["x"]),
                property("openhorizon.arch", &["=="], &["amd64"]),
            ],
            more: false,
        };
        let found = Completion::new(&known);
        let texts: Vec<&str> = found.options.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "site == \"north\"",
                "site != \"north\"",
                "cpu == 4",
                "cpu != 4",
                "cpu >= 4",
                "gpu == true",
                "gpu != true",
                "openhorizon.arch == \"amd64\"",
            ]
        );
        assert_eq!(found.names, ["site", "cpu", "gpu"]);
    }

    #[test]
    fn completions_are_bounded() {
        let names: Vec<String> = (0..300).map(|number| format!("p{number}")).collect();
        let long = "x".repeat(500);
        let properties = names.iter().map(|name| property(name, &["==", "!="], &["a", &long])).collect();
        let found = Completion::new(&KnownProperties { properties, more: true });
        assert_eq!(found.options.len(), MOST);
        assert!(found.options.iter().all(|(text, _)| text.len() <= LONGEST));
    }
}
