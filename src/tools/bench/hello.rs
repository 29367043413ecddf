//! The smallest web server that there is with the same libraries: what everything else is compared with.

use axum::Router;
use axum::routing::get;
use evenkeel_http_server::listen;
use evenkeel_runtime::process::block_on;
use evenkeel_runtime::{ExitStatus, Failure};

/// Responds to every request with two words, until the process is ended.
pub fn run() -> Result<(), Failure> {
    block_on(async {
        let listener =
            listen("127.0.0.1:0").await.map_err(|error| Failure::from_error(error.exit_status(), &error))?;
        let address =
            listener.local_addr().map_err(|error| Failure::from_error(ExitStatus::Address, &error))?;
        println!("address={address}");
        let response = || async { "Hello, World!" };
        let router = Router::new().route("/", get(response)).fallback(response);
        axum::serve(listener, router).await.map_err(|error| Failure::from_error(ExitStatus::Failure, &error))
    })
}
