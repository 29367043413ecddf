//! Scenarios of A5, the grammar line by line, and the refusals with their columns.

use std::collections::BTreeMap;

use serde_json::json;

use super::limits::{MAX_LENGTH, MAX_NESTING, MAX_TEXT};
use super::*;
use crate::policy::{Property, PropertyType};

/// A node: the values of its references by their names without braces.
struct Node(BTreeMap<String, Value<'static>>);

impl References for Node {
    fn resolve(&self, reference: &Reference) -> Option<Value<'_>> {
        let name = reference.to_string();
        self.0.get(name.trim_matches(['{', '}'])).map(Value::borrowed)
    }
}

fn node(values: &[(&str, Value<'static>)]) -> Node {
    Node(values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn evaluate(text: &str, node: &Node) -> Result<bool, String> {
    let expression = Expression::parse(text).map_err(|error| format!("{text}: {error}"))?;
    expression.evaluate(node).map_err(|error| error.to_string())
}

/// Evaluates an expression without references.
fn constant(text: &str) -> Result<bool, String> {
    evaluate(text, &node(&[]))
}

fn refusal(text: &str) -> String {
    Expression::parse(text).expect_err(text).to_string()
}

/// A5-S1.
#[test]
fn node_is_chosen_by_its_quoted_name() {
    let text = r#""{nodename}" == "edge-2.plant7.example""#;
    let of = |name: &'static str| evaluate(text, &node(&[("nodename", Value::text(name))]));
    assert_eq!(of("edge-1.plant7.example"), Ok(false));
    assert_eq!(of("edge-2.plant7.example"), Ok(true));
}

/// A5-S2.
#[test]
fn wrapper_is_stripped_and_alternatives_are_listed() {
    let text = r#"$("{nodename}" == "e1" or "{node.tier}" in (LAB, QA))"#;
    let of = |name: &'static str, tier: &'static str| {
        evaluate(text, &node(&[("nodename", Value::text(name)), ("node.tier", Value::text(tier))]))
    };
    assert_eq!([of("e1", "LIVE"), of("e2", "QA"), of("e3", "LIVE")], [Ok(true), Ok(true), Ok(false)]);
}

/// A5-S3.
#[test]
fn numbers_and_booleans_of_properties_keep_their_type() {
    let text = "{node.openhorizon.memory} // 1024 >= 2 and not {node.openhorizon.containerized}";
    let of = |memory: f64| {
        let containerized = ("node.openhorizon.containerized", Value::Boolean(false));
        evaluate(text, &node(&[("node.openhorizon.memory", Value::Number(memory)), containerized]))
    };
    assert_eq!([of(2047.0), of(2048.0)], [Ok(false), Ok(true)]);
}

/// A5-S4.
#[test]
fn operators_have_their_precedence_and_associativity() {
    let text = "2 ** 3 ** 2 == 512 and 7 % 4 == 3 and (6 & 3) == 2 and (6 ^ 3) == 5 and (6 | 3) == 7";
    assert_eq!(constant(text), Ok(true));
}

/// A5-S5.
#[test]
fn absent_property_makes_the_expression_false_with_its_name() {
    assert_eq!(evaluate("{node.zone} == a", &node(&[])), Err("unresolved {node.zone}".to_owned()));
}

/// A5-S6.
#[test]
fn blanks_and_commas_and_both_brackets_separate_alike() {
    for name in ["n1", "n2", "n3"] {
        let node = node(&[("nodename", Value::text(name))]);
        for list in ["(n1 n2)", "[n1, n2]", "(n1,n2)", "[n1 , n2]", "( n1\tn2 )"] {
            let text = format!("\"{{nodename}}\" in {list}");
            assert_eq!(evaluate(&text, &node), Ok(name != "n3"), "{text}");
        }
    }
}

/// A5-S8.
#[test]
fn syntax_error_names_its_column() {
    assert_eq!(refusal("a <"), "column 4: a value was expected");
}

#[test]
fn every_refusal_has_its_column_and_reason() {
    for (text, expected) in [
        ("a < < b", "column 5: a value was expected"),
        ("a == b == c", "column 8: an operator or the end was expected"),
        ("a b", "column 3: an operator or the end was expected"),
        ("edge.1 == a", "column 5: `.` means nothing here; values with special characters must be quoted"),
        ("ü == a", "column 1: `ü` means nothing here; values with special characters must be quoted"),
        ("'üü' = a", "column 6: `=` means nothing here; values with special characters must be quoted"),
        ("12abc == 1", "column 1: this is not a number; names that begin with a digit must be quoted"),
        ("1.2.3 == 1", "column 1: this is not a number; names that begin with a digit must be quoted"),
        ("1e999 == 1", "column 1: this is not a number; names that begin with a digit must be quoted"),
        ("a == 'b", "column 6: the quoted text has no end"),
        (r#"a == "b\n""#, "column 8: a backslash must be followed by a quote or a backslash"),
        ("{node.a == 1", "column 1: a reference such as {node.name} was expected"),
        ("{} == 1", "column 1: a reference such as {node.name} was expected"),
        ("'a{b' == 1", "column 3: a reference such as {node.name} was expected"),
        ("a in b", "column 6: a list in parentheses or brackets was expected after in"),
        ("a in (b", "column 8: `)` was expected"),
        ("a in (b]", "column 8: `)` was expected"),
        ("a in (b,)", "column 9: a value was expected"),
        ("a in (,b)", "column 7: a value was expected"),
        ("a in ('b''c')", "column 10: a comma or a blank was expected between two values of a list"),
        ("(a == b", "column 8: `)` was expected"),
        ("(a == b]", "column 8: `)` was expected"),
        ("a == b)", "column 7: an operator or the end was expected"),
        ("$(a == b", "column 9: `)` was expected"),
        ("$(a == b) and c", "column 11: an operator or the end was expected"),
        ("a and", "column 6: a value was expected"),
        ("not", "column 4: a value was expected"),
        ("a not b", "column 3: an operator or the end was expected"),
        ("- - 1", "column 3: a value was expected"),
        ("()", "column 2: a value was expected"),
    ] {
        assert_eq!(refusal(text), expected, "{text}");
    }
}

#[test]
fn grammar_is_read_line_by_line() {
    for (text, expected) in [
        // or, and, not
        ("", true),
        ("  ", true),
        ("$()", true),
        ("$( 1 == 1 )", true),
        ("false or true and false", false),
        ("true or true and false", true),
        ("not false and false", false),
        ("not not 1", true),
        ("not 1 == 2", true),
        ("false or false or true", true),
        ("true and true and false", false),
        // comparisons
        ("1 != 2 and 2 >= 2 and 2 <= 2 and 3 > 2 and 2 < 3", true),
        ("3 not in (1 2)", true),
        ("3 in (1 2 3)", true),
        ("-1 in (1 -1)", true),
        ("3 in ()", false),
        ("2 in ((1 + 1) 5)", true),
        ("1 + 1 in [2]", true),
        // bitwise below comparison, above each other as | ^ &
        ("1 | 2 == 3", true),
        ("1 | 6 ^ 3 & 2 == 5", true),
        ("true & false", false),
        ("(true ^ false) == true", true),
        // sums and products
        ("2 + 3 * 4 == 14 and (2 + 3) * 4 == 20", true),
        ("10 - 2 - 3 == 5 and 24 / 4 / 2 == 3", true),
        ("7 // 2 == 3 and -7 // 2 == -4 and -7 % 3 == 2 and 7 % -3 == -2", true),
        ("9007199254740991 // 2 == 4503599627370495", true),
        ("-2 ** 2 == -4 and 2 ** -1 == 0.5 and +3 == 3", true),
        ("1.5e3 == 1500 and 2E-1 == 0.2", true),
        // texts
        (r#"'it\'s' == "it's" and "a\"b\\" == 'a"b\\'"#, true),
        ("'a' + 'b' == ab", true),
        ("edge-2 == 'edge-2'", true),
        ("True == true", false),
    ] {
        assert_eq!(constant(text), Ok(expected), "{text}");
    }
}

#[test]
fn different_types_are_equal_as_numbers_or_as_texts() {
    let node = node(&[
        ("node.list", Value::List(vec![Value::text("a"), Value::Number(2.0)])),
        ("node.text", Value::text("2048")),
        ("node.number", Value::Number(2048.0)),
    ]);
    for (text, expected) in [
        ("'2048.0' == 2048 and {node.text} == {node.number}", true),
        ("'2048.0' == '2048'", false),
        ("'true' == true and true != 1 and 'nan' != 0 and 'inf' != 1", true),
        ("a in ({node.list}) and '2' in ({node.list}) and c not in ({node.list})", true),
        ("{node.list} == 'a,2' and {node.list} == {node.list}", true),
        ("'{node.list} {node.number}' == 'a,2 2048'", true),
        ("'abc' < 'abd' and 'B' < 'a'", true),
    ] {
        assert_eq!(evaluate(text, &node), Ok(expected), "{text}");
    }
}

#[test]
fn truth_of_values_follows_their_type() {
    let empty = node(&[("node.none", Value::List(Vec::new()))]);
    for (text, expected) in [
        ("0", false),
        ("-0.5", true),
        ("''", false),
        ("' '", true),
        ("false", false),
        ("word", true),
        ("{node.none}", false),
    ] {
        assert_eq!(evaluate(text, &empty), Ok(expected), "{text}");
    }
}

#[test]
fn evaluation_errors_say_what_is_wrong() {
    for (text, expected) in [
        ("{env.tier} == a", "unresolved {env.tier}"),
        ("'{labels.a}' == a", "unresolved {labels.a}"),
        ("{anything} == a", "unresolved {anything}"),
        ("1 / 0 == 1", "division by zero"),
        ("1 // 0 == 1", "division by zero"),
        ("1 % 0 == 1", "division by zero"),
        ("0 ** -1 == 1", "division by zero"),
        ("2 ** 1025 == 1", "exponent 1025 is beyond 1024"),
        ("2 ** -1025 == 1", "exponent -1025 is beyond 1024"),
        ("2 ** 1024 == 1", "the result of ** is not a finite number"),
        ("(0 - 8) ** 0.5 == 1", "the result of ** is not a finite number"),
        ("1e308 * 10 == 1", "the result of * is not a finite number"),
        ("1 + a == 1", "+ cannot be applied to a number and a text"),
        ("true + true == 2", "+ cannot be applied to a boolean and a boolean"),
        ("'a' % 'b' == 1", "% cannot be applied to a text and a text"),
        ("'5' > 4", "> cannot be applied to a text and a number"),
        ("true < false", "< cannot be applied to a boolean and a boolean"),
        ("1.5 & 1 == 1", "& cannot be applied to a number and a number"),
        ("1 | true", "| cannot be applied to a number and a boolean"),
        ("-a == 1", "- cannot be applied to a text"),
    ] {
        assert_eq!(constant(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn operand_that_cannot_change_the_result_is_not_evaluated() {
    assert_eq!(constant("1 == 1 or {node.absent} == 1 or 1 / 0"), Ok(true));
    assert_eq!(constant("1 == 2 and {node.absent} == 1 and 1 / 0"), Ok(false));
    assert!(constant("1 == 2 or {node.absent} == 1").is_err());
    assert_eq!(constant("not (false and 1 / 0) and (true or 1 / 0)"), Ok(true));
}

#[test]
fn properties_become_values_of_their_type() {
    let list = Property::typed("l", "LAB, QA", PropertyType::ListOfStrings);
    for (property, expected) in [
        (Property::new("a", "x"), Some(Value::text("x"))),
        (Property::new("a", 2048), Some(Value::Number(2048.0))),
        (Property::new("a", true), Some(Value::Boolean(true))),
        (list, Some(Value::List(vec![Value::text("LAB"), Value::text("QA")]))),
        (Property::new("a", json!([1, "b"])), Some(Value::List(vec![Value::Number(1.0), Value::text("b")]))),
        (Property::new("a", json!({})), None),
        (Property::new("a", json!(null)), None),
    ] {
        assert_eq!(Value::of_property(&property), expected);
    }
}

#[test]
fn references_are_listed_once() {
    let text = "{node.b} == 1 and '{node.a} {node.b}' in ({ud} {nodeid} {nodename}) and not {unit}";
    let expression = Expression::parse(text).unwrap();
    let names: Vec<String> = expression.references().into_iter().map(Reference::to_string).collect();
    assert_eq!(names, ["{nodename}", "{unit}", "{ud}", "{node.a}", "{node.b}"]);
    assert_eq!(expression.as_str(), text);
}

#[test]
fn long_and_deep_texts_are_refused_before_they_cost_anything() {
    let long = "(".repeat(1 << 20);
    assert_eq!(refusal(&long), "1048576 bytes are more than the 4096 allowed");
    assert!(
        Expression::parse(&"1".repeat(300)).is_ok() && Expression::parse(&" ".repeat(MAX_LENGTH)).is_ok()
    );
    let nested = |opening: &str, closing: &str, levels: usize| {
        Expression::parse(&(opening.repeat(levels) + "1" + &closing.repeat(levels)))
    };
    for (opening, closing) in [("(", ")"), ("not ", ""), ("2 ** ", ""), ("1 in (", ")")] {
        assert!(nested(opening, closing, MAX_NESTING).is_ok() || opening == "1 in (", "{opening}");
        let most = MAX_LENGTH / (opening.len() + closing.len() + 1);
        let error = nested(opening, closing, most).unwrap_err();
        assert!(matches!(error, ExpressionError::Syntax { .. }), "{opening}: {error}");
    }
    let wide = format!("1{} == 2000", " +1".repeat(1_300));
    assert_eq!(constant(&wide), Ok(false));
}

#[test]
fn deepest_expression_needs_little_stack() {
    let text = "(".repeat(MAX_NESTING) + "1" + &")".repeat(MAX_NESTING);
    let parsed = std::thread::Builder::new().stack_size(512 * 1024).spawn(move || Expression::parse(&text));
    assert!(parsed.unwrap().join().unwrap().is_ok());
}

#[test]
fn text_that_grows_is_refused() {
    let node = node(&[("node.a", Value::text("x".repeat(MAX_TEXT)))]);
    for text in ["{node.a} + 'y' == z", "'{node.a}{node.a}' == z"] {
        assert_eq!(evaluate(text, &node), Err("a text of more than 65536 bytes".to_owned()), "{text}");
    }
}
