//! Values that are usual on nearly every node of a workload unit: there are a million rows of them.

use std::ops::{Deref, DerefMut};

/// A type with a value that is the usual one.
pub trait Usual: Clone + PartialEq + 'static {
    /// The usual value.
    const USUAL: &'static Self;
}

/// A value that takes no room while it is the usual one.
#[derive(Debug, Clone)]
pub struct Sparse<T>(Option<Box<T>>);

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Usual> From<T> for Sparse<T> {
    fn from(value: T) -> Self {
        Self((value != *T::USUAL).then(|| Box::new(value)))
    }
}

impl<T: Usual> Deref for Sparse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::USUAL)
    }
}

impl<T: Usual> DerefMut for Sparse<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_with(|| Box::new(T::USUAL.clone()))
    }
}

impl<T: Usual> PartialEq for Sparse<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
