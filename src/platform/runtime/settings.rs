//! Settings from option, environment, configuration file and default, in this order, under one name each.
//!
//! Options and environment are read by clap (`--data-dir`, `EVENKEEL_DATA_DIR`); this module puts the TOML file
//! (`data-dir = …`) underneath. A key that no role knows is an error.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::exit::{ExitStatus, Failure};

/// A value that is never printed by `Debug`, in an error or in a log.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value itself. Call this only to use the value, never to print it.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T: FromStr> FromStr for Secret<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

/// The configuration file cannot be used.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// It cannot be read.
    #[error("the configuration file {} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not TOML.
    #[error("the configuration file {} is not valid TOML: {}", path.display(), first_line(source))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The position and the error.
        source: Box<toml::de::Error>,
    },
    /// It has a key that no role knows.
    #[error("the configuration file {} has the unknown key `{key}`", path.display())]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
    },
    /// A value has the wrong type or form.
    #[error("the configuration file {} has a bad value for `{key}`: {}", path.display(), source.message())]
    BadValue {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The error.
        source: Box<toml::de::Error>,
    },
}

// The full text of a TOML error quotes the line, which may contain a secret.
fn first_line(error: &toml::de::Error) -> String {
    error.message().lines().next().unwrap_or_default().to_owned()
}

impl SettingsError {
    /// The status to end the process with.
    #[must_use]
    pub fn exit_status(&self) -> ExitStatus {
        ExitStatus::Usage
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Failure {
        Failure::from_error(error.exit_status(), &error)
    }
}

/// A configuration file, or an empty one.
#[derive(Debug, Default)]
pub struct SettingsFile {
    path: PathBuf,
    table: toml::Table,
}

impl SettingsFile {
    /// Reads `path`, or nothing when it is `None`.
    ///
    /// # Shape
    /// `known`: the keys of all roles, so that one file can be used for all of them and misspelled keys are still detected.
    /// # Errors
    /// When the file cannot be read, is not TOML, or has a key outside `known`.
    pub fn read(path: Option<&Path>, known: &[&[&str]]) -> Result<Self, SettingsError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let text = std::fs::read_to_string(path)
            .map_err(|source| SettingsError::Unreadable { path: path.to_owned(), source })?;
        let table: toml::Table = text
            .parse()
            .map_err(|source| SettingsError::Malformed { path: path.to_owned(), source: Box::new(source) })?;
        if let Some(key) = table.keys().find(|key| !known.iter().any(|keys| keys.contains(&key.as_str()))) {
            return Err(SettingsError::UnknownKey { path: path.to_owned(), key: key.clone() });
        }
        Ok(Self { path: path.to_owned(), table })
    }

    /// The value of `key`: `given` (from option or environment), else the file's.
    ///
    /// # Errors
    /// [`SettingsError::BadValue`] when the file's value is invalid.
    pub fn fill<T: DeserializeOwned>(&self, key: &str, given: Option<T>) -> Result<Option<T>, SettingsError> {
        let (None, Some(value)) = (&given, self.table.get(key)) else { return Ok(given) };
        value.clone().try_into().map(Some).map_err(|source| SettingsError::BadValue {
            path: self.path.clone(),
            key: key.to_owned(),
            source: Box::new(source),
        })
    }
}

/// Defines a group of settings: a clap argument group of optional values, their keys, and the layering over a file.
///
/// The key of a field in the file is its name with hyphens; its environment variable is given with the field.
#[macro_export]
macro_rules! settings {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field:ident : $type:ty = $key:literal, $variable:literal;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, clap::Args)]
        $visibility struct $name {
            $($(#[$field_meta])* #[arg(long = $key, env = $variable, hide_env_values = true)] $visibility $field: Option<$type>,)*
        }

        impl $name {
            /// The keys of this group in the configuration file.
            $visibility const KEYS: &'static [&'static str] = &[$($key),*];

            /// Fills in from `file` what neither option nor environment has set.
            ///
            /// # Errors
            /// When a value of the file is invalid.
            $visibility fn over(self, file: &$crate::settings::SettingsFile) -> Result<Self, $crate::settings::SettingsError> {
                Ok(Self { $($field: file.fill($key, self.$field)?,)* })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn option_wins_over_the_file() {
        let file = file("listen = \"from-file\"\n");
        let settings = SettingsFile::read(Some(file.path()), &[&["listen"]]).unwrap();
        assert_eq!(settings.fill("listen", Some("given".to_owned())).unwrap().as_deref(), Some("given"));
        assert_eq!(settings.fill::<String>("listen", None).unwrap().as_deref(), Some("from-file"));
        assert_eq!(settings.fill::<String>("absent", None).unwrap(), None);
    }

    #[test]
    fn unknown_key_is_an_error_that_names_it() {
        let file = file("listne = \"x\"\n");
        let error = SettingsFile::read(Some(file.path()), &[&["listen"]]).unwrap_err();
        assert!(error.to_string().ends_with("has the unknown key `listne`"), "{error}");
        assert_eq!(error.exit_status(), ExitStatus::Usage);
    }

    #[test]
    fn value_of_the_wrong_type_is_an_error_that_names_the_key() {
        let file = file("connections = \"many\"\n");
        let settings = SettingsFile::read(Some(file.path()), &[&["connections"]]).unwrap();
        let error = settings.fill::<u32>("connections", None).unwrap_err();
        assert!(error.to_string().contains("`connections`"), "{error}");
    }

    #[test]
    fn secret_is_printed_by_nothing() {
        let secret: Secret<String> = "hunter2".parse().unwrap();
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "Secret Some(Secret)");
        let malformed = file("database-url = \"hunter2\nx");
        let error = SettingsFile::read(Some(malformed.path()), &[&["database-url"]]).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
