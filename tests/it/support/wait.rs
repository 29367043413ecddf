//! Waiting for a condition, in bounded time.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Time for which a condition may take on a loaded machine before the test fails.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Longest pause between two checks.
const PAUSE: Duration = Duration::from_millis(200);

/// Polls until `check` returns `Some`; panics with `what` when that takes too long.
///
/// The longer it takes, the fewer checks: what the program under test waits for would wait for its own observers otherwise.
pub async fn eventually<T, F>(what: &str, mut check: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let begun = Instant::now();
    loop {
        if let Some(value) = check().await {
            return value;
        }
        let waited = begun.elapsed();
        assert!(waited < LIMIT, "waited {LIMIT:?} in vain: {what}");
        tokio::time::sleep((waited / 10).clamp(Duration::from_millis(10), PAUSE)).await;
    }
}

/// Unwraps with the error's whole chain.
pub fn must<T, E: Debug>(result: Result<T, E>, what: &str) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error:?}"))
}
