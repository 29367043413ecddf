//! Limits on the size of node records.
//!
//! Agbots keep the records of all nodes of an organization in memory, and all users who may create nodes share the
//! limit on the size of that list. Records that were stored before stay readable.

use serde::Serialize;
use serde_json::{Map, Value};

use super::node::{PatchNode, PutNode, RegisteredService};
use super::user_input::UserInputService;

/// Maximum length of names and other short texts, in bytes.
pub const MAX_TEXT: usize = 1_024;
/// Maximum length of a public key, in bytes.
pub const MAX_PUBLIC_KEY: usize = 16 * 1_024;
/// Maximum length of the versions of the agent's parts as JSON, in bytes.
pub const MAX_VERSIONS: usize = 16 * 1_024;
/// Maximum length of a list as JSON, in bytes.
pub const MAX_LIST: usize = 64 * 1_024;

/// A field of a node record that is too long.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: it has {length} bytes, and a node record may have {limit} there")]
pub struct FieldTooLong {
    field: &'static str,
    length: usize,
    limit: usize,
}

/// The short texts of a node record.
const TEXTS: [&str; 6] = ["name", "nodeType", "pattern", "msgEndPoint", "arch", "clusterNamespace"];

/// The fields of a node record whose kinds set no length; those that a request leaves out are empty.
struct RecordFields<'a> {
    /// In the order of [`TEXTS`].
    texts: [Option<&'a str>; TEXTS.len()],
    public_key: Option<&'a str>,
    software_versions: Option<&'a Map<String, Value>>,
    registered_services: Option<&'a [RegisteredService]>,
    user_input: Option<&'a [UserInputService]>,
}

impl RecordFields<'_> {
    fn check(&self) -> Result<(), FieldTooLong> {
        for (field, text) in TEXTS.into_iter().zip(self.texts) {
            check(field, text.map_or(0, str::len), MAX_TEXT)?;
        }
        check("publicKey", self.public_key.map_or(0, str::len), MAX_PUBLIC_KEY)?;
        check("softwareVersions", length(self.software_versions), MAX_VERSIONS)?;
        check("registeredServices", length(self.registered_services), MAX_LIST)?;
        check("userInput", length(self.user_input), MAX_LIST)
    }
}

fn check(field: &'static str, length: usize, limit: usize) -> Result<(), FieldTooLong> {
    if length > limit { Err(FieldTooLong { field, length, limit }) } else { Ok(()) }
}

/// Length as JSON, which is what is stored.
fn length(value: Option<impl Serialize>) -> usize {
    value.and_then(|value| serde_json::to_vec(&value).ok()).map_or(0, |json| json.len())
}

impl PutNode {
    /// Checks the lengths of what the record would hold.
    ///
    /// # Errors
    /// [`FieldTooLong`] for the first field that exceeds its limit.
    pub fn check_lengths(&self) -> Result<(), FieldTooLong> {
        RecordFields {
            texts: [
                Some(self.name.as_str()),
                self.node_type.as_deref(),
                self.pattern.as_deref(),
                self.msg_end_point.as_deref(),
                self.arch.as_deref(),
                self.cluster_namespace.as_deref(),
            ],
            public_key: self.public_key.as_deref(),
            software_versions: self.software_versions.as_ref(),
            registered_services: Some(self.registered_services.as_slice()),
            user_input: Some(self.user_input.as_slice()),
        }
        .check()
    }
}

impl PatchNode {
    /// Checks the length of the attribute that is changed.
    ///
    /// # Errors
    /// [`FieldTooLong`] when it exceeds its limit.
    pub fn check_lengths(&self) -> Result<(), FieldTooLong> {
        RecordFields {
            texts: [
                self.name.as_deref(),
                self.node_type.as_deref(),
                self.pattern.as_deref(),
                self.msg_end_point.as_deref(),
                self.arch.as_deref(),
                self.cluster_namespace.as_deref(),
            ],
            public_key: self.public_key.as_deref(),
            software_versions: self.software_versions.as_ref(),
            registered_services: self.registered_services.as_deref(),
            user_input: self.user_input.as_deref(),
        }
        .check()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn put(field: &str, value: Value) -> Result<(), String> {
        let mut body = json!({"name": "n"});
        body[field] = value;
        let read: PutNode = serde_json::from_value(body).unwrap();
        read.check_lengths().map_err(|error| error.to_string())
    }

    fn patch(field: &str, value: Value) -> Result<(), String> {
        let read: PatchNode = serde_json::from_value(json!({ field: value })).unwrap();
        read.check_lengths().map_err(|error| error.to_string())
    }

    #[test]
    fn each_field_that_is_too_long_is_refused_by_its_name() {
        let long = |length: usize| Value::String("x".repeat(length));
        let fields = [
            ("name", long(MAX_TEXT + 1)),
            ("nodeType", long(MAX_TEXT + 1)),
            ("pattern", long(MAX_TEXT + 1)),
            ("msgEndPoint", long(MAX_TEXT + 1)),
            ("arch", long(MAX_TEXT + 1)),
            ("clusterNamespace", long(MAX_TEXT + 1)),
            ("publicKey", long(MAX_PUBLIC_KEY + 1)),
            ("softwareVersions", json!({"horizon": long(MAX_VERSIONS)})),
            ("registeredServices", json!([{"url": "o/s", "policy": long(MAX_LIST)}])),
            ("userInput", json!([{"serviceOrgid": "o", "serviceUrl": long(MAX_LIST)}])),
        ];
        for (field, value) in fields {
            for refused in [put(field, value.clone()), patch(field, value)] {
                let refused = refused.unwrap_err();
                assert!(refused.starts_with(&format!("{field}: it has ")), "{refused}");
            }
        }
    }

    #[test]
    fn fields_up_to_their_limits_are_accepted() {
        for (field, length) in [("name", MAX_TEXT), ("arch", MAX_TEXT), ("publicKey", MAX_PUBLIC_KEY)] {
            let value = Value::String("x".repeat(length));
            assert_eq!(put(field, value.clone()), Ok(()));
            assert_eq!(patch(field, value), Ok(()));
        }
    }
}
