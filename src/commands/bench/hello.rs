//! The smallest web server that there is with the same libraries: what everything else is compared with.

use axum::Router;
use axum::routing::get;
use evenkeel_runtime::{ExitStatus, Failure};

/// Answers every request with two words, until the process is ended.
pub fn run() -> Result<(), Failure> {
    crate::commands::block_on(async {
        let (listener, address) = crate::commands::serve::listen("127.0.0.1:0").await?;
        println!("address={address}");
        let answer = || async { "Hello, World!" };
        let router = Router::new().route("/", get(answer)).fallback(answer);
        axum::serve(listener, router).await.map_err(|error| Failure::from_error(ExitStatus::Failure, &error))
    })
}
