//! Service definitions.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::Ignored;
use crate::exit::{CliError, Exit, Outcome};

/// A service.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct ServiceFile {
    /// Taken out before it is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    org: Option<String>,
    label: String,
    description: String,
    public: bool,
    documentation: String,
    url: String,
    version: String,
    arch: String,
    sharable: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    match_hardware: Option<Value>,
    required_services: Vec<RequiredServiceFile>,
    user_input: Vec<VariableFile>,
    /// An object or a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    deployment: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deployment_signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_deployment: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_deployment_signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image_store: Option<Value>,
    #[serde(skip_serializing)]
    owner: Ignored,
    #[serde(skip_serializing)]
    organization: Ignored,
    #[serde(skip_serializing)]
    last_updated: Ignored,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct RequiredServiceFile {
    url: String,
    org: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    version_range: String,
    arch: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct VariableFile {
    name: String,
    label: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(deserialize_with = "scalar")]
    default_value: String,
}

/// Reads a text, or a number or truth value in its notation: users write such defaults without quotes.
fn scalar<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    match Value::deserialize(input)? {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text),
        value @ (Value::Number(_) | Value::Bool(_)) => Ok(value.to_string()),
        Value::Array(_) | Value::Object(_) => Err(D::Error::custom("invalid type: expected a text")),
    }
}

/// Removes the organization from a service, and adds the members that the exchange requires.
///
/// # Errors
/// With status 1 for a service of another organization, or without url, version or architecture.
pub fn complete_service(document: &mut Value, org: &str) -> Outcome {
    let refuse = |why: String| {
        let advice = "correct the file; `hzn exchange service new` prints a template";
        CliError::new(Exit::Input, "the service cannot be published", why, advice)
    };
    let Some(members) = document.as_object_mut() else { return Ok(()) };
    let named = members.shift_remove("org");
    let named = named.as_ref().and_then(Value::as_str).filter(|named| !named.is_empty() && *named != org);
    if let Some(named) = named {
        return Err(refuse(format!("the file is for organization {named}, the command for {org}")));
    }
    let is_blank = |name: &str| members.get(name).and_then(Value::as_str).is_none_or(str::is_empty);
    if let Some(missing) = ["url", "version", "arch"].into_iter().find(|name| is_blank(name)) {
        return Err(refuse(format!("{missing} is missing")));
    }
    if is_blank("sharable") {
        members.insert("sharable".to_owned(), Value::from("multiple"));
    }
    Ok(())
}
