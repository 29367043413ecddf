//! The capability to read the time, as a trait, so that nothing in the pure crates reads a clock by itself.
//!
//! The implementations (system clock, manual clock of the tests and the simulator) live outside this crate; see the
//! design, "Decisions".

/// Tells the present instant.
///
/// Pure functions take a `jiff::Timestamp` instead; this trait is for the outer layers that have to obtain one.
/// # Units
/// UTC, nanosecond resolution; implementations may be coarser.
pub trait Clock: Send + Sync {
    /// Returns the present instant.
    fn now(&self) -> jiff::Timestamp;
}
