//! `/trust`: signing keys that this node trusts besides those in the exchange.

use std::path::PathBuf;

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::get,
};
use serde_json::{Value, json};

use super::{Api, Refusal};
use crate::files;

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/trust", get(list))
        .route("/trust/{file}", get(show).put(add).delete(remove))
        .route("/publickey", get(list))
        .route("/publickey/{file}", get(show).put(add).delete(remove))
}

fn folder(api: &Api) -> PathBuf {
    api.settings.data_dir.join("userkeys")
}

/// File names are plain: nothing outside the folder can be named.
fn file_path(api: &Api, name: &str) -> Result<PathBuf, Refusal> {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_');
    if name.starts_with('.') || !name.ends_with(".pem") || !name.chars().all(is_plain) || name.len() > 200 {
        return Err(Refusal::Input(format!("\"{name}\" is no usable name of a key file"), "file"));
    }
    Ok(folder(api).join(name))
}

async fn list(State(api): State<Api>) -> Json<Value> {
    let mut names: Vec<String> = std::fs::read_dir(folder(&api))
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".pem"))
        .collect();
    names.sort();
    Json(json!({"pem": names}))
}

async fn show(State(api): State<Api>, Path(name): Path<String>) -> Result<String, Refusal> {
    let text = files::read_optional(&file_path(&api, &name)?);
    let text = text.map_err(|error| Refusal::Unavailable(error.to_string()))?;
    text.ok_or_else(|| Refusal::NotFound(format!("there is no key {name}")))
}

async fn add(State(api): State<Api>, Path(name): Path<String>, pem: String) -> Result<StatusCode, Refusal> {
    let path = file_path(&api, &name)?;
    if !pem.contains("-----BEGIN ") {
        return Err(Refusal::Input("the body is no PEM text".to_owned(), "body"));
    }
    let unavailable = |error: files::FileError| Refusal::Unavailable(error.to_string());
    files::make_private_folder(&folder(&api)).map_err(unavailable)?;
    files::write_atomic(&path, pem.as_bytes(), 0o600).map_err(unavailable)?;
    Ok(StatusCode::OK)
}

async fn remove(State(api): State<Api>, Path(name): Path<String>) -> Result<StatusCode, Refusal> {
    let path = file_path(&api, &name)?;
    if !path.exists() {
        return Err(Refusal::NotFound(format!("there is no key {name}")));
    }
    files::remove(&path).map_err(|error| Refusal::Unavailable(error.to_string()))?;
    Ok(StatusCode::NO_CONTENT)
}
