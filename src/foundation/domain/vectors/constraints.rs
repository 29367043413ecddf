//! Vectors of the constraint language.

use serde_json::{Value, json};

use crate::policy::{ConstraintList, PropertyList};
use crate::vectors_reader::{expect_same, for_each_line};

#[test]
fn constraints() {
    for_each_line("constraints", check);
}

fn check(vector: &Value) -> Result<(), String> {
    let read_error = |error: serde_json::Error| error.to_string();
    let constraints: ConstraintList = serde_json::from_value::<Option<_>>(vector["constraints"].clone())
        .map_err(read_error)?
        .unwrap_or_default();
    let properties: PropertyList =
        serde_json::from_value(vector["properties"].clone()).map_err(read_error)?;
    let satisfied = constraints.is_satisfied_by(&properties);
    if vector.get("fault").is_some() {
        let is_refused = !matches!(satisfied, Ok(true));
        return if is_refused { Ok(()) } else { Err("what crashed the reference is not refused".to_owned()) };
    }
    let got = json!({
        "parses": constraints.validate().is_ok(),
        "error": satisfied.is_err(),
        "satisfied": satisfied.ok(),
        "properties_valid": properties.validate().is_ok(),
    });
    ["parses", "error", "satisfied", "properties_valid"].iter().try_for_each(|member| {
        expect_same(
            &format!("{member} of {constraints:?} with {properties:?}"),
            &vector[member],
            &got[member],
        )
    })
}
