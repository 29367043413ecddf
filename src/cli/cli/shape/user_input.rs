//! Values for the variables of services, in both forms of the existing tool.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::exit::{CliError, Exit, Outcome};
use crate::input::{read_json, shaped};
use crate::text_file::shown;

/// Values for one service.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct UserInputFile {
    service_orgid: String,
    service_url: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    service_arch: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    service_version_range: String,
    inputs: Vec<InputFile>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, expecting = "an object")]
struct InputFile {
    name: String,
    value: Value,
}

/// The former form.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, expecting = "a list of user input, or an object with services")]
struct FormerFile {
    global: Vec<Value>,
    services: Vec<FormerService>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct FormerService {
    org: String,
    url: String,
    arch: String,
    version_range: String,
    variables: Map<String, Value>,
}

/// Reads user input: a list, an object around a list, or the former form with `services` and their `variables`. Returns the list.
///
/// # Errors
/// See [`crate::input::read_shape`].
pub fn read_user_input(path: &Path, context: &Context) -> Outcome<Value> {
    let document = read_json(path, context)?;
    let name = shown(path);
    let around = document.as_object().and_then(|members| {
        members.iter().find(|(name, _)| name.eq_ignore_ascii_case("userInput")).map(|(_, list)| list)
    });
    if document.is_array() || around.is_some() {
        let list = around.unwrap_or(&document);
        return shaped::<Vec<UserInputFile>>(&name, list, context).map(|shaped| shaped.document);
    }
    let is_former = document.as_object().is_some_and(|members| {
        members.keys().any(|name| ["services", "global"].iter().any(|known| name.eq_ignore_ascii_case(known)))
    });
    if !is_former {
        return Err(CliError::new(
            Exit::Json,
            format!("the content of {name} cannot be used"),
            "it is neither a list of user input nor an object with services",
            "`hzn userinput new` prints a template",
        ));
    }
    let former = shaped::<FormerFile>(&name, &document, context)?.document;
    let services = former["services"].as_array().cloned().unwrap_or_default();
    Ok(services.iter().map(converted).collect())
}

fn converted(service: &Value) -> Value {
    let variables = service["variables"].as_object().cloned().unwrap_or_default();
    let inputs: Vec<Value> =
        variables.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    json!({
        "serviceOrgid": service["org"],
        "serviceUrl": service["url"],
        "serviceArch": service["arch"],
        "serviceVersionRange": service["versionRange"],
        "inputs": inputs,
    })
}
