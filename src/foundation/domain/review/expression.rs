//! Placement expressions, or parts of them, that are the same on every node.

use crate::policy::expression::Expression;

/// The error of an expression that does not depend on the node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConstantExpression {
    /// A word stands where a property was meant.
    #[error("`{word}` is a text and the same on every node; the property of a node is {{node.{word}}}")]
    Word {
        /// The word.
        word: String,
    },
    /// The whole expression names nothing of a node.
    #[error("is the same on every node: a property of a node is written as {{node.name}}")]
    NoReference,
}

/// Refuses an expression without a reference, and a comparison or condition of texts that no reference takes part in.
///
/// # Errors
/// [`ConstantExpression`].
pub fn check_expression(expression: &Expression) -> Result<(), ConstantExpression> {
    match expression.constant_text() {
        Some(word) => Err(ConstantExpression::Word { word: word.to_owned() }),
        None if expression.is_empty() || !expression.references().is_empty() => Ok(()),
        None => Err(ConstantExpression::NoReference),
    }
}
