//! The `[oidc]` table of the configuration file: logins by an OpenID Connect provider. Without it there are none.

use evenkeel_exchange::OidcSettings;
use evenkeel_runtime::settings::{SettingsError, SettingsFile};

/// Key of the table, which has no option and no variable, because they cannot express lists of roles.
pub const KEYS: &[&str] = &["oidc"];

/// Reads the table, if the file has one.
pub fn read(file: &SettingsFile) -> Result<Option<OidcSettings>, SettingsError> {
    file.fill(KEYS[0], None)
}
