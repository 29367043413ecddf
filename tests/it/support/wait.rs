//! Waiting for a condition, in bounded time.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Time for which a condition may take on a loaded machine before the test fails.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Polls until `check` returns `Some`; panics with `what` when that takes too long.
pub async fn eventually<T, F>(what: &str, mut check: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {LIMIT:?} in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Unwraps with the error's whole chain.
pub fn must<T, E: Debug>(result: Result<T, E>, what: &str) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error:?}"))
}
