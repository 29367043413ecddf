//! Arithmetic, bitwise and text operators of expressions.

use std::borrow::Cow;

use super::limits::{MAX_EXPONENT, MAX_TEXT};
use super::{EvaluationError, Value};

/// Integers up to here are exact.
const MAX_INTEGER: f64 = 9_007_199_254_740_992.0;

/// An operator on two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    BitOr,
    BitXor,
    BitAnd,
    Add,
    Subtract,
    Multiply,
    Divide,
    IntegerDivide,
    Modulo,
    Power,
}

impl Binary {
    /// Returns the operator's spelling.
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::BitOr => "|",
            Self::BitXor => "^",
            Self::BitAnd => "&",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::IntegerDivide => "//",
            Self::Modulo => "%",
            Self::Power => "**",
        }
    }

    /// Applies the operator.
    ///
    /// # Errors
    /// When the operands have the wrong type, or the result is not a finite number.
    pub(super) fn apply<'a>(self, left: Value<'a>, right: Value<'a>) -> Result<Value<'a>, EvaluationError> {
        match (self, left, right) {
            (Self::BitOr | Self::BitXor | Self::BitAnd, left, right) => self.bitwise(&left, &right),
            (_, Value::Number(left), Value::Number(right)) => self.on_numbers(left, right).map(Value::Number),
            (Self::Add, Value::Text(left), Value::Text(right)) => {
                if left.len() + right.len() > MAX_TEXT {
                    return Err(EvaluationError::TextTooLong);
                }
                Ok(Value::Text(Cow::Owned(left.into_owned() + &right)))
            }
            (_, left, right) => Err(type_error(self.symbol(), &[&left, &right])),
        }
    }

    fn on_numbers(self, left: f64, right: f64) -> Result<f64, EvaluationError> {
        let divides = matches!(self, Self::Divide | Self::IntegerDivide | Self::Modulo);
        if (divides && right == 0.0) || (self == Self::Power && left == 0.0 && right < 0.0) {
            return Err(EvaluationError::DivisionByZero);
        }
        if self == Self::Power && right.abs() > MAX_EXPONENT {
            return Err(EvaluationError::Exponent { exponent: right.to_string() });
        }
        let result = match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
            // By way of the remainder, so that a large quotient is not rounded up to the next integer.
            Self::IntegerDivide => ((left - modulo(left, right)) / right).round(),
            Self::Modulo => modulo(left, right),
            Self::Power => left.powf(right),
            Self::BitOr | Self::BitXor | Self::BitAnd => f64::NAN,
        };
        if result.is_finite() {
            Ok(result)
        } else {
            Err(EvaluationError::NotFinite { operator: self.symbol() })
        }
    }

    fn bitwise<'a>(self, left: &Value<'_>, right: &Value<'_>) -> Result<Value<'a>, EvaluationError> {
        if let (Value::Boolean(left), Value::Boolean(right)) = (left, right) {
            return Ok(Value::Boolean(match self {
                Self::BitOr => left | right,
                Self::BitXor => left ^ right,
                _ => left & right,
            }));
        }
        let (Some(first), Some(second)) = (integer(left), integer(right)) else {
            return Err(type_error(self.symbol(), &[left, right]));
        };
        Ok(Value::Number(match self {
            Self::BitOr => first | second,
            Self::BitXor => first ^ second,
            _ => first & second,
        } as f64))
    }
}

/// Applies a sign to a number.
///
/// # Errors
/// When the operand is not a number.
pub(super) fn signed<'a>(operator: &'static str, operand: &Value<'_>) -> Result<Value<'a>, EvaluationError> {
    match operand {
        Value::Number(number) if operator == "-" => Ok(Value::Number(-number)),
        Value::Number(number) => Ok(Value::Number(*number)),
        other => Err(type_error(operator, &[other])),
    }
}

/// Returns the remainder with the sign of the divisor.
fn modulo(left: f64, right: f64) -> f64 {
    let rest = left % right;
    if rest != 0.0 && (rest < 0.0) != (right < 0.0) { rest + right } else { rest }
}

fn integer(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Number(number) if number.fract() == 0.0 && number.abs() <= MAX_INTEGER => Some(*number as i64),
        _ => None,
    }
}

/// Names the operand types in an error.
pub(super) fn type_error(operator: &'static str, operands: &[&Value<'_>]) -> EvaluationError {
    let names: Vec<&str> = operands.iter().map(|operand| operand.type_name()).collect();
    EvaluationError::Type { operator, operands: names.join(" and ") }
}
