//! The API document, made from the same rows as the routers.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use utoipa::openapi::path::{
    HttpMethod, Operation as DocumentedOperation, OperationBuilder, ParameterBuilder, PathsBuilder,
};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, ComponentsBuilder, ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder,
    PathItem, Ref, RefOr, Required, Response, ResponseBuilder, Schema,
};

use crate::content::Content;
use crate::endpoint::{DocumentedResponse, Operation};
use crate::examples::Examples;
use crate::general::{API_RESPONSE, GENERAL, api_response};
use crate::parameter;

const BASIC: &str = "basic";
/// Tokens of an identity provider, where the hub is configured for one.
const BEARER: &str = "bearer";

/// Description of the whole API, for its document.
pub struct About {
    /// Name.
    pub title: &'static str,
    /// Purpose of the API.
    pub description: &'static str,
    /// Version of the API.
    pub version: &'static str,
}

/// A part of the API: what one role serves.
pub struct Part {
    /// Its operations.
    pub operations: Vec<Operation>,
    /// JSON objects with an example under the name of each schema.
    pub examples: &'static [&'static str],
}

/// Builds the document of an API from its parts.
///
/// # Errors
/// Examples that are no JSON object.
pub fn document(about: &About, parts: &[Part]) -> Result<OpenApi, serde_json::Error> {
    let texts: Vec<&str> = parts.iter().flat_map(|part| part.examples).copied().collect();
    let examples = Examples::parse(&texts)?;
    let operations: Vec<&Operation> = parts.iter().flat_map(|part| &part.operations).collect();
    let writer = Writer { examples: &examples };
    let mut paths = PathsBuilder::new();
    for operation in &operations {
        for (index, path) in operation.whole_paths().enumerate() {
            let documented = writer.operation(operation, &path, index);
            paths = paths.path(path, PathItem::new(http_method(&operation.method), documented));
        }
    }
    let document = OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title(about.title)
                .version(about.version)
                .description(Some(about.description))
                .license(Some(
                    LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build(),
                ))
                .build(),
        )
        .paths(paths.build())
        .components(Some(components(&operations)))
        .build();
    Ok(document)
}

/// Schemas, general responses and kinds of credentials.
fn components(operations: &[&Operation]) -> Components {
    let mut schemas: BTreeMap<String, RefOr<Schema>> = BTreeMap::new();
    schemas.insert(API_RESPONSE.to_owned(), api_response());
    let mut general: BTreeSet<&str> = BTreeSet::new();
    for operation in operations {
        let bodies = operation.responses.iter().map(|response| &response.content).chain([&operation.request]);
        for content in bodies {
            if let Content::Json(json) = content {
                schemas.extend(json.parts.iter().cloned());
            }
        }
        general.extend(GENERAL.iter().filter(|one| one.applies_to(operation)).map(|one| one.name));
    }
    let mut components = ComponentsBuilder::new()
        .security_scheme(BASIC, SecurityScheme::Http(Http::new(HttpAuthScheme::Basic)))
        .security_scheme(BEARER, SecurityScheme::Http(bearer()));
    for (name, mut schema) in schemas {
        drop_headings(&mut schema);
        components = components.schema(name, schema);
    }
    for one in GENERAL.iter().filter(|one| general.contains(one.name)) {
        components = components.response(one.name, one.response());
    }
    components.build()
}

/// Drops the headings of a doc comment, and what is for readers of the code only, from the description of a schema.
fn drop_headings(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else { return };
    let description = match schema {
        Schema::Object(schema) => &mut schema.description,
        Schema::Array(schema) => &mut schema.description,
        Schema::OneOf(schema) => &mut schema.description,
        Schema::AllOf(schema) => &mut schema.description,
        Schema::AnyOf(schema) => &mut schema.description,
        _ => return,
    };
    if let Some(text) = description {
        *text = without_headings(text);
    }
}

fn without_headings(text: &str) -> String {
    let mut parts = text.split("\n\n# ");
    let first = parts.next().unwrap_or_default().to_owned();
    let sections = parts.filter_map(|section| section.split_once('\n'));
    let shown = sections.filter(|(heading, _)| *heading != "Source");
    shown.fold(first, |all, (_, section)| format!("{all}\n\n{section}"))
}

struct Writer<'a> {
    examples: &'a Examples,
}

impl Writer<'_> {
    fn operation(&self, operation: &Operation, path: &str, index: usize) -> DocumentedOperation {
        let name = match index {
            0 => operation.operation.to_owned(),
            alias => format!("{}_alias_{alias}", operation.operation),
        };
        let mut builder = OperationBuilder::new()
            .operation_id(Some(name))
            .tag(operation.tag)
            .summary(Some(operation.summary));
        for parameter in parameter::of_path(path).chain(operation.parameters.iter().cloned()) {
            builder = builder.parameter(ParameterBuilder::from(parameter));
        }
        if let Some(body) = self.request(&operation.request) {
            builder = builder.request_body(Some(body));
        }
        for documented in &operation.responses {
            let response = self.response(operation, documented);
            builder = builder.response(documented.status.to_string(), response);
        }
        for general in GENERAL.iter().filter(|general| general.applies_to(operation)) {
            if operation.responses.iter().all(|response| response.status != general.status) {
                let reference = Ref::from_response_name(general.name);
                builder = builder.response(general.status.to_string(), RefOr::Ref(reference));
            }
        }
        if operation.is_public() {
            builder = builder.securities(Some(Vec::<SecurityRequirement>::new()));
        } else {
            builder = builder
                .security(SecurityRequirement::new::<_, _, String>(BASIC, []))
                .security(SecurityRequirement::new::<_, _, String>(BEARER, []));
        }
        builder.build()
    }

    fn request(&self, content: &Content) -> Option<RequestBody> {
        let (media_type, schema) = content.media()?;
        let media = self.examples.media(content, ContentBuilder::new().schema(Some(schema)));
        let body = RequestBodyBuilder::new().content(media_type, media);
        // A text may be empty, and then is not there for who reads the request.
        let is_required = matches!(content, Content::Json(_)) && !content.is_optional();
        Some(body.required(Some(if is_required { Required::True } else { Required::False })).build())
    }

    fn response(&self, operation: &Operation, documented: &DocumentedResponse) -> Response {
        let response = ResponseBuilder::new().description(documented.description);
        let Some((media_type, schema)) = documented.content.media() else { return response.build() };
        let general = GENERAL.iter().find(|one| one.status == documented.status && one.applies_to(operation));
        let is_json = matches!(documented.content, Content::Json(_));
        // A status with a body of its own may also come from a layer that knows only the general body.
        let schema = if general.is_some() && is_json { or_api_response(schema) } else { schema };
        let media = self.examples.media(&documented.content, ContentBuilder::new().schema(Some(schema)));
        let response = response.content(media_type, media);
        match general.map(|general| general.response().content) {
            Some(content) => content
                .into_iter()
                .filter(|(other, _)| other != media_type)
                .fold(response, |response, (other, body)| match body {
                    RefOr::T(body) => response.content(other, body),
                    RefOr::Ref(body) => response.content_ref(other, body),
                })
                .build(),
            None => response.build(),
        }
    }
}

fn or_api_response(schema: RefOr<Schema>) -> RefOr<Schema> {
    let general = Ref::from_schema_name(API_RESPONSE);
    RefOr::T(Schema::AnyOf(AnyOfBuilder::new().item(schema).item(general).build()))
}

fn bearer() -> Http {
    let mut scheme = Http::new(HttpAuthScheme::Bearer);
    scheme.bearer_format = Some("JWT".to_owned());
    scheme.description =
        Some("Token of an identity provider, where the hub is configured for one.".to_owned());
    scheme
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_have_no_headings_and_no_source() {
        let text = "Times to wait.\n\n# Units\nSeconds.\n\n# Source\nOrchestration 1.2.";
        assert_eq!(without_headings(text), "Times to wait.\n\nSeconds.");
        assert_eq!(without_headings("One.\n\nTwo."), "One.\n\nTwo.");
    }
}
