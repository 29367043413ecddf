//! Constraints: requirements of one side on the properties of the other, in the compatible text language.
//!
//! The language is accepted exactly as the reference accepts it, accidents included, because a policy that is valid on one
//! hub must be valid, and mean the same, on the other. Parsing consists of `lexer` (tokens), `parser` (acceptance and tree),
//! `tree` (the public tree) and `evaluate` (its meaning). Everything is bounded: see [`limits`].
//! Source: agreement-protocol 3.4.

mod evaluate;
mod lexer;
mod list;
mod number;
mod parser;
mod quote;
mod tree;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

pub use list::ConstraintList;
pub use tree::{Expression, Operand, Operator, Predicate};

/// Limits on a policy's constraints; a policy beyond them is refused before it is parsed.
pub mod limits {
    /// Longest single constraint, in bytes.
    pub const MAX_LENGTH: usize = 65_536;
    /// Maximum total length of a list of constraints, in bytes.
    pub const MAX_TOTAL_LENGTH: usize = 1_048_576;
    /// Maximum number of constraints of one policy.
    pub const MAX_COUNT: usize = 1_000;
    /// Maximum number of constraints of merged policies.
    pub const MAX_MERGED_COUNT: usize = 4_000;
    /// Maximum number of comparisons in all constraints of one policy: it bounds the time to match the policy with one node.
    pub const MAX_PREDICATES: usize = 1_000;
    /// Maximum number of comparisons in the constraints of merged policies.
    pub const MAX_MERGED_PREDICATES: usize = 4_000;
    /// Deepest nesting of parentheses.
    pub const MAX_NESTING: usize = 128;
}

/// The reason why constraints are refused.
///
/// # Shape
/// `position` counts the constraints of the list from zero, `column` the characters of the constraint from one. Texts taken
/// from the input are shortened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// The list holds too many constraints.
    #[error("{count} constraints are more than the {limit} allowed")]
    TooMany { count: usize, limit: usize },
    /// All constraints together are too long.
    #[error("constraints of {length} bytes together are longer than the {limit} allowed")]
    ListTooLong { length: usize, limit: usize },
    /// One constraint is too long.
    #[error("constraint {position} of {length} bytes is longer than the {limit} allowed")]
    TooLong { position: usize, length: usize, limit: usize },
    /// All constraints together hold too many comparisons.
    #[error("constraint {position} exceeds the {limit} comparisons allowed in all constraints together")]
    TooManyPredicates { position: usize, limit: usize },
    /// Parentheses are nested too deeply.
    #[error("constraint {position} nests parentheses deeper than the {limit} levels allowed")]
    TooDeep { position: usize, limit: usize },
    /// The constraint has a syntax error.
    #[error("constraint {position} is wrong at character {column}{}: {reason}", quoted(near))]
    Syntax { position: usize, column: usize, reason: SyntaxProblem, near: String },
}

fn quoted(near: &str) -> String {
    if near.trim().is_empty() { ", its end".to_owned() } else { format!(", near \"{near}\"") }
}

/// A syntax error of a constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxProblem {
    /// No token begins here.
    #[error("these characters mean nothing here; values with special characters cannot be written")]
    NoToken,
    /// The name of a property was expected.
    #[error("the name of a property was expected")]
    NameExpected,
    /// An operator was expected after a property's name.
    #[error("one of = == != < > <= >= in was expected after the name of the property")]
    OperatorExpected,
    /// A value was expected after an operator.
    #[error("a value was expected after the operator")]
    ValueExpected,
    /// AND, OR or a parenthesis was expected.
    #[error("AND, OR, &&, || (between spaces) or a parenthesis was expected")]
    ConnectiveExpected,
    /// Parentheses do not match.
    #[error("parentheses do not match")]
    UnmatchedParentheses,
    /// A version range stands after another operator than `in`.
    #[error("a version range can only be used with the operator in")]
    RangeNeedsIn,
    /// A list stands after another operator than `in`.
    #[error("a list can only be used with the operator in")]
    ListNeedsIn,
    /// An order operator is applied to a value that is not a number.
    #[error("only numbers have an order")]
    NumberExpected,
    /// The operator `in` is not followed by a list, a quoted text, a version or a range.
    #[error("the operator in needs a quoted list, a quoted text, a version or a version range")]
    InNeedsSet,
    /// The version range is invalid.
    #[error("this is not a version range")]
    NotARange,
}
