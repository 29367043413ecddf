use serde_json::json;

use super::*;
use crate::policy::{PropertyList, PropertyType};

fn properties() -> PropertyList {
    serde_json::from_value(json!([
        {"name": "s", "value": "abc"},
        {"name": "sp", "value": "two words"},
        {"name": "n", "value": 5},
        {"name": "b", "value": true},
        {"name": "v", "value": "1.2.3", "type": "version"},
        {"name": "vs", "value": "1.2.3"},
        {"name": "l", "value": "red,green", "type": "list of strings"},
        {"name": "cs", "value": "red,green"},
        {"name": "nstr", "value": "5"},
        {"name": "f", "value": 1.5},
    ]))
    .unwrap()
}

fn one(text: &str) -> ConstraintList {
    ConstraintList::from_iter([text])
}

fn satisfied(text: &str) -> Result<bool, ConstraintError> {
    one(text).is_satisfied_by(&properties())
}

#[test]
fn true_constraints_of_the_protocol_table_are_satisfied() {
    let texts = [
        "s==abc",
        "s=abc",
        "s == \"abc\"",
        "sp == \"two words\"",
        "n=>5",
        "n =< 5",
        "n < 5.5",
        "n == 5.0",
        "n > -1",
        "b = TRUE",
        "b == 1",
        "b != false",
        "v in [1.0.0,2.0.0)",
        "v in 1.0.0",
        "v == 1.2.3",
        "vs in [1.0.0,2.0.0)",
        "l in \"red\"",
        "l in \"blue,red\"",
        "l == red",
        "l != blue",
        "cs == red",
        "s in \"abc , def\"",
        "nstr == 5",
        "s == abc && n == 6 || b == true",
        "s == xyz OR n == 5 AND b == true",
        "((s == abc))",
        "",
        "   ",
    ];
    for text in texts {
        assert_eq!(satisfied(text), Ok(true), "{text}");
    }
}

#[test]
fn false_constraints_of_the_protocol_table_are_not_satisfied() {
    let texts = [
        "s == ABC",
        "s != abc",
        "n == \"5\"",
        "nstr > 4",
        "b == yes",
        "missing != x",
        "v in 1.2.4",
        "v in (1.0.0,1.2.3)",
        "v == 1.2",
        "l != red",
        "cs in \"red,blue\"",
        "(s == xyz OR n == 5) AND b == false",
    ];
    for text in texts {
        assert_eq!(satisfied(text), Ok(false), "{text}");
    }
}

#[test]
fn wrong_constraints_of_the_protocol_table_are_refused() {
    let texts = [
        "sp == two words",
        "n > abc",
        "s<abc",
        "v > 1.0.0",
        "l in red",
        "s in abc",
        "l == \"red,green\"",
        "v in [1,2)",
        "v in [1.0.0, 2.0.0)",
        "v in 1.0",
        "v in \"[1.0.0,2.0.0)\"",
        "NOT s == abc",
        "!(s == abc)",
        "s == abc and n == 5",
        "s==abc||n==6",
        "s==abc&&n==5",
        "s == abc AND",
        "(s == abc",
        "s == abc)",
        "s ==",
        "e == \"\"",
        "s == a@b",
        "s == a:b",
        "s == *",
        "in == 5",
    ];
    for text in texts {
        assert!(matches!(satisfied(text), Err(ConstraintError::Syntax { .. })), "{text}");
        assert!(one(text).validate().is_err(), "{text}");
    }
}

#[test]
fn accidents_of_the_reference_are_part_of_the_language() {
    // Whitespace after a connective replaces a missing predicate, which is always satisfied.
    assert_eq!(satisfied("s == xyz OR "), Ok(true));
    assert_eq!(satisfied("s == abc AND "), Ok(true));
    // The text after an unmatched closing parenthesis is ignored.
    assert_eq!(satisfied("s == abc) OR (n == 6"), Ok(true));
    assert_eq!(satisfied("s == xyz) OR (n == 5"), Ok(false));
    // A name may contain the operator and then accepts any value.
    assert_eq!(satisfied("nstrin 5"), Ok(true));
    // Whitespace before the first name belongs to the name.
    assert_eq!(satisfied(" s == abc"), Ok(false));
    // Some names cannot be written, because the tokenizer loses a character.
    assert!(satisfied("initial == 5").is_err());
    // Valid, but without a tree.
    assert_eq!(one("()s == abc").validate(), Ok(()));
    assert!(satisfied("()s == abc").is_err());
}

#[test]
fn numbers_are_read_as_the_reference_reads_them() {
    for text in ["n == +5", "n == +5e0", "n == +0x5p0", "n < inf", "n > -inf"] {
        assert_eq!(satisfied(text), Ok(true), "{text}");
    }
    assert_eq!(satisfied("n in \"5\""), Ok(false));
    assert!(satisfied("n < +1e400").is_err());
}

#[test]
fn first_comparable_property_of_a_name_decides() {
    let properties: PropertyList = serde_json::from_value(json!([
        {"name": "p", "value": null},
        {"name": "p", "value": "x"},
        {"name": "p", "value": "y"},
    ]))
    .unwrap();
    assert_eq!(one("p == x").is_satisfied_by(&properties), Ok(true));
    assert_eq!(one("p == y").is_satisfied_by(&properties), Ok(false));
}

#[test]
fn lone_quotation_mark_satisfies_nothing() {
    let properties: PropertyList =
        serde_json::from_value(json!([{"name": "p", "value": "\""}, {"name": "q", "value": 1}])).unwrap();
    for text in ["p == x", "p != x", "p in \"x,y\"", "p < 5", "p == x OR q == 1"] {
        assert_eq!(one(text).is_satisfied_by(&properties), Ok(false), "{text}");
    }
    assert_eq!(one("q == 1 OR p == x").is_satisfied_by(&properties), Ok(true));
}

#[test]
fn group_can_be_required() {
    let group = |name: Option<&str>| {
        let mut properties = PropertyList::new();
        properties.set_ha_group(name);
        properties
    };
    let in_line_3 = one("openhorizon.hagroup == line-3");
    let in_any = one("openhorizon.hagroup != none");
    assert_eq!(in_line_3.is_satisfied_by(&group(Some("line-3"))), Ok(true));
    assert_eq!(in_line_3.is_satisfied_by(&group(Some("line-4"))), Ok(false));
    assert_eq!(in_any.is_satisfied_by(&group(Some("line-4"))), Ok(true));
    assert_eq!(in_any.is_satisfied_by(&group(None)), Ok(false));
}

#[test]
fn constraints_beyond_the_limits_are_refused_at_once() {
    let long = one(&"x".repeat(1_000_000));
    assert!(matches!(long.validate(), Err(ConstraintError::TooLong { position: 0, length: 1_000_000, .. })));
    assert!(matches!(long.parse(), Err(ConstraintError::TooLong { .. })));
    let many = ConstraintList::from_iter(vec!["a == b"; 10_000]);
    assert_eq!(many.validate(), Err(ConstraintError::TooMany { count: 10_000, limit: limits::MAX_COUNT }));
    assert!(matches!(many.parse(), Err(ConstraintError::TooMany { .. })));
    let large = ConstraintList::from_iter(vec!["y".repeat(60_000); 20]);
    assert!(matches!(large.validate(), Err(ConstraintError::ListTooLong { length: 1_200_000, .. })));
}

#[test]
fn comparisons_of_all_constraints_together_are_limited() {
    let limit = limits::MAX_PREDICATES;
    let of = |count: usize| vec!["s == abc"; count].join(" || ");
    let two = |first: usize, second: usize| ConstraintList::from_iter([of(first), of(second)]);
    let refused = ConstraintError::TooManyPredicates { position: 1, limit };
    assert_eq!(two(limit - 1, 1).validate(), Ok(()));
    assert_eq!(two(limit - 1, 1).check_limits(), Ok(()));
    let large = two(limit - 1, 2);
    assert_eq!(large.validate(), Err(refused.clone()));
    assert_eq!(large.check_limits(), Err(refused.clone()));
    assert_eq!(large.errors(), std::slice::from_ref(&refused));
    assert_eq!(large.parse_own(), Err(refused));
    // The constraints of several policies, each within its limit.
    assert_eq!(large.is_satisfied_by(&properties()), Ok(true));
    let merged = ConstraintList::from_iter(vec![of(limit); 5]);
    let limit = limits::MAX_MERGED_PREDICATES;
    assert_eq!(merged.parse(), Err(ConstraintError::TooManyPredicates { position: 4, limit }));
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| one(&format!("{}s == abc{}", "(".repeat(depth), ")".repeat(depth)));
    assert_eq!(nested(limits::MAX_NESTING).is_satisfied_by(&properties()), Ok(true));
    let too_deep = Err(ConstraintError::TooDeep { position: 0, limit: limits::MAX_NESTING });
    assert_eq!(nested(limits::MAX_NESTING + 1).is_satisfied_by(&properties()), too_deep);
    assert_eq!(nested(limits::MAX_NESTING + 1).check_limits(), too_deep.clone().map(drop));
    assert_eq!(nested(limits::MAX_NESTING).check_limits(), Ok(()));
    assert_eq!(nested(30_000).is_satisfied_by(&properties()), too_deep);
}

#[test]
fn longest_constraint_allowed_is_read_quickly() {
    let clause = format!("nstr == {}5 AND ", " ".repeat(60));
    let mut text = clause.repeat(limits::MAX_LENGTH / clause.len() - 1);
    text.push_str("s == abc");
    let blank = format!("s == abc{}", " ".repeat(limits::MAX_LENGTH - 20));
    let repeated = format!("{} == abc", "in".repeat(limits::MAX_LENGTH / 2 - 10));
    let (done, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        done.send((satisfied(&text), satisfied(&blank), satisfied(&repeated).is_err()))
    });
    let results =
        waiting.recv_timeout(std::time::Duration::from_secs(10)).expect("reading takes linear time");
    assert_eq!(results, (Ok(true), Ok(true), true));
}

#[test]
fn tree_groups_as_the_language_binds() {
    let tree = one("a == 1 OR b == 2 AND (c == 3 OR d == 4)").parse().unwrap();
    let Expression::Any(alternatives) = &tree else { panic!("{tree:?}") };
    assert!(matches!(&alternatives[0], Expression::Predicate(predicate) if predicate.property() == "a"));
    let Expression::All(conjunction) = &alternatives[1] else { panic!("{tree:?}") };
    assert!(matches!(&conjunction[1], Expression::Any(inner) if inner.len() == 2));
    let names: Vec<_> = tree.predicates().iter().map(|predicate| predicate.property()).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    assert_eq!(tree.to_string(), "a == 1 OR b == 2 AND (c == 3 OR d == 4)");
}

#[test]
fn predicate_offers_its_value_in_every_reading() {
    let tree = one("p in \"1.2.3, 5\"").parse().unwrap();
    let operand = tree.predicates()[0].operand().clone();
    assert_eq!((operand.written(), operand.text()), ("\"1.2.3, 5\"", "1.2.3, 5"));
    assert_eq!(operand.elements(), ["1.2.3", "5"]);
    assert!(operand.number().is_none() && operand.range().is_none() && operand.boolean().is_none());
    let range = one("p in [1.0.0,2.0.0)").parse().unwrap();
    assert!(range.predicates()[0].operand().is_range_expression());
}

#[test]
fn failing_predicates_explain_a_refusal() {
    let tree = one("s == abc AND (n > 7 OR missing == x) AND b == true").parse().unwrap();
    let failing: Vec<_> = tree.failing_predicates(&properties()).iter().map(ToString::to_string).collect();
    assert_eq!(failing, ["n > 7", "missing == x"]);
    assert!(one("s == abc OR n == 9").parse().unwrap().failing_predicates(&properties()).is_empty());
}

#[test]
fn trivial_expressions_are_recognized() {
    for text in ["", " ", "()", "s == x OR ", "() AND ()"] {
        assert!(one(text).parse().unwrap().is_trivial(), "{text:?}");
    }
    assert!(!one("s == x AND ").parse().unwrap().is_trivial());
    assert!(ConstraintList::new().parse().unwrap().is_trivial());
}

#[test]
fn syntax_error_names_position_and_reason() {
    let list = ConstraintList::from_iter(["a == b", "n == 5 AND sp == two words"]);
    let error = list.validate().unwrap_err();
    assert_eq!(
        error,
        ConstraintError::Syntax {
            position: 1,
            column: 22,
            reason: SyntaxProblem::ConnectiveExpected,
            near: " words".into()
        }
    );
    let list = ConstraintList::from_iter([
        "camera = = true",
        "a == b",
        "x == 1 AND (a == 1",
        "camera ==",
        "a == b) OR c == d)",
    ]);
    let positions: Vec<_> = list
        .errors()
        .into_iter()
        .map(|error| match error {
            ConstraintError::Syntax { position, column, .. } => (position, column),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(positions, [(0, 10), (2, 12), (3, 10), (4, 7)]);
    let text = "constraint 3 is wrong at character 10, its end: a value was expected after the operator";
    assert_eq!(list.errors()[2].to_string(), text);
}

#[test]
fn lists_merge_by_text_and_compare_in_any_order() {
    let mut list = ConstraintList::from_iter(["a == b", "c == d"]);
    list.merge(&ConstraintList::from_iter(["c == d", "c==d"]));
    assert_eq!(*list, ["a == b", "c == d", "c==d"]);
    assert!(list.is_same(&ConstraintList::from_iter(["c==d", "c == d", "a == b"])));
    assert!(!list.is_same(&ConstraintList::from_iter(["a == b", "c == d"])));
}

#[test]
fn version_declared_values_always_compare_as_versions() {
    let mut properties = PropertyList::new();
    properties.add(crate::policy::Property::typed("v", "1.2.3", PropertyType::Version)).unwrap();
    assert_eq!(one("v in \"1.2.3,1.2.4\"").is_satisfied_by(&properties), Ok(false));
    assert_eq!(one("v in \"1.0.0\"").is_satisfied_by(&properties), Ok(true));
}
