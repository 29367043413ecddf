//! The index against the domain's evaluator, on generated nodes and constraints.

use evenkeel_domain::policy::{ConstraintList, PropertyType};
use proptest::prelude::*;

use super::*;

pub(crate) fn value() -> impl Strategy<Value = Property> {
    let text = prop_oneof![
        Just("abc"),
        Just("red"),
        Just("red,green"),
        Just(" red , blue"),
        Just("1.2.3"),
        Just("2.0.0"),
        Just("5"),
        Just("true"),
        Just(""),
        Just("\"red\""),
        Just("\""),
        Just("two words"),
    ];
    let declared = prop_oneof![
        5 => Just(PropertyType::Undeclared),
        2 => Just(PropertyType::ListOfStrings),
        2 => Just(PropertyType::Version),
        1 => Just(PropertyType::String),
    ];
    let number = prop_oneof![Just(0.0), Just(-0.0), Just(5.0), Just(-1.5), 0.0..100.0_f64];
    let name = prop_oneof![Just("a"), Just("b"), Just("c")];
    let value = prop_oneof![
        4 => text.prop_map(Value::from),
        3 => number.prop_map(Value::from),
        2 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    (name, value, declared).prop_map(|(name, value, declared)| Property::typed(name, value, declared))
}

pub(crate) fn constraint() -> impl Strategy<Value = String> {
    let name = prop_oneof![Just("a"), Just("b"), Just("c"), Just("d")];
    let term = prop_oneof![
        Just("== abc"),
        Just("== red"),
        Just("!= red"),
        Just("!= abc"),
        Just("== 5"),
        Just("!= 5"),
        Just("< 50"),
        Just("<= 5"),
        Just("> -1"),
        Just(">= 0"),
        Just("=> 5"),
        Just("== true"),
        Just("!= false"),
        Just("== 1"),
        Just("in \"red,blue\""),
        Just("in [1.0.0,2.0.0)"),
        Just("in 1.2.3"),
        Just("in \"abc\""),
        Just("in \"1.2.3,red\""),
        Just("== \"two words\""),
        Just("== 1.2.3"),
        Just("== NaN"),
        Just("!= NaN"),
        Just("== 0"),
        Just("== red-green"),
    ];
    let predicate = (name, term).prop_map(|(name, term)| format!("{name} {term}"));
    predicate.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" AND "))),
            prop::collection::vec(inner, 2..4).prop_map(|parts| format!("({})", parts.join(" OR "))),
        ]
    })
}

pub(crate) fn properties() -> impl Strategy<Value = PropertyList> {
    prop::collection::vec(value(), 0..4).prop_map(|list| list.into_iter().collect())
}

proptest! {
    #[test]
    fn index_matches_the_evaluator_for_every_node(
        nodes in prop::collection::vec(properties(), 1..30),
        texts in prop::collection::vec(constraint(), 0..3),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let constraints: ConstraintList = texts.into_iter().collect();
        // Some generated texts are not valid constraints; they are skipped.
        let Ok(tree) = constraints.parse() else { return Ok(()) };
        let mut index = NodeIndex::new();
        let mut present: Vec<bool> = vec![true; nodes.len()];
        for (number, properties) in (0_u32..).zip(&nodes) {
            index.insert(number, properties);
        }
        for which in removed {
            let place = which.index(nodes.len());
            if std::mem::take(&mut present[place]) {
                index.remove(u32::try_from(place).unwrap(), &nodes[place]);
            }
        }
        let found = index.evaluate(&tree);
        for (number, properties) in (0_u32..).zip(&nodes) {
            let expected = present[number as usize] && tree.is_satisfied_by(properties);
            prop_assert_eq!(found.contains(number), expected, "node {:?}, constraint {}", properties, tree);
        }
    }
}

#[test]
fn emptied_index_holds_nothing() {
    let properties: PropertyList = [Property::new("a", "x,y"), Property::new("b", 3)].into_iter().collect();
    let mut index = NodeIndex::new();
    index.insert(7, &properties);
    assert_eq!(index.len(), 1);
    index.remove(7, &properties);
    assert!(index.is_empty() && index.names.is_empty());
}
