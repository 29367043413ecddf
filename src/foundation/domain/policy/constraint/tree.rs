//! The tree of a constraint, public so that an index can evaluate it as operations on sets of nodes.
//!
//! Source: agreement-protocol 3.4.

use std::fmt;

use super::number::{parse_bool, parse_number};
use super::quote::{bare, bare_element};
use crate::version::{Version, VersionRange, is_range_expression};

/// A condition on a list of properties.
///
/// # Shape
/// Conjunctions and alternatives never hold exactly one part. The empty conjunction is always satisfied; the empty
/// alternative, which no text produces, never is. Depth is bounded by [`super::limits::MAX_NESTING`].
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// Satisfied when every part is.
    All(Vec<Expression>),
    /// Satisfied when one part is.
    Any(Vec<Expression>),
    /// Satisfied when a property has a value that fits.
    Predicate(Predicate),
}

impl Expression {
    /// Joins parts that must all be satisfied; a single part stays as it is.
    pub fn all(parts: Vec<Self>) -> Self {
        Self::join(parts, Self::All)
    }

    /// Joins parts of which one must be satisfied; a single part stays as it is.
    pub fn any(parts: Vec<Self>) -> Self {
        Self::join(parts, Self::Any)
    }

    fn join(mut parts: Vec<Self>, as_node: fn(Vec<Self>) -> Self) -> Self {
        match parts.pop() {
            Some(only) if parts.is_empty() => only,
            last => {
                parts.extend(last);
                as_node(parts)
            }
        }
    }

    /// Returns whether every list of properties satisfies the expression.
    pub fn is_trivial(&self) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(Self::is_trivial),
            Self::Any(parts) => parts.iter().any(Self::is_trivial),
            Self::Predicate(_) => false,
        }
    }

    /// Returns all predicates, in the order of the text.
    pub fn predicates(&self) -> Vec<&Predicate> {
        let mut found = Vec::new();
        self.collect_predicates(&mut found);
        found
    }

    fn collect_predicates<'a>(&'a self, found: &mut Vec<&'a Predicate>) {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().for_each(|part| part.collect_predicates(found));
            }
            Self::Predicate(predicate) => found.push(predicate),
        }
    }

    fn is_in_need_of_parentheses(&self, inside_conjunction: bool) -> bool {
        match self {
            Self::All(parts) => inside_conjunction || parts.is_empty(),
            Self::Any(_) => true,
            Self::Predicate(_) => false,
        }
    }
}

/// Writes the expression in the constraint language; parsing it again gives an equal expression.
impl fmt::Display for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, connective, is_conjunction) = match self {
            Self::Predicate(predicate) => return predicate.fmt(formatter),
            Self::All(parts) => (parts, " AND ", true),
            Self::Any(parts) => (parts, " OR ", false),
        };
        for (position, part) in parts.iter().enumerate() {
            if position > 0 {
                formatter.write_str(connective)?;
            }
            if part.is_in_need_of_parentheses(is_conjunction) {
                write!(formatter, "({part})")?;
            } else {
                part.fmt(formatter)?;
            }
        }
        Ok(())
    }
}

/// The comparison operator of a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// `=` or `==`.
    Equal,
    /// `!=`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
    /// `=<`, `=>` and the like: written like an order, but the reference compares numbers for equality and does not support the
    /// operator for other values.
    MisspelledOrder,
    /// `in`.
    In,
}

impl Operator {
    /// Parses the text of an operator token.
    pub(super) fn from_text(text: &str) -> Self {
        match text {
            "=" | "==" => Self::Equal,
            "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            "in" => Self::In,
            _ => Self::MisspelledOrder,
        }
    }

    /// Returns the operator as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::MisspelledOrder => "=>",
            Self::In => "in",
        }
    }
}

/// One comparison of a property with a value.
///
/// # Shape
/// Equality compares property, operator and value, not their spelling.
#[derive(Debug, Clone)]
pub struct Predicate {
    property: String,
    operator: Operator,
    operand: Box<Operand>,
    source: String,
}

impl Predicate {
    pub(super) fn new(property: &str, operator: Operator, value: &str, source: &str) -> Self {
        Self {
            property: property.to_owned(),
            operator,
            operand: Box::new(Operand::new(value)),
            source: source.to_owned(),
        }
    }

    /// Returns the name of the property.
    pub fn property(&self) -> &str {
        &self.property
    }

    /// Returns the predicate as written, with the spaces around it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the operator.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// Returns the value to compare with.
    pub fn operand(&self) -> &Operand {
        &self.operand
    }
}

impl PartialEq for Predicate {
    fn eq(&self, other: &Self) -> bool {
        self.property == other.property
            && self.operator == other.operator
            && self.operand.written == other.operand.written
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.source)
    }
}

/// The value of a predicate, parsed once in every form in which it may be compared.
#[derive(Debug, Clone)]
pub struct Operand {
    written: String,
    number: Option<f64>,
    boolean: Option<bool>,
    text: String,
    elements: Vec<String>,
    range: Option<VersionRange>,
    is_range_expression: bool,
}

impl Operand {
    fn new(written: &str) -> Self {
        let text = bare(written).unwrap_or_default();
        let mut elements: Vec<String> = text.split(',').filter_map(bare_element).map(str::to_owned).collect();
        elements.sort_unstable();
        elements.dedup();
        Self {
            written: written.to_owned(),
            number: parse_number(written),
            boolean: parse_bool(written),
            text: text.to_owned(),
            elements,
            range: VersionRange::parse(text).ok(),
            is_range_expression: is_range_expression(text),
        }
    }

    /// Returns the value as written, without surrounding whitespace but with quotes.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Returns the value as a number; `None` for quoted numbers.
    pub fn number(&self) -> Option<f64> {
        self.number
    }

    /// Returns the value as a truth value; `None` for quoted ones.
    pub fn boolean(&self) -> Option<bool> {
        self.boolean
    }

    /// Returns the value as text, without quotes and surrounding spaces.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the elements of the value as a list separated by commas, sorted and each once; one element when there is no comma.
    pub fn elements(&self) -> &[String] {
        &self.elements
    }

    /// Returns the value as a range of versions, a single version meaning everything from it on.
    pub fn range(&self) -> Option<&VersionRange> {
        self.range.as_ref()
    }

    /// Returns whether the operator `in` treats the value as a range even for properties that are not declared as versions.
    pub fn is_range_expression(&self) -> bool {
        self.is_range_expression
    }

    pub(super) fn holds_version(&self, text: &str) -> bool {
        match (&self.range, Version::parse(text)) {
            (Some(range), Ok(version)) => range.contains(&version),
            _ => false,
        }
    }
}
