//! Responses that many operations may give, described once.

use http::Method;
use serde_json::{Value, json};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ContentBuilder, ObjectBuilder, Ref, RefOr, Response, ResponseBuilder, Schema};

use crate::content::{Content, text};
use crate::endpoint::Operation;

/// Name of the schema of most responses that carry no resource.
pub(crate) const API_RESPONSE: &str = "ApiResponse";

/// A response that a layer gives before or around the handlers.
pub(crate) struct General {
    /// HTTP status.
    pub status: u16,
    /// Name among the document's responses.
    pub name: &'static str,
    description: &'static str,
    code: &'static str,
    message: &'static str,
    applies: fn(&Operation) -> bool,
}

/// The responses, by status.
pub(crate) const GENERAL: &[General] = &[
    General {
        status: 400,
        name: "Malformed",
        description: "the request is malformed: the text names the field and the rule",
        code: "invalid-input",
        message: "the request body is not valid: missing field `label` at line 1 column 2",
        applies: |operation| !operation.is_public(),
    },
    General {
        status: 401,
        name: "Unauthenticated",
        description: "missing, wrong or unknown credentials",
        code: "invalid-credentials",
        message: "invalid.credentials",
        applies: |operation| !operation.is_public(),
    },
    General {
        status: 403,
        name: "Forbidden",
        description: "authenticated, but not allowed, or over a limit",
        code: "access-denied",
        message: "Access denied: 'acme/erin' does not have authorization: READ user=acme/anna",
        applies: |operation| !operation.is_public(),
    },
    General {
        status: 404,
        name: "Absent",
        description: "not there, or not visible to the caller",
        code: "not-found",
        message: "not found",
        applies: |operation| !operation.is_public(),
    },
    General {
        status: 406,
        name: "NotAcceptable",
        description: "the caller does not accept JSON",
        code: "not-acceptable",
        message: "Resource representation is only available with these types:\napplication/json",
        applies: |operation| operation.method != Method::DELETE,
    },
    General {
        status: 413,
        name: "TooLarge",
        description: "the body is larger than accepted, 1 MiB unless configured otherwise",
        code: "invalid-input",
        message: "the request body is larger than this exchange accepts",
        applies: |operation| !operation.request.is_none(),
    },
    General {
        status: 415,
        name: "NotJson",
        description: "the body is not JSON",
        code: "invalid-input",
        message: "The request's Content-Type is not supported. Expected:\napplication/json",
        applies: |operation| matches!(operation.request, Content::Json(_)),
    },
    General {
        status: 429,
        name: "TooMany",
        description: "too many requests of the caller or from its address, too many failed logins from there, or a full mailbox",
        code: "too busy",
        message: "too many logins at once, try again",
        applies: |_| true,
    },
    General {
        status: 500,
        name: "Failed",
        description: "internal error; see the server log",
        code: "internal_error",
        message: "internal error; see the server log",
        applies: |operation| !operation.is_public(),
    },
    General {
        status: 503,
        name: "Unavailable",
        description: "busy or without its database: try again later",
        code: "database-connection-error",
        message: "the exchange is busy, try again later",
        applies: |operation| !operation.is_public(),
    },
];

impl General {
    /// Returns true if an operation may return this response.
    pub fn applies_to(&self, operation: &Operation) -> bool {
        (self.applies)(operation)
    }

    /// The response for the document: JSON, or plain text from the layers that know only HTTP.
    pub fn response(&self) -> Response {
        let schema = RefOr::Ref(Ref::from_schema_name(API_RESPONSE));
        let body = json!({"code": self.code, "msg": self.message});
        let json = ContentBuilder::new().schema(Some(schema)).example(Some(body)).build();
        let plain =
            ContentBuilder::new().schema(Some(text())).example(Some(Value::from(self.message))).build();
        let response = ResponseBuilder::new()
            .description(self.description)
            .content("application/json", json)
            .content("text/plain", plain);
        if self.status == 429 {
            response.header("Retry-After", retry_after()).build()
        } else {
            response.build()
        }
    }
}

fn retry_after() -> utoipa::openapi::header::Header {
    let seconds: RefOr<Schema> = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).into();
    HeaderBuilder::new().schema(Some(seconds)).description(Some("Seconds after which to try again.")).build()
}

/// Schema of most responses that carry no resource.
pub(crate) fn api_response() -> RefOr<Schema> {
    ObjectBuilder::new()
        .property("code", text())
        .property("msg", text())
        .required("code")
        .required("msg")
        .description(Some("Outcome of a request: a machine-readable code and a human-readable message."))
        .into()
}
