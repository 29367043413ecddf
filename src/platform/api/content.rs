//! The body of a request or a response.

use serde::de::DeserializeOwned;
use utoipa::ToSchema;
use utoipa::openapi::schema::{AnyOf, Array, Type};
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Schema};

/// A schema with everything it refers to.
pub(crate) type NamedSchemas = Vec<(String, RefOr<Schema>)>;

/// Parses a JSON text as the input type of a handler, or returns the reason why it does not match.
type Check = fn(&str) -> Result<(), String>;

/// The body of a request or a response.
#[derive(Clone)]
pub enum Content {
    /// No body.
    None,
    /// JSON of named schemas.
    Json(Json),
    /// Text, by its media type.
    Text(&'static str),
}

/// A body that is JSON.
#[derive(Clone)]
pub struct Json {
    /// Reference or inline schema.
    pub(crate) schema: Box<RefOr<Schema>>,
    /// Schemas it refers to.
    pub(crate) parts: NamedSchemas,
    /// The named schemas that it may have: each stands for one example.
    pub(crate) kinds: Vec<Kind>,
    check: Option<Check>,
    /// True if the body may be missing.
    pub(crate) is_optional: bool,
}

/// One of the schemas that a body may have.
#[derive(Clone)]
pub(crate) struct Kind {
    /// Name of the schema.
    pub name: String,
    /// The body is a list of it.
    pub is_list: bool,
}

impl Content {
    /// Plain text.
    pub const TEXT: Content = Content::Text("text/plain");

    /// JSON of a type.
    #[must_use]
    pub fn json<T: ToSchema>() -> Content {
        Content::Json(Json::of::<T>())
    }

    /// A JSON list of a type.
    #[must_use]
    pub fn list<T: ToSchema>() -> Content {
        Content::Json(Json::list_of::<T>())
    }

    /// JSON that a handler reads as a type.
    #[must_use]
    pub fn read<T: ToSchema + DeserializeOwned>() -> Content {
        Content::Json(Json { check: Some(check::<T>), ..Json::of::<T>() })
    }

    /// JSON that a handler reads as a type, unless there is no body.
    #[must_use]
    pub fn read_optional<T: ToSchema + DeserializeOwned>() -> Content {
        Content::Json(Json { check: Some(check::<T>), is_optional: true, ..Json::of::<T>() })
    }

    /// Returns true if the body may be missing.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        matches!(self, Content::Json(json) if json.is_optional)
    }

    /// A JSON list that a handler reads as a list of a type.
    #[must_use]
    pub fn read_list<T: ToSchema + DeserializeOwned>() -> Content {
        Content::Json(Json { check: Some(check::<Vec<T>>), ..Json::list_of::<T>() })
    }

    /// JSON of one type or the other, for instance a whole resource or one attribute of it.
    #[must_use]
    pub fn either<A: ToSchema, B: ToSchema>() -> Content {
        Content::json::<A>().or::<B>()
    }

    /// The same, or JSON of another type.
    #[must_use]
    pub fn or<T: ToSchema>(self) -> Content {
        self.or_content(Content::json::<T>())
    }

    /// The same, or another body; one that is not JSON is kept only alone.
    pub(crate) fn or_content(self, other: Content) -> Content {
        match (self, other) {
            (Content::Json(mut all), Content::Json(other)) => {
                let mut choice = match *all.schema {
                    RefOr::T(Schema::AnyOf(choice)) => choice,
                    schema => AnyOf { items: vec![schema], ..AnyOf::new() },
                };
                choice.items.push(*other.schema);
                all.parts.extend(other.parts);
                all.kinds.extend(other.kinds);
                all.schema = Box::new(RefOr::T(Schema::AnyOf(choice)));
                all.check = None;
                Content::Json(all)
            }
            (Content::None, other) => other,
            (one, _) => one,
        }
    }

    /// Returns true if there is no body.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self, Content::None)
    }

    /// Reads a text as the handler would; nothing for a body that no handler reads as JSON.
    #[must_use]
    pub fn check(&self, text: &str) -> Option<Result<(), String>> {
        match self {
            Content::Json(Json { check: Some(check), .. }) => Some(check(text)),
            _ => None,
        }
    }

    /// Media type and schema of a body.
    pub(crate) fn media(&self) -> Option<(&'static str, RefOr<Schema>)> {
        match self {
            Content::None => None,
            Content::Json(json) => Some(("application/json", json.schema.as_ref().clone())),
            Content::Text(media_type) => Some((media_type, text())),
        }
    }
}

impl Json {
    fn of<T: ToSchema>() -> Json {
        let mut parts = Vec::new();
        T::schemas(&mut parts);
        let name = T::name().to_string();
        parts.push((name.clone(), T::schema()));
        let schema = Box::new(RefOr::Ref(Ref::from_schema_name(name.clone())));
        Json { schema, parts, kinds: vec![Kind { name, is_list: false }], check: None, is_optional: false }
    }

    fn list_of<T: ToSchema>() -> Json {
        let element = Json::of::<T>();
        let kinds = element.kinds.into_iter().map(|kind| Kind { is_list: true, ..kind }).collect();
        Json { schema: Box::new(RefOr::T(Schema::Array(Array::new(*element.schema)))), kinds, ..element }
    }
}

fn check<T: DeserializeOwned>(text: &str) -> Result<(), String> {
    serde_json::from_str::<T>(text).map(drop).map_err(|error| error.to_string())
}

/// The schema of any text.
pub(crate) fn text() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).into()
}
