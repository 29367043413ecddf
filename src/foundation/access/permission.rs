//! Permissions: values that only the permission table can make, so that code which takes one cannot run unchecked.

use std::marker::PhantomData;

use crate::{Access, Caller, Decision, Facts, Target, decide, decide_with_facts};

/// A row of the permission table as a type; see [`right`](crate::right).
pub trait Right: Send + Sync + 'static {
    /// The row.
    const ACCESS: Access;
}

/// A right that allows changes.
pub trait WriteRight: Right {}

/// Proof that the permission table granted the right `R` to a caller.
#[must_use = "a permission is requested to be passed on"]
pub struct Permission<R> {
    right: PhantomData<fn() -> R>,
}

impl<R: Right> Permission<R> {
    /// Decides as far as possible without looking at the target.
    ///
    /// # Errors
    /// Every [`Decision`] but [`Decision::Allow`].
    pub fn decide(caller: &Caller, target: Target<'_>) -> Result<Permission<R>, Decision> {
        granted(decide(caller, R::ACCESS, target))
    }

    /// Decides with the facts of the target; `None` means that it does not exist.
    ///
    /// # Errors
    /// Every [`Decision`] but [`Decision::Allow`].
    pub fn decide_with_facts(
        caller: &Caller,
        target: Target<'_>,
        facts: Option<&Facts>,
    ) -> Result<Permission<R>, Decision> {
        granted(decide_with_facts(caller, R::ACCESS, target, facts))
    }
}

fn granted<R>(decision: Decision) -> Result<Permission<R>, Decision> {
    match decision {
        Decision::Allow => Ok(Permission { right: PhantomData }),
        refused => Err(refused),
    }
}
