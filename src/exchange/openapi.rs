//! The API document, made from the same table as the router.

use std::collections::BTreeMap;

use http::Method;
use utoipa::openapi::path::{
    HttpMethod, Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathsBuilder,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, HeaderBuilder, InfoBuilder, OpenApi, OpenApiBuilder, PathItem, RefOr,
    Required, Response, ResponseBuilder,
};

use crate::endpoint::{Content, Endpoint};

const BASIC: &str = "basic";
/// Tokens of an identity provider, where the hub is configured for one.
const BEARER: &str = "bearer";

const TOO_MANY: u16 = 429;
/// Answers that an operation without credentials may give besides its own.
const WITHOUT_CREDENTIALS: &[u16] = &[TOO_MANY];

/// Answers that every operation may give.
const GENERAL: &[(u16, &str)] = &[
    (400, "the request is malformed: the text names the field and the rule"),
    (401, "no, wrong or unknown credentials"),
    (403, "known, but not allowed, or over a limit"),
    (404, "not there, or not visible to the caller"),
    (413, "the body is larger than accepted"),
    (415, "the body is not JSON"),
    (TOO_MANY, "too many requests of the caller or from its address, or too many failed logins from there"),
    (500, "the exchange failed"),
    (503, "busy or without its database: try again later"),
];

/// Builds the document of the given operations.
#[must_use]
pub fn document(endpoints: &[Endpoint]) -> OpenApi {
    let mut schemas: BTreeMap<String, RefOr<Schema>> = BTreeMap::new();
    schemas.insert("ApiResponse".to_owned(), api_response());
    let mut paths = PathsBuilder::new();
    for endpoint in endpoints {
        for (index, path) in endpoint.paths.iter().enumerate() {
            let operation = operation(endpoint, path, index, &mut schemas);
            paths = paths.path(format!("/v1{path}"), PathItem::new(http_method(&endpoint.method), operation));
        }
    }
    let mut components = ComponentsBuilder::new()
        .security_scheme(BASIC, SecurityScheme::Http(Http::new(HttpAuthScheme::Basic)))
        .security_scheme(BEARER, SecurityScheme::Http(bearer()));
    for (name, schema) in schemas {
        components = components.schema(name, schema);
    }
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Evenkeel exchange")
                .version(crate::API_VERSION)
                .description(Some(
                    "The record of organizations, nodes, services, policies, agreements and HA groups.",
                ))
                .build(),
        )
        .paths(paths.build())
        .components(Some(components.build()))
        .build()
}

fn operation(
    endpoint: &Endpoint,
    path: &str,
    index: usize,
    schemas: &mut BTreeMap<String, RefOr<Schema>>,
) -> Operation {
    let name = if index == 0 {
        endpoint.operation.to_owned()
    } else {
        format!("{}_alias_{index}", endpoint.operation)
    };
    let mut builder =
        OperationBuilder::new().operation_id(Some(name)).tag(endpoint.tag).summary(Some(endpoint.summary));
    for parameter in path_parameters(path).chain(endpoint.parameters.iter().cloned()) {
        builder = builder.parameter(parameter);
    }
    if !matches!(endpoint.request, Content::None) {
        let (media_type, schema) = media(&endpoint.request, schemas);
        builder = builder.request_body(Some(
            RequestBodyBuilder::new()
                .content(media_type, ContentBuilder::new().schema(Some(schema)).build())
                .required(Some(Required::True))
                .build(),
        ));
    }
    for answer in &endpoint.answers {
        let mut response = ResponseBuilder::new().description(answer.description);
        if !matches!(answer.content, Content::None) {
            let (media_type, schema) = media(&answer.content, schemas);
            let is_general =
                !endpoint.is_public && GENERAL.iter().any(|(status, _)| *status == answer.status);
            let schema = if is_general { or_api_response(schema) } else { schema };
            response = response.content(media_type, ContentBuilder::new().schema(Some(schema)).build());
        }
        builder = builder.response(answer.status.to_string(), response.build());
    }
    if !endpoint.is_public {
        builder = builder
            .security(SecurityRequirement::new::<_, _, String>(BASIC, []))
            .security(SecurityRequirement::new::<_, _, String>(BEARER, []));
    }
    for (status, description) in GENERAL {
        let is_possible = !endpoint.is_public || WITHOUT_CREDENTIALS.contains(status);
        if is_possible && endpoint.answers.iter().all(|answer| answer.status != *status) {
            builder = builder.response(status.to_string(), general_response(*status, description));
        }
    }
    builder.build()
}

fn general_response(status: u16, description: &str) -> Response {
    let schema = RefOr::Ref(utoipa::openapi::Ref::from_schema_name("ApiResponse"));
    let mut response = ResponseBuilder::new()
        .description(description)
        .content("application/json", ContentBuilder::new().schema(Some(schema)).build())
        .content("text/plain", ContentBuilder::new().schema(Some(text())).build());
    if status == TOO_MANY {
        let seconds = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Integer));
        let header =
            HeaderBuilder::new().schema(Some(seconds)).description(Some("Seconds after which to try again."));
        response = response.header("Retry-After", header.build());
    }
    response.build()
}

fn bearer() -> Http {
    let mut scheme = Http::new(HttpAuthScheme::Bearer);
    scheme.bearer_format = Some("JWT".to_owned());
    scheme.description =
        Some("Token of an identity provider, where the hub is configured for one.".to_owned());
    scheme
}

fn media(content: &Content, schemas: &mut BTreeMap<String, RefOr<Schema>>) -> (&'static str, RefOr<Schema>) {
    match content {
        Content::Json { schema, parts } => {
            schemas.extend(parts.iter().cloned());
            ("application/json", schema.as_ref().clone())
        }
        Content::Events => ("text/event-stream", text()),
        Content::Text | Content::None => ("text/plain", text()),
    }
}

/// A status with a body of its own may also come from a layer that knows only the general body.
fn or_api_response(schema: RefOr<Schema>) -> RefOr<Schema> {
    let general = utoipa::openapi::Ref::from_schema_name("ApiResponse");
    RefOr::T(Schema::AnyOf(AnyOfBuilder::new().item(schema).item(general).build()))
}

fn text() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::String)).into()
}

fn api_response() -> RefOr<Schema> {
    ObjectBuilder::new()
        .property("code", text())
        .property("msg", text())
        .required("code")
        .required("msg")
        .description(Some("Outcome of a request: a symbol for programs and a text for people."))
        .into()
}

fn path_parameters(path: &str) -> impl Iterator<Item = Parameter> {
    path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}')).map(|name| {
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .schema(Some(text()))
            .build()
    })
}

fn http_method(method: &Method) -> HttpMethod {
    match *method {
        Method::POST => HttpMethod::Post,
        Method::PUT => HttpMethod::Put,
        Method::PATCH => HttpMethod::Patch,
        Method::DELETE => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}
