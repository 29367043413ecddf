//! `evenkeel openapi`: prints the document of the exchange's API, made from the same table as its router.

use evenkeel_exchange::{openapi, routes};
use evenkeel_runtime::{ExitStatus, Failure};

/// Prints the document as JSON.
pub fn run() -> Result<(), Failure> {
    let document = openapi::document(&routes::all());
    let text = document.to_pretty_json().map_err(|error| Failure::from_error(ExitStatus::Failure, &error))?;
    println!("{text}");
    Ok(())
}
