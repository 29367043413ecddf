//! The constraints of a policy: a list of texts that must all be satisfied.
//!
//! Source: agreement-protocol 3.4.

use std::collections::BTreeSet;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::parser::{self, Problem};
use super::tree::Expression;
use super::{ConstraintError, limits};
use crate::policy::property::PropertyList;

/// Maximum number of quoted input characters in an error message.
const QUOTED_LENGTH: usize = 40;

/// The constraints of a policy in the order in which they were given, as written.
///
/// # Shape
/// Every one must be satisfied; an empty list is always satisfied. Nothing is validated when a list is read: see
/// [`ConstraintList::validate`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConstraintList(Vec<String>);

impl ConstraintList {
    /// Creates the empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends a constraint.
    pub fn push(&mut self, constraint: impl Into<String>) {
        self.0.push(constraint.into());
    }

    /// Appends the constraints of another list that are not in this one, compared by their text.
    pub fn merge(&mut self, addition: &Self) {
        // Neither list need have been validated, so both may be long.
        let mut known: BTreeSet<String> = self.0.iter().cloned().collect();
        for constraint in &addition.0 {
            if known.insert(constraint.clone()) {
                self.0.push(constraint.clone());
            }
        }
    }

    /// Returns whether two lists of one length hold the same texts, in any order.
    pub fn is_same(&self, other: &Self) -> bool {
        let texts = |list: &Self| list.0.iter().cloned().collect::<BTreeSet<_>>();
        self.0.len() == other.0.len() && texts(self) == texts(other)
    }

    /// Checks whether a policy may hold these constraints.
    ///
    /// # Errors
    /// [`ConstraintError`] for the first error; limits are tested before anything is parsed.
    pub fn validate(&self) -> Result<(), ConstraintError> {
        self.check_size(limits::MAX_COUNT)?;
        self.accept_all(limits::MAX_PREDICATES)
    }

    /// Checks the limits on the size of a policy's constraints.
    ///
    /// For callers that store policies without parsing them: the reference also stores texts outside of the language.
    ///
    /// # Errors
    /// [`ConstraintError`] when a limit is exceeded, never for the syntax.
    pub fn check_limits(&self) -> Result<(), ConstraintError> {
        self.check_size(limits::MAX_COUNT)?;
        match self.errors().into_iter().find(|error| !matches!(error, ConstraintError::Syntax { .. })) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Returns the error of each invalid constraint; a policy with one of them selects nothing.
    ///
    /// # Shape
    /// In the order of the constraints, at most one error for each. The constraint that exceeds the number of comparisons is the last
    /// one that is read. Lists with errors are not evaluated; sizes are not tested here.
    pub fn errors(&self) -> Vec<ConstraintError> {
        let limit = limits::MAX_PREDICATES;
        let (mut left, mut errors) = (limit, Vec::new());
        for (position, text) in self.0.iter().enumerate() {
            let read = parser::accept(text, &mut left).and_then(|()| parser::build(text).map(drop));
            let Err(problem) = read else { continue };
            let is_last = matches!(problem, Problem::TooManyPredicates);
            errors.push(describe(problem, position, text, limit));
            if is_last {
                break;
            }
        }
        errors
    }

    /// Builds the tree of the whole list.
    ///
    /// # Errors
    /// As [`ConstraintList::validate`], except that merged policies may hold more constraints and comparisons; and a syntax error for
    /// the few texts that validation accepts but that have no tree, or nesting that is too deep.
    pub fn parse(&self) -> Result<Expression, ConstraintError> {
        self.check_size(limits::MAX_MERGED_COUNT)?;
        let limit = limits::MAX_MERGED_PREDICATES;
        self.accept_all(limit)?;
        let trees = self.0.iter().enumerate().map(|(position, text)| {
            parser::build(text).map_err(|problem| describe(problem, position, text, limit))
        });
        trees.collect::<Result<Vec<_>, _>>().map(Expression::all)
    }

    /// Builds the tree of the constraints of one policy, which are not merged with others.
    ///
    /// # Errors
    /// As [`ConstraintList::parse`], within the limits of [`ConstraintList::validate`].
    pub fn parse_own(&self) -> Result<Expression, ConstraintError> {
        self.validate().and_then(|()| self.parse())
    }

    /// Returns whether the properties satisfy every constraint.
    ///
    /// For repeated evaluation keep the tree of [`ConstraintList::parse`] instead.
    /// # Errors
    /// See [`ConstraintList::parse`].
    pub fn is_satisfied_by(&self, properties: &PropertyList) -> Result<bool, ConstraintError> {
        self.parse().map(|tree| tree.is_satisfied_by(properties))
    }

    fn check_size(&self, limit: usize) -> Result<(), ConstraintError> {
        let count = self.0.len();
        if count > limit {
            return Err(ConstraintError::TooMany { count, limit });
        }
        let limit = limits::MAX_LENGTH;
        if let Some((position, text)) = self.0.iter().enumerate().find(|(_, text)| text.len() > limit) {
            return Err(ConstraintError::TooLong { position, length: text.len(), limit });
        }
        let (length, limit) = (self.0.iter().map(String::len).sum(), limits::MAX_TOTAL_LENGTH);
        if length > limit {
            return Err(ConstraintError::ListTooLong { length, limit });
        }
        Ok(())
    }

    fn accept_all(&self, limit: usize) -> Result<(), ConstraintError> {
        let mut left = limit;
        self.0.iter().enumerate().try_for_each(|(position, text)| {
            parser::accept(text, &mut left).map_err(|problem| describe(problem, position, text, limit))
        })
    }
}

/// `limit`: that of the comparisons of all constraints.
fn describe(problem: Problem<'_>, position: usize, text: &str, limit: usize) -> ConstraintError {
    match problem {
        Problem::TooManyPredicates => ConstraintError::TooManyPredicates { position, limit },
        Problem::TooDeep => ConstraintError::TooDeep { position, limit: limits::MAX_NESTING },
        Problem::Syntax { reason, at } => {
            // The end of the whitespace before it.
            let before = text.len() - at.trim_start().len();
            let column = text.get(..before).unwrap_or(text).chars().count() + 1;
            ConstraintError::Syntax {
                position,
                column,
                reason,
                near: at.chars().take(QUOTED_LENGTH).collect(),
            }
        }
    }
}

impl Deref for ConstraintList {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl From<Vec<String>> for ConstraintList {
    fn from(constraints: Vec<String>) -> Self {
        Self(constraints)
    }
}

impl<T: Into<String>> FromIterator<T> for ConstraintList {
    fn from_iter<I: IntoIterator<Item = T>>(constraints: I) -> Self {
        Self(constraints.into_iter().map(Into::into).collect())
    }
}
