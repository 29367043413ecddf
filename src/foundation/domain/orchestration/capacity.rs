//! Amounts of resources: `capacities` of a node, `loads` of a workload.
//!
//! Source: orchestration 1.2, 1.7, D7.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::object::{MembersError, Object};

/// Most entries of a map.
const MAX_ENTRIES: usize = 100;
/// Largest amount; sums of amounts up to it are exact.
const MAX_AMOUNT: f64 = 1e12;

/// Amounts by the name of the resource, such as `memoryMb`.
pub type Amounts = BTreeMap<String, f64>;

/// Takes a map of amounts out of an object; none when the member is not given.
///
/// # Errors
/// The first name or amount that breaks a rule, with its path.
pub fn take_amounts(object: &mut Object, member: &str) -> Result<Option<Amounts>, MembersError> {
    let Some(entries) = take_entries(object, member)? else { return Ok(None) };
    let mut amounts = BTreeMap::new();
    for (name, value) in entries {
        let path = format!("{member}.{name}");
        let amount = value.as_f64().filter(|amount| (0.0..=MAX_AMOUNT).contains(amount));
        let amount = amount
            .ok_or_else(|| object.broken_at(&path, &format!("must be a number from 0 to {MAX_AMOUNT}")))?;
        amounts.insert(name, amount);
    }
    Ok(Some(amounts))
}

fn take_entries(object: &mut Object, member: &str) -> Result<Option<Map<String, Value>>, MembersError> {
    let entries = object.take(member).map(entries).transpose().map_err(|error| error.under(member));
    entries.map_err(|error| object.broken_at(&error.path, &error.rule))
}

/// Returns the entries of a map by the names of capacities.
///
/// # Errors
/// The first name that breaks a rule, with its path in the map.
pub(super) fn entries(map: Value) -> Result<Map<String, Value>, MembersError> {
    let broken = |path: String, rule: String| Err(MembersError { path, rule });
    let entries = match map {
        Value::Object(entries) if entries.len() <= MAX_ENTRIES => entries,
        Value::Object(_) => return broken(String::new(), format!("must hold at most {MAX_ENTRIES} names")),
        _ => return broken(String::new(), "must be an object".to_owned()),
    };
    match entries.keys().find(|name| !is_metric(name)) {
        None => Ok(entries),
        Some(name) => {
            let rule = "must be a name of 1 to 64 letters, digits and _";
            broken(name.chars().take(64).collect(), rule.to_owned())
        }
    }
}

/// Returns the valid amounts of a document; those of another version are left out.
pub fn readable_amounts(document: &Value) -> Amounts {
    let entries = document.as_object().into_iter().flatten().take(MAX_ENTRIES);
    let readable = entries.filter(|(name, _)| is_metric(name)).filter_map(|(name, value)| {
        let amount = value.as_f64().filter(|amount| (0.0..=MAX_AMOUNT).contains(amount))?;
        Some((name.clone(), amount))
    });
    readable.collect()
}

/// Returns whether a text is the name of a capacity: `[A-Za-z][A-Za-z0-9_]{0,63}`.
fn is_metric(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
