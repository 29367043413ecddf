//! Edits `orchestration` of a deployment policy: the desired number of instances, or single members (orchestration 2.8).

use serde_json::{Map, Value, json};

use crate::context::{Context, Exchange};
use crate::exit::{CliError, Outcome};
use crate::output::print_note;
use crate::resource::deployment::{EXCHANGE_ONLY, without};
use crate::resource::kinds::POLICIES;
use crate::stops::{Confirmation, Write, confirm_stops};

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

/// Effect of a change on a document.
#[derive(Debug, PartialEq, Eq)]
enum Effect {
    /// The member was written.
    Written,
    /// No effect, with the reason: a list already contains the item to add, or does not contain the item to remove.
    Nothing(String),
}

/// Sets the desired number of instances.
///
/// # Errors
/// With status 1 when the mode has no such number, 8 when the policy does not exist.
pub async fn scale(
    hub: (&Context, &Exchange),
    policy: &str,
    count: u32,
    confirmation: Confirmation,
) -> Outcome {
    edit(hub, policy, confirmation, |document| set_count(document, policy, count).map(|()| true)).await
}

fn set_count(document: &mut Value, policy: &str, count: u32) -> Outcome {
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
    apply(document, &format!("{member}={count}")).map(|_| ())
}

/// Changes members. Nothing is sent when no change has an effect, which is reported.
///
/// # Errors
/// With status 1 for a change that cannot be read, 3 when the document would break a rule, 8 when the policy does not exist.
pub async fn set(
    hub: (&Context, &Exchange),
    policy: &str,
    changes: &[String],
    confirmation: Confirmation,
) -> Outcome {
    edit(hub, policy, confirmation, |document| apply_all(document, changes)).await
}

/// Changes the document of a policy, and retries when the policy is written concurrently; `change` returns
/// whether there is anything to write.
async fn edit(
    (context, exchange): (&Context, &Exchange),
    policy: &str,
    confirmation: Confirmation,
    change: impl Fn(&mut Value) -> Outcome<bool>,
) -> Outcome {
    let mut tried: Option<(String, CliError)> = None;
    loop {
        let found = POLICIES.read_one(exchange, policy).await?.into_value();
        let written_at = found.get("lastUpdated").and_then(Value::as_str).unwrap_or_default().to_owned();
        // The hub rejected the contents of the document, and would do so again.
        if let Some((_, error)) = tried.take_if(|(basis, _)| *basis == written_at) {
            return Err(error);
        }
        let document = found.get("orchestration").filter(|document| !document.is_null()).cloned();
        let mut document = document.unwrap_or_else(|| json!({}));
        if !change(&mut document)? {
            return Ok(());
        }
        let mut wanted = found;
        without(&mut wanted, &EXCHANGE_ONLY);
        wanted["orchestration"] = document.clone();
        if !confirm_stops(context, exchange, &[Write::policy(policy, &wanted)], confirmation).await? {
            return Ok(());
        }
        let change = json!({ "orchestration": document, "lastUpdated": written_at });
        POLICIES.check(exchange, policy, &change)?;
        match POLICIES.change_member(exchange, policy, "orchestration", &change).await {
            Ok(()) => return Ok(()),
            Err(error) => tried = Some((written_at, error)),
        }
    }
}

/// Applies changes and reports those without an effect; returns whether the document is to be written.
///
/// # Errors
/// With status 1 for a change that cannot be read.
pub fn apply_all(document: &mut Value, changes: &[String]) -> Outcome<bool> {
    let mut is_written = false;
    for change in changes {
        match apply(document, change)? {
            Effect::Written => is_written = true,
            Effect::Nothing(why) => print_note(format!("{change} changes nothing: {why}")),
        }
    }
    Ok(is_written)
}

/// Applies one change: `KEY=VALUE`, `KEY=null`, `KEY+=ITEM` or `KEY-=ITEM`. The order of a list is kept: a new item is
/// appended, and an item that the list already contains is not moved.
fn apply(document: &mut Value, change: &str) -> Outcome<Effect> {
    let refuse = |why: &str| {
        CliError::input(
            format!("the change {change} cannot be applied"),
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
    let item = Value::from(text);
    if let Some(is_added) = sign
        && is_held(document, &path, &item) == Some(is_added)
    {
        let why = if is_added { "already holds" } else { "does not hold" };
        return Ok(Effect::Nothing(format!("{key} {why} {text}")));
    }
    if sign.is_none() && text == "null" {
        let is_removed = remove(document, &path);
        let nothing = || Effect::Nothing(format!("{key} is not set"));
        return Ok(if is_removed { Effect::Written } else { nothing() });
    }
    let member = member_of(document, &path).ok_or_else(|| refuse("a part of the name is not an object"))?;
    match sign {
        None => *member = value_of(text),
        Some(is_added) => {
            if member.is_null() {
                *member = json!([]);
            }
            let items = member.as_array_mut().ok_or_else(|| refuse("the member is not a list"))?;
            if is_added {
                items.push(item);
            } else {
                items.retain(|one| *one != item);
            }
        }
    }
    Ok(Effect::Written)
}

/// Returns whether a list contains an item; false for an absent or null member, none for a member that is not a list.
fn is_held(document: &Value, path: &[&str], item: &Value) -> Option<bool> {
    let mut value = document;
    for name in path {
        match value {
            Value::Object(members) => value = members.get(*name).unwrap_or(&Value::Null),
            Value::Null => return Some(false),
            _ => return None,
        }
    }
    if value.is_null() {
        return Some(false);
    }
    value.as_array().map(|items| items.contains(item))
}

/// Removes a member; false when it is not there.
fn remove(document: &mut Value, path: &[&str]) -> bool {
    let Some((name, around)) = path.split_last() else { return false };
    let around = around.iter().try_fold(document, |value, name| value.get_mut(*name));
    around.and_then(Value::as_object_mut).is_some_and(|members| members.shift_remove(*name).is_some())
}

/// Returns a member, creating the objects around it; a new member is null.
fn member_of<'a>(document: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(document, |value, name| {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        Some(value.as_object_mut()?.entry(*name).or_insert(Value::Null))
    })
}

/// Parses a number, a Boolean or a list; anything else is a string.
fn value_of(text: &str) -> Value {
    let is_json = |value: &Value| !value.is_string();
    serde_json::from_str(text).ok().filter(is_json).unwrap_or_else(|| Value::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(mut document: Value, changes: &[&str]) -> Value {
        changes.iter().for_each(|change| drop(apply(&mut document, change).unwrap()));
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
        let removed = changed(json!({"loads": {"x": 1, "y": 2}}), &["loads.x=null"]);
        assert_eq!(removed, json!({"loads": {"y": 2}}));
        let unset = apply(&mut json!({"loads": {}}), "loads.x=null");
        assert_eq!(unset, Ok(Effect::Nothing("loads.x is not set".to_owned())));
        let quoted = changed(json!({}), &["constraints=\"{node.tier}\" == LAB"]);
        assert_eq!(quoted, json!({"placement": {"expression": "\"{node.tier}\" == LAB"}}));
    }

    #[test]
    fn item_that_is_there_keeps_its_position_and_one_that_is_not_is_not_removed() {
        let order = json!({"scope": {"type": "nodes", "nodes": ["n1", "n2", "n3"]}});
        let mut document = order.clone();
        for (change, why) in [
            ("nodes+=n1", "scope.nodes already holds n1"),
            ("scope.nodes-=n4", "scope.nodes does not hold n4"),
            ("placement.affinity.hard-=o/p", "placement.affinity.hard does not hold o/p"),
        ] {
            assert_eq!(apply(&mut document, change), Ok(Effect::Nothing(why.to_owned())));
            assert_eq!(document, order, "{change}");
        }
        let changes = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
        assert_eq!(apply_all(&mut document, &changes(&["nodes+=n1", "nodes-=n4"])), Ok(false));
        assert_eq!(apply_all(&mut document, &changes(&["nodes+=n1", "nodes+=n4"])), Ok(true));
        assert_eq!(document["scope"]["nodes"], json!(["n1", "n2", "n3", "n4"]));
    }

    #[test]
    fn change_that_cannot_be_read_is_refused() {
        for change in ["replicas", "=3", "a..b=1", "mode.x=1", "mode+=x", "mode-=x"] {
            assert!(apply(&mut json!({"mode": "flex"}), change).is_err(), "{change}");
        }
    }
}
