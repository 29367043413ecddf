//! Settings that can be changed while the exchange runs, by the names that its administrators know.
//!
//! Source: exchange-api 4.1, 8.

use std::time::Duration;

use crate::{ApiError, ExchangeSettings};

/// Sets one value; the whole configuration comes back with a reload.
///
/// # Errors
/// 400 for a path that is not known or a value that is not a non-negative integer.
pub fn set(settings: &mut ExchangeSettings, path: &str, value: &str) -> Result<(), ApiError> {
    let number: i64 =
        value.trim().parse().ok().filter(|number| *number >= 0).ok_or_else(|| {
            ApiError::invalid_input(format!("value: '{value}' is not a non-negative integer"))
        })?;
    let limits = &mut settings.limits;
    match path {
        "api.limits.maxNodes" => limits.nodes = number,
        "api.limits.maxAgbots" => limits.agbots = number,
        "api.limits.maxServices" => limits.services = number,
        "api.limits.maxPatterns" => limits.patterns = number,
        "api.limits.maxBusinessPolicies" => limits.deployment_policies = number,
        "api.limits.maxManagementPolicies" => limits.management_policies = number,
        "api.limits.maxHaGroups" => limits.ha_groups = number,
        "api.limits.maxServedEntries" => limits.served_entries = number,
        "api.limits.maxAgreements" => {
            limits.node_agreements = number;
            limits.agbot_agreements = number;
        }
        "api.limits.maxMessagesInMailbox" => limits.messages = number,
        "api.resourceChanges.ttl" => settings.change_age = Duration::from_secs(number.unsigned_abs()),
        _ => {
            return Err(ApiError::invalid_input(format!(
                "varPath: '{path}' cannot be changed while the exchange runs"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_limits_change_and_everything_else_is_refused() {
        let mut settings = ExchangeSettings::default();
        set(&mut settings, "api.limits.maxAgreements", "7").expect("known");
        assert_eq!((settings.limits.node_agreements, settings.limits.agbot_agreements), (7, 7));
        for (path, value) in
            [("api.nothing", "1"), ("api.limits.maxNodes", "-1"), ("api.limits.maxNodes", "many")]
        {
            assert!(set(&mut settings, path, value).is_err(), "{path} {value}");
        }
    }
}
