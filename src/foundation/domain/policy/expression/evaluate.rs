//! Evaluation of an expression on one node.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::arithmetic::{signed, type_error};
use super::limits::MAX_TEXT;
use super::program::{Comparison, Operation, Piece};
use super::{EvaluationError, Expression, Reference, Value};

/// Resolves the references of an expression for one node.
pub trait References {
    /// Returns the value of a reference; none when the node has nothing of that name.
    fn resolve(&self, reference: &Reference) -> Option<Value<'_>>;
}

impl Expression {
    /// Returns whether the expression is true for one node.
    ///
    /// # Errors
    /// When it has no value there; the expression then counts as false, with the error as the reason.
    ///
    /// # Source
    /// Orchestration A5.2, A5.4.
    pub fn evaluate(&self, references: &impl References) -> Result<bool, EvaluationError> {
        let mut stack = Stack(Vec::with_capacity(8));
        let mut position = 0;
        while let Some(operation) = self.operations.get(position) {
            position += 1;
            match operation {
                Operation::Constant(value) => stack.push(value.borrowed()),
                Operation::Reference(reference) => stack.push(resolve(references, reference)?),
                Operation::Template(pieces) => stack.push(Value::text(fill(pieces, references)?)),
                Operation::Binary(operator) => {
                    let (left, right) = stack.pop_two();
                    stack.push(operator.apply(left, right)?);
                }
                Operation::Sign(sign) => {
                    let operand = stack.pop();
                    stack.push(signed(sign, &operand)?);
                }
                Operation::Compare(comparison) => {
                    let (left, right) = stack.pop_two();
                    stack.push(Value::Boolean(compare(*comparison, &left, &right)?));
                }
                Operation::InConstants { items, is_negated } => {
                    let is_among = stack.pop().is_among(items);
                    stack.push(Value::Boolean(is_among != *is_negated));
                }
                Operation::In { count, is_negated } => {
                    let items = stack.0.split_off(stack.0.len().saturating_sub(*count));
                    let is_among = stack.pop().is_among(&items);
                    stack.push(Value::Boolean(is_among != *is_negated));
                }
                Operation::Not => {
                    let is_truth = stack.pop().is_truth();
                    stack.push(Value::Boolean(!is_truth));
                }
                Operation::Truth => {
                    let is_truth = stack.pop().is_truth();
                    stack.push(Value::Boolean(is_truth));
                }
                Operation::Shortcut { on, target } => {
                    if stack.pop().is_truth() == *on {
                        stack.push(Value::Boolean(*on));
                        position = *target;
                    }
                }
            }
        }
        // The program of the empty text leaves nothing.
        Ok(stack.0.pop().is_none_or(|value| value.is_truth()))
    }
}

/// The values that operations have left.
struct Stack<'a>(Vec<Value<'a>>);

impl<'a> Stack<'a> {
    fn push(&mut self, value: Value<'a>) {
        self.0.push(value);
    }

    fn pop(&mut self) -> Value<'a> {
        self.0.pop().expect("the parser emits the operands of an operation before it")
    }

    fn pop_two(&mut self) -> (Value<'a>, Value<'a>) {
        let right = self.pop();
        (self.pop(), right)
    }
}

fn resolve<'a>(references: &'a impl References, reference: &Reference) -> Result<Value<'a>, EvaluationError> {
    references.resolve(reference).ok_or_else(|| EvaluationError::Unresolved { reference: reference.clone() })
}

fn fill(pieces: &[Piece], references: &impl References) -> Result<String, EvaluationError> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Literal(literal) => text.push_str(literal),
            Piece::Reference(reference) => {
                let value = resolve(references, reference)?;
                let value: Cow<'_, str> = value.as_text();
                text.push_str(&value);
            }
        }
        if text.len() > MAX_TEXT {
            return Err(EvaluationError::TextTooLong);
        }
    }
    Ok(text)
}

fn compare(comparison: Comparison, left: &Value<'_>, right: &Value<'_>) -> Result<bool, EvaluationError> {
    let wanted: fn(Ordering) -> bool = match comparison {
        Comparison::Equal => return Ok(left.equals(right)),
        Comparison::NotEqual => return Ok(!left.equals(right)),
        Comparison::Less => Ordering::is_lt,
        Comparison::LessOrEqual => Ordering::is_le,
        Comparison::Greater => Ordering::is_gt,
        Comparison::GreaterOrEqual => Ordering::is_ge,
    };
    left.order(right).map(wanted).ok_or_else(|| type_error(comparison.symbol(), &[left, right]))
}
