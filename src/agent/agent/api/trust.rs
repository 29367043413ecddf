//! `/trust`: signing keys that this node trusts besides those in the exchange.

use std::path::PathBuf;

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::StatusCode,
    routing::get,
};
use evenkeel_domain::causes::chain;
use evenkeel_runtime::files::{FileError, create_private_directory};
use evenkeel_wire::agent::trust::{ListedKey, SubjectNames, TrustedKey, TrustedKeys};
use evenkeel_wire::signature::certificate_facts;
use serde::Deserialize;

use super::{Api, Refusal};
use crate::files;

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/trust", get(list))
        .route("/trust/{file}", get(show).put(add).delete(remove))
        .route("/publickey", get(list))
        .route("/publickey/{file}", get(show).put(add).delete(remove))
}

fn directory(api: &Api) -> PathBuf {
    api.settings.data_dir.join("userkeys")
}

/// File names are plain: nothing outside the directory can be named.
fn file_path(api: &Api, name: &str) -> Result<PathBuf, Refusal> {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_');
    if name.starts_with('.') || !name.ends_with(".pem") || !name.chars().all(is_plain) || name.len() > 200 {
        return Err(Refusal::Input(format!("\"{name}\" is not a usable name of a key file"), "file"));
    }
    Ok(directory(api).join(name))
}

/// The level of detail for each key.
#[derive(Debug, Deserialize)]
struct Detail {
    #[serde(default)]
    verbose: bool,
}

/// Lists the names of the keys; with `verbose`, the content of their certificates.
async fn list(State(api): State<Api>, Query(detail): Query<Detail>) -> Json<TrustedKeys<ListedKey>> {
    let mut names: Vec<String> = std::fs::read_dir(directory(&api))
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".pem"))
        .collect();
    names.sort();
    let listed = |name: String| {
        if !detail.verbose {
            return Some(ListedKey::Name(name));
        }
        // A key that was removed meanwhile is not listed.
        let pem = std::fs::read_to_string(directory(&api).join(&name)).ok()?;
        Some(ListedKey::Described(Box::new(described(name, pem))))
    };
    Json(TrustedKeys { pem: names.into_iter().filter_map(listed).collect() })
}

/// Describes a key in the form of the reference, whose clients need both names and both instants even for a key without a
/// certificate.
fn described(name: String, pem: String) -> TrustedKey {
    let facts = certificate_facts(&pem).unwrap_or_default();
    let instant = |secs: u64| {
        let instant = i64::try_from(secs).ok().and_then(|secs| jiff::Timestamp::from_second(secs).ok());
        instant.unwrap_or_default().to_string()
    };
    TrustedKey {
        id: name,
        kind: "KeyPairSimple".to_owned(),
        serial_number: facts.serial_number,
        subject_names: SubjectNames { common_name: facts.common_name, organization: facts.organization },
        have_private_key: false,
        not_valid_before: instant(facts.not_before_secs),
        not_valid_after: instant(facts.not_after_secs),
        public_key: pem,
    }
}

async fn show(State(api): State<Api>, Path(name): Path<String>) -> Result<String, Refusal> {
    let text = files::read_optional(&file_path(&api, &name)?);
    let text = text.map_err(|error| Refusal::Unavailable(chain(&error)))?;
    text.ok_or_else(|| Refusal::NotFound(format!("there is no key {name}")))
}

async fn add(State(api): State<Api>, Path(name): Path<String>, pem: String) -> Result<StatusCode, Refusal> {
    let path = file_path(&api, &name)?;
    if !pem.contains("-----BEGIN ") {
        return Err(Refusal::Input("the body is not PEM text".to_owned(), "body"));
    }
    let unavailable = |error: FileError| Refusal::Unavailable(chain(&error));
    create_private_directory(&directory(&api)).map_err(unavailable)?;
    files::write_atomic(&path, pem.as_bytes(), 0o600).map_err(unavailable)?;
    Ok(StatusCode::OK)
}

async fn remove(State(api): State<Api>, Path(name): Path<String>) -> Result<StatusCode, Refusal> {
    let path = file_path(&api, &name)?;
    if !path.exists() {
        return Err(Refusal::NotFound(format!("there is no key {name}")));
    }
    files::remove(&path).map_err(|error| Refusal::Unavailable(chain(&error)))?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn key_without_a_certificate_has_every_member_that_clients_read() {
        let shown = json!(described("k.pem".to_owned(), "-----BEGIN PUBLIC KEY-----\n".to_owned()));
        assert_eq!(shown["id"], "k.pem");
        assert_eq!(shown["subject_names"], json!({"commonName (CN)": "", "organizationName (O)": ""}));
        let instant = shown["not_valid_after"].as_str().expect("a text");
        assert!(instant.parse::<jiff::Timestamp>().is_ok(), "{instant}");
    }
}
