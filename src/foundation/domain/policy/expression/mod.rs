//! Placement expressions: `placement.expression` of a deployment policy, true on the nodes that may run it.
//!
//! A text is parsed once into an [`Expression`], a program for a stack machine: `lexer` (tokens), `parser` (grammar to program),
//! `program` (its operations). `evaluate` runs it against the [`References`] of one node; `value` and `arithmetic` hold the rules
//! of types. A program has no tree, so that neither evaluating nor dropping it recurses, and it borrows constants and property
//! values, so that evaluating it on thousands of nodes allocates next to nothing.
//!
//! The compatible language of `constraints` is another one: see [`super::constraint`].
//! Source: orchestration A5; requirements 000 ("Constraints").

mod arithmetic;
mod constant;
mod error;
mod evaluate;
mod lexer;
mod parser;
mod program;
mod reference;
mod value;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

pub use error::{EvaluationError, ExpressionError, SyntaxProblem};
pub use evaluate::References;
pub use program::Expression;
pub use reference::Reference;
pub use value::Value;

/// Bounds on an expression and on what it computes.
pub mod limits {
    /// Longest expression, in bytes.
    pub const MAX_LENGTH: usize = 4_096;
    /// Deepest nesting of parentheses, `not` and `**`.
    pub const MAX_NESTING: usize = 64;
    /// Largest exponent, of either sign.
    pub const MAX_EXPONENT: f64 = 1_024.0;
    /// Longest text that an operation may produce, in bytes.
    pub const MAX_TEXT: usize = 65_536;
}
