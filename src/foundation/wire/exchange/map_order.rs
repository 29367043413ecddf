//! Order of the members of free-form JSON objects.
//!
//! Responses that carry JSON as text are compared as text, so the order in which the reference writes a map is part of the contract:
//! up to four members as given, more than four in the order of a hash trie over the names. Source: exchange-api 4.0, 9.

use serde_json::{Map, Value};

/// Objects up to this size keep the order given.
const ORDERED_SIZE: usize = 4;
/// Bits of the hash that each level of the trie uses.
const LEVEL_BITS: u32 = 5;

/// Orders the members of every object inside a free-form value as the reference would write them.
#[must_use]
pub fn reorder(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(reorder).collect()),
        Value::Object(members) => Value::Object(reorder_members(
            members.into_iter().map(|(name, value)| (name, reorder(value))).collect(),
        )),
        scalar => scalar,
    }
}

/// Orders the members of one object; their values stay as they are.
#[must_use]
pub fn reorder_members(members: Map<String, Value>) -> Map<String, Value> {
    if members.len() <= ORDERED_SIZE {
        return members;
    }
    let mut ordered = Map::new();
    place(
        members.into_iter().map(|member| (spread(text_hash(&member.0)), member)).collect(),
        0,
        &mut ordered,
    );
    ordered
}

/// Members that are alone in their slot come first, by slot; then the slots with collisions, each one level deeper.
fn place(members: Vec<(u32, (String, Value))>, shift: u32, ordered: &mut Map<String, Value>) {
    if shift >= u32::BITS {
        ordered.extend(members.into_iter().map(|(_, member)| member));
        return;
    }
    let mut slots: Vec<Vec<(u32, (String, Value))>> = (0..1 << LEVEL_BITS).map(|_| Vec::new()).collect();
    for member in members {
        let slot = (member.0 >> shift) & ((1 << LEVEL_BITS) - 1);
        slots[slot as usize].push(member);
    }
    let (alone, crowded): (Vec<_>, Vec<_>) =
        slots.into_iter().filter(|slot| !slot.is_empty()).partition(|slot| slot.len() == 1);
    ordered.extend(alone.into_iter().flatten().map(|(_, member)| member));
    for slot in crowded {
        place(slot, shift + LEVEL_BITS, ordered);
    }
}

/// The polynomial hash over UTF-16 units that the reference's runtime defines for texts.
fn text_hash(text: &str) -> u32 {
    text.encode_utf16()
        .fold(0, |hash: u32, code_unit| hash.wrapping_mul(31).wrapping_add(u32::from(code_unit)))
}

fn spread(hash: u32) -> u32 {
    let mut hash = hash.wrapping_add(!(hash << 9));
    hash ^= hash >> 14;
    hash = hash.wrapping_add(hash << 4);
    hash ^ (hash >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_objects_keep_the_order_given() {
        let text = r#"{"d":1,"c":{"z":1,"a":2},"b":3,"a":4}"#;
        let value: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(reorder(value).to_string(), text);
    }

    #[test]
    fn large_objects_come_in_the_recorded_order() {
        let text =
            r#"[{"record_id":"1","message":"m","event_code":"c","hidden":false,"workload":{"url":"w"}}]"#;
        let value: Value = serde_json::from_str(text).expect("JSON");
        let recorded =
            r#"[{"record_id":"1","workload":{"url":"w"},"hidden":false,"message":"m","event_code":"c"}]"#;
        assert_eq!(reorder(value).to_string(), recorded);
    }

    #[test]
    fn nothing_is_lost_among_many_members() {
        let members: Map<String, Value> = (0..5_000).map(|n| (format!("name-{n}"), Value::from(n))).collect();
        let ordered = reorder_members(members.clone());
        assert_eq!(ordered.len(), members.len());
        assert!(members.iter().all(|(name, value)| ordered.get(name) == Some(value)));
    }
}
