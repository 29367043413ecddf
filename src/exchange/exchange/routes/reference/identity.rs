//! Names and secrets that are new, under the rule of the exchange.

use evenkeel_domain::review::{Finding, identity};

use crate::settings::WeakIdentities;
use crate::{ApiError, Exchange};

/// Refuses a new name that can hardly be typed or read again, when that is set; the reference takes every one.
///
/// # Errors
/// 400 naming the field and the rule.
pub fn check_new_name(exchange: &Exchange, field: &str, name: &str) -> Result<(), ApiError> {
    check(exchange, || identity::name(field, name))
}

/// Refuses a new secret that protects nothing, when that is set; the reference takes every one that is not empty.
///
/// # Errors
/// 400 naming the field and the rule.
pub fn check_new_secret(exchange: &Exchange, field: &str, secret: Option<&str>) -> Result<(), ApiError> {
    secret.map_or(Ok(()), |secret| check(exchange, || identity::secret(field, secret)))
}

fn check(exchange: &Exchange, find: impl FnOnce() -> Vec<Finding>) -> Result<(), ApiError> {
    if exchange.settings().weak_identities == WeakIdentities::Accept {
        return Ok(());
    }
    let error = find().into_iter().find(Finding::is_error);
    error.map_or(Ok(()), |error| Err(ApiError::invalid_input(error.to_string())))
}
