//! Parameters in paths and headers: what they mean, which values they take.

use serde_json::{Value, json};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Required, Schema};

/// Longest id in bytes: longer ones cannot be keys.
pub const MAX_ID: usize = 1024;

/// A parameter in a path segment.
struct Segment {
    name: &'static str,
    description: &'static str,
    example: &'static str,
}

const fn segment(name: &'static str, description: &'static str, example: &'static str) -> Segment {
    Segment { name, description, example }
}

const SEGMENTS: &[Segment] = &[
    segment("organization", "Organization.", "acme"),
    segment("username", "User, without its organization.", "erin"),
    segment("keyid", "Id of an API key.", "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"),
    segment("node", "Node, without its organization.", "edge-1"),
    segment("agreement", "Id of an agreement.", "9f1c2d3e4b5a"),
    segment("msgid", "Number of a message.", "17"),
    segment("task", "Id of a task.", "5b0e6a7c"),
    segment("command", "Id of a command.", "7f3e9a12"),
    segment("managementpolicy", "Management policy, without its organization.", "agents-2"),
    segment("nmp", "Management policy, without its organization.", "agents-2"),
    segment("agreementbot", "Agbot, without its organization.", "bot"),
    segment("entry", "Entry `organization_name_organization of the nodes`.", "acme_camera_acme"),
    segment("agbotorganization", "Organization of an agbot.", "acme"),
    segment("approval", "Id of the request for an approval.", "01932f0e-7a5b-7cc3-98c4-dc0c0c07398f"),
    segment("view", "Name of a saved view.", "north"),
    segment("matter", "Id of a problem, as the overview shows it.", "5f0c2b7e9a1d4e63"),
    segment("servedkind", "Kind of the entry: `pattern` or `deploymentPolicy`.", "deploymentPolicy"),
    segment("hagroup", "High availability group, without its organization.", "gate"),
    segment("service", "Service: its url, version and architecture.", "camera_1.0.0_amd64"),
    segment("dockauth", "Number of credentials for a registry.", "3"),
    segment("pattern", "Pattern, without its organization.", "camera"),
    segment("policy", "Policy, without its organization.", "camera"),
    segment(
        "action",
        "Action to take, such as `pause`, `resume` or `rollback`; in a read the id of an action.",
        "pause",
    ),
    segment("unit", "Workload unit: the name of its HA group, or `all`.", "all"),
    segment("key", "Name of a public key.", "signing.pem"),
    segment("revision", "Number of a revision.", "7"),
];

/// The parameters of a path with segments in braces.
pub(crate) fn of_path(path: &str) -> impl Iterator<Item = Parameter> {
    path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}')).map(of_segment)
}

fn of_segment(name: &str) -> Parameter {
    let builder = ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(schema(name)));
    match SEGMENTS.iter().find(|segment| segment.name == name) {
        Some(found) => builder.description(Some(found.description)).example(Some(example(found))).build(),
        None => builder.build(),
    }
}

fn is_number(name: &str) -> bool {
    matches!(name, "msgid" | "dockauth" | "revision")
}

fn example(segment: &Segment) -> Value {
    match segment.example.parse::<i64>() {
        Ok(number) if is_number(segment.name) => json!(number),
        _ => json!(segment.example),
    }
}

fn schema(name: &str) -> RefOr<Schema> {
    let object = ObjectBuilder::new();
    match name {
        name if is_number(name) => object
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .into(),
        "keyid" => {
            object.schema_type(Type::String).format(Some(SchemaFormat::Custom("uuid".to_owned()))).into()
        }
        _ => object.schema_type(Type::String).min_length(Some(1)).max_length(Some(MAX_ID)).into(),
    }
}

/// An optional header.
pub(crate) fn header(name: &str, description: &str, example: &str) -> Parameter {
    let text: RefOr<Schema> = ObjectBuilder::new().schema_type(Type::String).into();
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(text))
        .example(Some(json!(example)))
        .build()
}
