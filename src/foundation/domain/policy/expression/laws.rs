//! Laws that hold for every input.

use proptest::prelude::*;

use super::*;

/// A node with a number, a text and a boolean; everything else is unresolved.
struct Node;

impl References for Node {
    fn resolve(&self, reference: &Reference) -> Option<Value<'_>> {
        match reference {
            Reference::NodeId => Some(Value::text("n1")),
            Reference::Node(name) if name == "memory" => Some(Value::Number(2048.0)),
            Reference::Node(name) if name == "secure" => Some(Value::Boolean(true)),
            _ => None,
        }
    }
}

/// Generates texts from fragments of the language, valid ones among them.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "(n1|a|7|2\\.5|true|'x y'|\"q\")",
        4 => "(\\{nodename\\}|\\{node\\.memory\\}|\\{node\\.secure\\}|\\{node\\.absent\\})",
        8 => "( == | != | < | in | not in | and | or | \\+ | - | \\* | // | % | \\*\\* |&|\\|)",
        4 => "(\\(|\\)|\\[|\\]|,| |not )",
        1 => "\\PC",
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

/// An integer expression with the value that it must have, computed without the parser.
#[derive(Debug, Clone)]
struct Sum {
    text: String,
    value: i64,
}

/// Generates sums, differences and products with exactly the parentheses that precedence needs.
fn sums() -> impl Strategy<Value = Sum> {
    let leaf = (0..10i64).prop_map(|value| Sum { text: value.to_string(), value });
    leaf.prop_recursive(4, 24, 2, |inner| {
        (inner.clone(), inner, 0..4usize).prop_map(|(left, right, operator)| {
            let (symbol, value) = match operator {
                0 => ("+", left.value + right.value),
                1 => ("-", left.value - right.value),
                2 => ("*", left.value * right.value),
                _ => ("&", left.value & right.value),
            };
            Sum { text: format!("({}) {symbol} ({})", left.text, right.text), value }
        })
    })
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused_at_a_column_of_it(text in any_text()) {
        match Expression::parse(&text) {
            Ok(expression) => drop(expression.evaluate(&Node)),
            Err(ExpressionError::Syntax { column, .. }) => {
                prop_assert!((1..=text.chars().count() + 1).contains(&column));
            }
            Err(ExpressionError::TooLong { length }) => prop_assert!(length > limits::MAX_LENGTH),
        }
    }

    #[test]
    fn any_characters_are_parsed_or_refused(text in "\\PC*") {
        drop(Expression::parse(&text));
    }

    #[test]
    fn valid_text_means_the_same_in_parentheses_in_the_wrapper_and_negated_twice(text in any_text()) {
        if let Ok(expression) = Expression::parse(&text)
            && !expression.is_empty()
            && !text.contains("$(")
        {
            let result = expression.evaluate(&Node);
            for same in [format!("({text})"), format!("$({text})"), format!("not not ({text})")] {
                prop_assert_eq!(Expression::parse(&same).unwrap().evaluate(&Node), result.clone());
            }
        }
    }

    #[test]
    fn sums_are_computed_exactly(sum in sums()) {
        let expression = Expression::parse(&format!("({}) == ({})", sum.text, sum.value)).unwrap();
        prop_assert_eq!(expression.evaluate(&Node), Ok(true));
    }

    #[test]
    fn remainder_and_quotient_belong_together(left in -1_000_000_000i64..1_000_000_000, right in 1..100_000i64, is_negative: bool) {
        let right = if is_negative { -right } else { right };
        let text = format!("({left}) // ({right}) * ({right}) + ({left}) % ({right}) == ({left})");
        prop_assert_eq!(Expression::parse(&text).unwrap().evaluate(&Node), Ok(true));
    }
}
