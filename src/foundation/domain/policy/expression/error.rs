//! Errors of expressions: when they are written and when they are evaluated.

use super::Reference;
use super::limits::{MAX_EXPONENT, MAX_LENGTH, MAX_NESTING, MAX_TEXT};

/// The reason why a text is not an expression.
///
/// # Shape
/// `column` counts the characters of the text from one; at the end of the text it is one more than their number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// The text is too long; it was not read.
    #[error("{length} bytes are more than the {MAX_LENGTH} allowed")]
    TooLong { length: usize },
    /// The text has a syntax error.
    #[error("column {column}: {problem}")]
    Syntax { column: usize, problem: SyntaxProblem },
}

/// A syntax error of an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxProblem {
    /// No token begins with this character.
    #[error("`{character}` means nothing here; values with special characters must be quoted")]
    UnknownCharacter { character: char },
    /// The digits of a number are followed by other letters, or the number is too large.
    #[error("this is not a number; names that begin with a digit must be quoted")]
    NotANumber,
    /// A quoted text has no end.
    #[error("the quoted text has no end")]
    UnclosedText,
    /// A backslash is followed by neither a quote nor a backslash.
    #[error("a backslash must be followed by a quote or a backslash")]
    UnknownEscape,
    /// A brace does not belong to a reference.
    #[error("a reference such as {{node.name}} was expected")]
    NotAReference,
    /// A number, a text, a reference or a parenthesis was expected.
    #[error("a value was expected")]
    ValueExpected,
    /// The operator `in` is not followed by a list.
    #[error("a list in parentheses or brackets was expected after in")]
    ListExpected,
    /// Two values of a list touch each other.
    #[error("a comma or a blank was expected between two values of a list")]
    SeparatorExpected,
    /// A parenthesis or bracket is not closed here.
    #[error("`{closing}` was expected")]
    ClosingExpected { closing: &'static str },
    /// The expression is complete, but the text continues.
    #[error("an operator or the end was expected")]
    OperatorExpected,
    /// The expression nests too deeply.
    #[error("nested deeper than the {MAX_NESTING} levels allowed")]
    TooDeep,
}

/// The reason why an expression has no value on a node; it then counts as false there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The node has nothing of that name.
    #[error("unresolved {reference}")]
    Unresolved { reference: Reference },
    /// The divisor of `/`, `//` or `%` is zero, or zero is raised to a negative power.
    #[error("division by zero")]
    DivisionByZero,
    /// The exponent is too large.
    #[error("exponent {exponent} is beyond {MAX_EXPONENT}")]
    Exponent { exponent: String },
    /// The result is not a finite number.
    #[error("the result of {operator} is not a finite number")]
    NotFinite { operator: &'static str },
    /// An operator is applied to a value of a type that it does not take.
    #[error("{operator} cannot be applied to {operands}")]
    Type { operator: &'static str, operands: String },
    /// The text that an operation produces is too long.
    #[error("a text of more than {MAX_TEXT} bytes")]
    TextTooLong,
}
