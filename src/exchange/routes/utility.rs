//! Routes without credentials: version, liveness test, API document.
//!
//! Source: exchange contract 1.5.

use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json};
use evenkeel_wire::exchange::utility::TestAnswer;
use http::header;
use serde_json::Value;

use crate::openapi::Served;
use crate::operation::row::get_public;
use crate::operation::{Content, Operation};
use crate::{API_VERSION, ApiError};

const TAG: &str = "administration";
const YAML: &str = "text/vnd.yaml";

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    vec![
        get_public("/admin/version", "get_version", get(get_version))
            .doc(TAG, "Answers the version of the API")
            .answer_with(200, "the version and a line feed", Content::TEXT),
        get_public("/test", "test", get(test))
            .doc(TAG, "Answers that the exchange is there")
            .answer::<TestAnswer>(200, "it is there"),
        get_public("/swagger", "get_documentation_page", get(get_documentation_page))
            .doc(TAG, "Leads to the browsable API document")
            .answer_with(200, "a page", Content::Text("text/html")),
        get_public("/api-docs/swagger.json", "get_document", get(get_document))
            .doc(TAG, "Answers the API document")
            .answer::<Value>(200, "the document as JSON"),
        get_public("/api-docs/swagger.yaml", "get_document_as_yaml", get(get_document_as_yaml))
            .doc(TAG, "Answers the API document for readers of YAML")
            .answer_with(
                200,
                "the document: JSON, which every reader of YAML 1.2 takes",
                Content::Text(YAML),
            ),
    ]
}

async fn get_version() -> Response {
    format!("{API_VERSION}\n").into_response()
}

async fn test() -> Json<TestAnswer> {
    Json(TestAnswer { result: "OK".to_owned() })
}

async fn get_documentation_page() -> Html<&'static str> {
    Html(
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=/docs/\"><a href=\"/docs/\">API document</a>",
    )
}

async fn get_document(Extension(served): Extension<Served>) -> Result<Response, ApiError> {
    Ok(([(header::CONTENT_TYPE, "application/json")], served.text()?).into_response())
}

async fn get_document_as_yaml(Extension(served): Extension<Served>) -> Result<Response, ApiError> {
    Ok(([(header::CONTENT_TYPE, format!("{YAML}; charset=utf-8"))], served.text()?).into_response())
}
