//! Templates in the parameters of workflows: `{{ node.name }}` stands for a property of the failed member.
//!
//! Source: orchestration C6.

use serde_json::{Map, Value};

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// The path of a parameter, and the rule that it breaks.
type Broken = (String, String);

/// The values that templates stand for; those that a member does not have are empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TemplateValues<'a> {
    /// Id of the node, with its organization.
    pub node_id: &'a str,
    /// Name of the node, without its organization.
    pub node_name: &'a str,
    /// Id of the task.
    pub task_id: &'a str,
    /// Id of the agreement.
    pub agreement_id: &'a str,
}

impl<'a> TemplateValues<'a> {
    /// Names of the values.
    pub const NAMES: [&'static str; 4] =
        ["node.physicalid", "node.name", "instance.taskId", "instance.agreementId"];

    fn find(&self, name: &str) -> Option<&'a str> {
        let values = [self.node_id, self.node_name, self.task_id, self.agreement_id];
        Self::NAMES.iter().zip(values).find(|(known, _)| **known == name).map(|(_, value)| value)
    }

    /// Returns a text with every template replaced.
    ///
    /// # Errors
    /// The rule that the text breaks: a template that is not closed, or a name that is not known.
    pub fn replace(&self, text: &str) -> Result<String, String> {
        let (mut found, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once(OPEN) {
            let (name, after) =
                after.split_once(CLOSE).ok_or_else(|| format!("must close every {OPEN} with {CLOSE}"))?;
            let value = self.find(name.trim()).ok_or_else(|| {
                let known = Self::NAMES.join(", ");
                let name: String = name.trim().chars().take(40).collect();
                format!("must not contain {OPEN} {name} {CLOSE}: known are {known}")
            })?;
            found.push_str(before);
            found.push_str(value);
            rest = after;
        }
        found.push_str(rest);
        Ok(found)
    }

    /// Returns parameters with the templates of every text replaced, also inside lists and objects.
    ///
    /// # Errors
    /// The path of the parameter that breaks a rule, and the rule.
    pub fn replace_in(&self, params: &Map<String, Value>) -> Result<Map<String, Value>, Broken> {
        let replaced = params.iter().map(|(name, value)| Ok((name.clone(), self.value(name, value)?)));
        replaced.collect()
    }

    fn value(&self, path: &str, value: &Value) -> Result<Value, Broken> {
        Ok(match value {
            Value::String(text) => Value::String(self.replace(text).map_err(|rule| (path.to_owned(), rule))?),
            Value::Array(list) => {
                let items = list.iter().enumerate();
                let items = items.map(|(number, item)| self.value(&format!("{path}[{number}]"), item));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let member = |(name, item): (&String, &Value)| {
                    Ok::<_, Broken>((name.clone(), self.value(&format!("{path}.{name}"), item)?))
                };
                Value::Object(members.iter().map(member).collect::<Result<_, _>>()?)
            }
            other => other.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const VALUES: TemplateValues<'_> =
        TemplateValues { node_id: "o/n1", node_name: "n1", task_id: "t", agreement_id: "" };

    #[test]
    fn templates_stand_for_the_member() {
        let replaced = |text| VALUES.replace(text).expect("the text is valid");
        assert_eq!(replaced("{{ node.physicalid }}/{{node.name}}"), "o/n1/n1");
        assert_eq!(replaced("[{{ instance.taskId }}|{{ instance.agreementId }}]"), "[t|]");
        assert_eq!(replaced("a } {b}} c"), "a } {b}} c");
        let params = json!({"a": ["{{ node.name }}", 1], "b": {"c": "{{ instance.taskId }}"}});
        let params = params.as_object().expect("an object");
        let found = VALUES.replace_in(params).expect("the parameters are valid");
        assert_eq!(Value::Object(found), json!({"a": ["n1", 1], "b": {"c": "t"}}));
    }

    #[test]
    fn values_are_not_read_as_templates() {
        let values = TemplateValues { node_name: "{{ node.name }}", ..VALUES };
        assert_eq!(values.replace("{{ node.name }}").as_deref(), Ok("{{ node.name }}"));
    }

    #[test]
    fn template_that_is_open_or_not_known_is_refused() {
        assert!(VALUES.replace("{{ node.name").unwrap_err().contains("must close"));
        assert!(VALUES.replace("{{ node.secret }}").unwrap_err().contains("node.secret"));
        let params = json!({"a": {"b": ["{{ x }}"]}});
        assert_eq!(VALUES.replace_in(params.as_object().expect("an object")).unwrap_err().0, "a.b[0]");
    }
}
