//! The `[oidc]` table of the configuration file: logins by an OpenID Connect provider. Without it there are none.

use evenkeel_exchange::OidcSettings;
use evenkeel_runtime::settings::{SettingsError, SettingsFile};

/// The table's key; it has no option and no variable, because lists of roles do not fit there.
pub const KEYS: &[&str] = &["oidc"];

/// Reads the table, if the file has one.
pub fn read(file: &SettingsFile) -> Result<Option<OidcSettings>, SettingsError> {
    file.fill(KEYS[0], None)
}
