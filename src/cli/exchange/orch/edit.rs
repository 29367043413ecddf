//! Edits `orchestration` of a deployment policy: the wanted number, or single members (orchestration 2.8).

use serde_json::{Map, Value, json};

use crate::context::Exchange;
use crate::exchange::deployment::POLICIES;
use crate::exit::{CliError, Outcome};

/// Other names of members, as the specification of HA clusters has them.
const ALIASES: [(&str, &str); 14] = [
    ("topology", "mode"),
    ("placement", "placement.policy"),
    ("constraints", "placement.expression"),
    ("nodes", "scope.nodes"),
    ("hard_affinity", "placement.affinity.hard"),
    ("hard_anti_affinity", "placement.affinity.hardAnti"),
    ("soft_affinity", "placement.affinity.soft"),
    ("soft_anti_affinity", "placement.affinity.softAnti"),
    ("flex_min", "flex.min"),
    ("flex_min_nodes", "flex.min"),
    ("flex_max", "flex.max"),
    ("flex_max_nodes", "flex.max"),
    ("flex_target", "flex.target"),
    ("monitor_schedule", "update.monitorSeconds"),
];

/// Sets the wanted number of instances.
///
/// # Errors
/// With status 1 when the mode has no such number, 8 when the policy does not exist.
pub async fn scale(exchange: &Exchange, policy: &str, count: u32) -> Outcome {
    let mut document = read(exchange, policy).await?;
    let mode = document.get("mode").and_then(Value::as_str).unwrap_or("global").to_owned();
    let member = match mode.as_str() {
        "replicated" => "replicas",
        "flex" => "flex.target",
        _ => {
            return Err(CliError::input(
                format!("{policy} was not scaled"),
                format!("the mode {mode} has no number of instances"),
                "use the mode replicated or flex",
            ));
        }
    };
    apply(&mut document, &format!("{member}={count}"))?;
    write(exchange, policy, document).await
}

/// Changes members.
///
/// # Errors
/// With status 1 for a change that cannot be read, 3 when the document would break a rule, 8 when the policy does not exist.
pub async fn set(exchange: &Exchange, policy: &str, changes: &[String]) -> Outcome {
    let mut document = read(exchange, policy).await?;
    for change in changes {
        apply(&mut document, change)?;
    }
    write(exchange, policy, document).await
}

async fn read(exchange: &Exchange, policy: &str) -> Outcome<Value> {
    let found = POLICIES.read_one(exchange, policy).await?.into_value();
    let document = found.get("orchestration").filter(|document| !document.is_null()).cloned();
    Ok(document.unwrap_or_else(|| json!({})))
}

async fn write(exchange: &Exchange, policy: &str, document: Value) -> Outcome {
    POLICIES.patch(exchange, policy, &json!({ "orchestration": document })).await
}

/// Applies one change: `KEY=VALUE`, `KEY+=ITEM` or `KEY-=ITEM`.
pub fn apply(document: &mut Value, change: &str) -> Outcome {
    let refuse = |why: &str| {
        CliError::input(
            format!("the change {change} cannot be made"),
            why,
            "give changes such as update.parallelism=2, scope.nodes+=edge-3 or scope.nodes-=edge-1",
        )
    };
    let (key, text) = change.split_once('=').ok_or_else(|| refuse("it has no equals sign"))?;
    let (key, sign) = match (key.strip_suffix('+'), key.strip_suffix('-')) {
        (Some(key), _) => (key, Some(true)),
        (_, Some(key)) => (key, Some(false)),
        _ => (key, None),
    };
    let key = ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, path)| path);
    let path: Vec<&str> = key.split('.').collect();
    if path.iter().any(|name| name.is_empty()) {
        return Err(refuse("it names no member"));
    }
    let member = member_of(document, &path).ok_or_else(|| refuse("a part of the name is no object"))?;
    match sign {
        None => *member = value_of(text),
        Some(is_added) => {
            if member.is_null() {
                *member = json!([]);
            }
            let items = member.as_array_mut().ok_or_else(|| refuse("the member is no list"))?;
            let item = Value::from(text);
            items.retain(|one| *one != item);
            if is_added {
                items.push(item);
            }
        }
    }
    Ok(())
}

/// Returns a member, with the objects around it; a new one is null.
fn member_of<'a>(document: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(document, |value, name| {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        Some(value.as_object_mut()?.entry(*name).or_insert(Value::Null))
    })
}

/// Reads a number, a truth value, a list or null; anything else is a text.
fn value_of(text: &str) -> Value {
    let is_json = |value: &Value| !value.is_string();
    serde_json::from_str(text).ok().filter(is_json).unwrap_or_else(|| Value::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(mut document: Value, changes: &[&str]) -> Value {
        changes.iter().for_each(|change| apply(&mut document, change).unwrap());
        document
    }

    #[test]
    fn members_are_set_and_lists_grow_and_shrink() {
        let document = changed(
            json!({"mode": "flex", "scope": {"type": "nodes", "nodes": ["n1", "n2"]}}),
            &["flex.target=2", "nodes+=n3", "nodes-=n1", "nodes+=n3", "placement=spread", "orchestrate=ha"],
        );
        let expected = json!({
            "mode": "flex", "scope": {"type": "nodes", "nodes": ["n2", "n3"]}, "flex": {"target": 2},
            "placement": {"policy": "spread"}, "orchestrate": "ha",
        });
        assert_eq!(document, expected);
        let quoted = changed(json!({}), &["constraints=\"{node.tier}\" == LAB"]);
        assert_eq!(quoted, json!({"placement": {"expression": "\"{node.tier}\" == LAB"}}));
    }

    #[test]
    fn change_that_cannot_be_read_is_refused() {
        for change in ["replicas", "=3", "a..b=1", "mode.x=1", "mode+=x"] {
            assert!(apply(&mut json!({"mode": "flex"}), change).is_err(), "{change}");
        }
    }
}
