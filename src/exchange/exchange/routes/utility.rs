//! Routes without credentials: version, liveness test, API document.
//!
//! Source: exchange-api 1.5.

use axum::Json;
use axum::response::{Html, IntoResponse, Response};
use bytes::Bytes;
use evenkeel_api::{Documented, Text};
use evenkeel_wire::exchange::utility::TestResponse;
use http::header;
use serde_json::Value;

use crate::operation::document::ServedDocument;
use crate::operation::row::get_public;
use crate::operation::{Content, Operation};
use crate::{API_VERSION, ApiError};

const TAG: &str = "administration";
const YAML: &str = "text/vnd.yaml";

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    vec![
        get_public("/admin/version", "get_version", get_version)
            .doc(TAG, "Returns the version of the API")
            .success("the version and a line feed"),
        get_public("/test", "test", test)
            .doc(TAG, "Returns 200 while the exchange runs")
            .success("it is there"),
        get_public("/swagger", "get_documentation_page", get_documentation_page)
            .doc(TAG, "Redirects to the browsable API document")
            .success("a page"),
        get_public("/api-docs/swagger.json", "get_document", get_document)
            .doc(TAG, "Returns the API document")
            .success("the document as JSON"),
        get_public("/api-docs/swagger.yaml", "get_document_as_yaml", get_document_as_yaml)
            .doc(TAG, "Returns the API document for readers of YAML")
            .success("the document: JSON, which every YAML 1.2 parser accepts"),
    ]
}

fn get_version(_: &ServedDocument) -> Text {
    Text(format!("{API_VERSION}\n"))
}

fn test(_: &ServedDocument) -> Json<TestResponse> {
    Json(TestResponse { result: "OK".to_owned() })
}

fn get_documentation_page(_: &ServedDocument) -> Html<&'static str> {
    Html(
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=/docs/\"><a href=\"/docs/\">API document</a>",
    )
}

fn get_document(document: &ServedDocument) -> Result<JsonDocument, ApiError> {
    Ok(JsonDocument(document.text()?))
}

fn get_document_as_yaml(document: &ServedDocument) -> Result<YamlDocument, ApiError> {
    Ok(YamlDocument(document.text()?))
}

/// The API document as JSON.
struct JsonDocument(Bytes);

impl IntoResponse for JsonDocument {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}

impl Documented for JsonDocument {
    fn responses() -> Vec<(u16, Content)> {
        vec![(200, Content::json::<Value>())]
    }
}

/// The API document for readers of YAML, which also read JSON.
struct YamlDocument(Bytes);

impl IntoResponse for YamlDocument {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, format!("{YAML}; charset=utf-8"))], self.0).into_response()
    }
}

impl Documented for YamlDocument {
    fn responses() -> Vec<(u16, Content)> {
        vec![(200, Content::Text(YAML))]
    }
}
