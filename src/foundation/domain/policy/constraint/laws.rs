//! Laws that hold for every input.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::policy::{Property, PropertyList, PropertyType};

/// Generates texts from fragments of the language, including valid ones.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => "(a|n|s|in|inside|xin|initial|größe|場所)",
        8 => "( == |=|!=| in |<| >= |=>| in)",
        8 => "(5|-5\\.5|abc|\"a b\"|\"a,b\"|\\[1\\.0\\.0,2\\.0\\.0\\)|1\\.2\\.3|true)",
        6 => "( AND | OR | && | \\|\\| )",
        4 => "[() ]",
        1 => "\\PC",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Generates valid texts: predicates joined and nested by the grammar.
fn valid_text() -> impl Strategy<Value = String> {
    let predicate = ("(a|n|s|xs)", "( == |=| != )", "(5|abc|\"a b\"|1\\.2\\.3|true|-1)")
        .prop_map(|(name, operator, value)| format!("{name}{operator}{value}"));
    let leaf = prop_oneof![
        4 => predicate,
        1 => Just("n >= 5".to_owned()),
        1 => Just("s in \"abc, 5\"".to_owned()),
        1 => Just("a in [1.0.0,2.0.0)".to_owned()),
        1 => Just("xsin 5".to_owned()),
    ];
    leaf.prop_recursive(5, 32, 4, |inner| {
        (prop::collection::vec(inner, 1..4), "( AND | OR | && | \\|\\| )", any::<bool>()).prop_map(
            |(parts, connective, is_nested)| {
                let joined = parts.join(&connective);
                if is_nested { format!("({joined})") } else { joined }
            },
        )
    })
}

fn any_properties() -> impl Strategy<Value = PropertyList> {
    let value = prop_oneof![
        Just(json!(5)),
        Just(json!(-1.5)),
        Just(json!(true)),
        Just(json!("abc")),
        Just(json!("a b")),
        Just(json!("1.2.3")),
        Just(json!("abc,5")),
        Just(json!("\"")),
        Just(json!(null)),
        Just(json!([1])),
    ];
    let declared = prop_oneof![
        Just(PropertyType::Undeclared),
        Just(PropertyType::Version),
        Just(PropertyType::ListOfStrings)
    ];
    let property = ("(a|n|s|xs)", value, declared)
        .prop_map(|(name, value, declared)| Property::typed(name, value, declared));
    prop::collection::vec(property, 0..6).prop_map(PropertyList::from)
}

proptest! {
    #[test]
    fn no_text_makes_parsing_or_evaluating_panic(
        text in prop_oneof![any_text(), "\\PC*"], properties in any_properties(),
    ) {
        let list = ConstraintList::from_iter([text]);
        let is_valid = list.validate().is_ok();
        let satisfied = list.is_satisfied_by(&properties);
        prop_assert!(is_valid || satisfied.is_err(), "what is evaluated is valid");
    }

    #[test]
    fn a_printed_tree_reads_as_itself(text in prop_oneof![valid_text(), any_text()], properties in any_properties()) {
        let Ok(tree) = ConstraintList::from_iter([text]).parse() else { return Ok(()) };
        let printed = tree.to_string();
        let again = ConstraintList::from_iter([printed.clone()]).parse();
        prop_assert_eq!(again.as_ref(), Ok(&tree), "printed as {}", printed);
        prop_assert_eq!(again.unwrap().is_satisfied_by(&properties), tree.is_satisfied_by(&properties));
    }

    #[test]
    fn generated_valid_texts_are_accepted(text in valid_text()) {
        let list = ConstraintList::from_iter([text]);
        prop_assert_eq!(list.validate(), Ok(()));
        prop_assert!(list.parse().is_ok());
    }

    #[test]
    fn a_refusal_is_explained_exactly_when_there_is_one(text in valid_text(), properties in any_properties()) {
        let tree = ConstraintList::from_iter([text]).parse().unwrap();
        prop_assert_eq!(tree.failing_predicates(&properties).is_empty(), tree.is_satisfied_by(&properties));
    }

    #[test]
    fn a_list_means_the_conjunction_of_its_constraints(
        left in valid_text(), right in valid_text(), properties in any_properties(),
    ) {
        let satisfied = |texts: &[&String]| {
            texts.iter().copied().collect::<ConstraintList>().is_satisfied_by(&properties).unwrap()
        };
        prop_assert_eq!(satisfied(&[&left, &right]), satisfied(&[&left]) && satisfied(&[&right]));
    }
}
