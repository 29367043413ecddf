//! Parts of an expression that no reference takes part in.

use super::program::Operation;
use super::{Expression, Value};

/// Static knowledge of a value on the stack before the expression is evaluated.
#[derive(Clone, Copy)]
enum Known<'a> {
    /// A reference takes part in it.
    Open,
    /// It is the same for all references; with a text that takes part in it.
    Constant(Option<&'a str>),
}

impl<'a> Known<'a> {
    /// Returns what is known of the result of an operator.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Constant(left), Self::Constant(right)) => Self::Constant(left.or(right)),
            _ => Self::Open,
        }
    }

    fn text(self) -> Option<&'a str> {
        match self {
            Self::Constant(text) => text,
            Self::Open => None,
        }
    }
}

impl Expression {
    /// Returns a text that is compared with constants only, or is a condition by itself; the first if there are
    /// several. Such a part is true or false for all values of the references.
    pub fn constant_text(&self) -> Option<&str> {
        let mut stack: Vec<Known<'_>> = Vec::new();
        for operation in &self.operations {
            let decided = match operation {
                Operation::Constant(Value::Text(text)) => {
                    stack.push(Known::Constant(Some(text)));
                    continue;
                }
                Operation::Constant(_) => {
                    stack.push(Known::Constant(None));
                    continue;
                }
                Operation::Reference(_) | Operation::Template(_) => {
                    stack.push(Known::Open);
                    continue;
                }
                Operation::Sign(_) => continue,
                Operation::Binary(_) => {
                    let right = stack.pop()?;
                    let left = stack.pop()?;
                    stack.push(left.with(right));
                    continue;
                }
                Operation::Compare(_) => {
                    let right = stack.pop()?;
                    stack.pop()?.with(right)
                }
                Operation::InConstants { .. } => stack.pop()?,
                Operation::In { count, .. } => {
                    let items = stack.split_off(stack.len().checked_sub(*count)?);
                    items.into_iter().fold(stack.pop()?, Known::with)
                }
                Operation::Not | Operation::Truth | Operation::Shortcut { .. } => stack.pop()?,
            };
            if decided.text().is_some() {
                return decided.text();
            }
            // The result is a truth value, which cannot be compared with anything by mistake; a shortcut
            // leaves none.
            if !matches!(operation, Operation::Shortcut { .. }) {
                stack.push(Known::Open);
            }
        }
        // The whole expression is a condition.
        stack.pop().and_then(Known::text)
    }
}
