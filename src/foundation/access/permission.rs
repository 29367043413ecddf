//! Permissions: values that only the permission table can create, so that code which requires one cannot run unchecked.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::{Access, Caller, Decision, Facts, Target, decide, decide_with_facts};

/// A row of the permission table as a type; see [`right`](crate::right).
pub trait Right: Send + Sync + 'static {
    /// The row.
    const ACCESS: Access;
}

/// A right that allows changes.
pub trait WriteRight: Right {}

/// Proof that the permission table has granted the right `R` to a caller.
#[must_use = "a permission is requested to be passed on"]
pub struct Permission<R> {
    condition: Option<Arc<PermissionCondition>>,
    right: PhantomData<fn() -> R>,
}

/// A decision that facts about a target allowed. They may change until a write locks the target: it is made again then.
#[derive(Debug)]
pub struct PermissionCondition {
    caller: Caller,
    access: Access,
    org: String,
    id: String,
}

impl PermissionCondition {
    fn of(caller: &Caller, access: Access, (org, id): (&str, &str)) -> PermissionCondition {
        PermissionCondition { caller: caller.clone(), access, org: org.to_owned(), id: id.to_owned() }
    }

    /// Returns the caller who has the permission.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the access that was allowed.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns organization and bare id of the target.
    #[must_use]
    pub fn target(&self) -> (&str, &str) {
        (&self.org, &self.id)
    }

    /// Decides again, with the facts of the locked target; `None` means that it does not exist, and cannot be created by another write.
    #[must_use]
    pub fn decide(&self, facts: Option<&Facts>) -> Decision {
        let target = Target { org: &self.org, id: Some(&self.id) };
        decide_with_facts(&self.caller, self.access, target, facts)
    }
}

impl<R: Right> Permission<R> {
    /// Decides as far as possible without looking at the target.
    ///
    /// # Errors
    /// Every [`Decision`] but [`Decision::Allow`].
    pub fn decide(caller: &Caller, target: Target<'_>) -> Result<Permission<R>, Decision> {
        match decide(caller, R::ACCESS, target) {
            Decision::Allow => Ok(Permission { condition: None, right: PhantomData }),
            refused => Err(refused),
        }
    }

    /// Decides with the facts of the target; `None` means that it does not exist. The permission depends on them: see
    /// [`Permission::condition`].
    ///
    /// # Errors
    /// Every [`Decision`] but [`Decision::Allow`].
    pub fn decide_with_facts(
        caller: &Caller,
        target: Target<'_>,
        facts: Option<&Facts>,
    ) -> Result<Permission<R>, Decision> {
        match decide_with_facts(caller, R::ACCESS, target, facts) {
            Decision::Allow => {
                let condition =
                    target.id.map(|id| PermissionCondition::of(caller, R::ACCESS, (target.org, id)));
                Ok(Permission { condition: condition.map(Arc::new), right: PhantomData })
            }
            refused => Err(refused),
        }
    }
}

impl<R> Permission<R> {
    /// Returns what a write has to decide again on the locked target; `None` if the permission does not depend on the target.
    #[must_use]
    pub fn condition(&self) -> Option<&Arc<PermissionCondition>> {
        self.condition.as_ref()
    }
}
