//! `evenkeel openapi`: prints the document of the API, generated from the same tables as the routers.

use evenkeel_api::document;
use evenkeel_exchange::openapi;
use evenkeel_runtime::{ExitStatus, Failure};

/// Prints the document as JSON.
pub fn run() -> Result<(), Failure> {
    let parts = [openapi::part(), evenkeel_agbot_api::part()];
    let text = document(&openapi::ABOUT, &parts).and_then(|document| document.to_pretty_json());
    let text = text.map_err(|error| Failure::from_error(ExitStatus::Failure, &error))?;
    println!("{text}");
    Ok(())
}
