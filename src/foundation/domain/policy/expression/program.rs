//! The compiled form of an expression.

use super::arithmetic::Binary;
use super::{ExpressionError, Reference, Value, parser};

/// A comparison of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Returns the operator's spelling.
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

/// A part of a quoted text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// Characters that stand for themselves.
    Literal(String),
    /// A reference that is replaced by its text.
    Reference(Reference),
}

/// An operation on the stack of values.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operation {
    /// Pushes a constant.
    Constant(Value<'static>),
    /// Pushes the value of a reference.
    Reference(Reference),
    /// Pushes a text with references inside.
    Template(Vec<Piece>),
    /// Replaces two values by the result of an operator.
    Binary(Binary),
    /// Applies a sign, `-` or `+`, to the value.
    Sign(&'static str),
    /// Replaces two values by the result of a comparison.
    Compare(Comparison),
    /// Replaces a value by whether it is among constants.
    InConstants { items: Vec<Value<'static>>, is_negated: bool },
    /// Replaces a value and the `count` values above it by whether it is among them.
    In { count: usize, is_negated: bool },
    /// Replaces a value by the opposite of its truth.
    Not,
    /// Replaces a value by its truth.
    Truth,
    /// Takes a value; if its truth is `on`, pushes that and jumps, because the rest cannot change the result.
    Shortcut { on: bool, target: usize },
}

/// A parsed expression.
///
/// # Shape
/// Immutable; cloning it shares nothing. The empty text, the default, is the expression that is always true.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expression {
    pub(super) operations: Vec<Operation>,
    text: String,
}

impl Expression {
    /// Parses a text.
    ///
    /// # Errors
    /// [`ExpressionError::TooLong`] before anything is read, [`ExpressionError::Syntax`] with the column.
    ///
    /// # Source
    /// Orchestration A5.1.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        Ok(Self { operations: parser::parse(text)?, text: text.to_owned() })
    }

    /// Returns the text as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the expression is true on every node because it is empty.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns the references whose values decide, sorted, each once.
    pub fn references(&self) -> Vec<&Reference> {
        let mut references: Vec<&Reference> = Vec::new();
        for operation in &self.operations {
            match operation {
                Operation::Reference(reference) => references.push(reference),
                Operation::Template(pieces) => {
                    references.extend(pieces.iter().filter_map(|piece| match piece {
                        Piece::Reference(reference) => Some(reference),
                        Piece::Literal(_) => None,
                    }));
                }
                _ => {}
            }
        }
        references.sort();
        references.dedup();
        references
    }
}
