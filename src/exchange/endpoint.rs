//! One table of routes: what the router serves and what the API document says come from the same rows.

use axum::Router;
use axum::routing::MethodRouter;
use http::Method;
use utoipa::openapi::path::Parameter;
use utoipa::openapi::schema::{AnyOf, Array};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, ToSchema};

use crate::Exchange;

/// A schema with everything it refers to.
pub(crate) type NamedSchemas = Vec<(String, RefOr<Schema>)>;

/// How the body of a request or answer looks.
#[derive(Clone)]
pub enum Content {
    /// No body.
    None,
    /// JSON of a named schema.
    Json {
        /// Reference or inline schema.
        schema: Box<RefOr<Schema>>,
        /// Schemas it refers to.
        parts: NamedSchemas,
    },
    /// Plain text.
    Text,
    /// Server-sent events.
    Events,
}

impl Content {
    /// JSON of a type.
    #[must_use]
    pub fn json<T: ToSchema>() -> Content {
        let mut parts = Vec::new();
        T::schemas(&mut parts);
        let name = T::name().to_string();
        parts.push((name.clone(), T::schema()));
        let schema = Box::new(RefOr::Ref(utoipa::openapi::Ref::from_schema_name(name)));
        Content::Json { schema, parts }
    }

    /// A JSON list of a type.
    #[must_use]
    pub fn list<T: ToSchema>() -> Content {
        match Content::json::<T>() {
            Content::Json { schema, parts } => {
                let schema = Box::new(RefOr::T(Schema::Array(Array::new(*schema))));
                Content::Json { schema, parts }
            }
            other => other,
        }
    }

    /// JSON of one type or the other, for instance a whole resource or one attribute of it.
    #[must_use]
    pub fn either<A: ToSchema, B: ToSchema>() -> Content {
        Content::json::<A>().or::<B>()
    }

    /// The same, or JSON of another type.
    #[must_use]
    pub fn or<T: ToSchema>(self) -> Content {
        let mut choice = AnyOf::new();
        let mut parts = Vec::new();
        for content in [self, Content::json::<T>()] {
            if let Content::Json { schema, parts: more } = content {
                choice.items.push(*schema);
                parts.extend(more);
            }
        }
        Content::Json { schema: Box::new(RefOr::T(Schema::AnyOf(choice))), parts }
    }
}

/// One possible answer.
#[derive(Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// When it is given.
    pub description: &'static str,
    /// Its body.
    pub content: Content,
}

/// One operation of the API.
pub struct Endpoint {
    /// HTTP method.
    pub method: Method,
    /// Path below `/v1`, then its aliases.
    pub paths: Vec<&'static str>,
    /// Name of the operation, as the handler is called.
    pub operation: &'static str,
    /// Group in the document.
    pub tag: &'static str,
    /// What it does, one line.
    pub summary: &'static str,
    /// Query parameters.
    pub parameters: Vec<Parameter>,
    /// Body of the request.
    pub request: Content,
    /// Answers besides those every operation may give.
    pub answers: Vec<Answer>,
    /// Needs no credentials.
    pub is_public: bool,
    /// Why no audit record tells of it, when it is no read.
    pub unaudited: Option<&'static str>,
    router: MethodRouter<Exchange>,
}

/// Starts the row of one operation. `router` is `axum::routing::get(handler)` and the like, matching `method`.
pub fn endpoint(
    method: Method,
    path: &'static str,
    operation: &'static str,
    router: MethodRouter<Exchange>,
) -> Endpoint {
    Endpoint {
        method,
        paths: vec![path],
        operation,
        tag: "exchange",
        summary: "",
        parameters: Vec::new(),
        request: Content::None,
        answers: Vec::new(),
        is_public: false,
        unaudited: None,
        router,
    }
}

impl Endpoint {
    /// The same handler under another path.
    #[must_use]
    pub fn alias(mut self, path: &'static str) -> Self {
        self.paths.push(path);
        self
    }

    /// Group and one-line summary for the document.
    #[must_use]
    pub fn doc(mut self, tag: &'static str, summary: &'static str) -> Self {
        self.tag = tag;
        self.summary = summary;
        self
    }

    /// Query parameters.
    #[must_use]
    pub fn query<T: IntoParams>(mut self) -> Self {
        self.parameters.extend(T::into_params(|| Some(utoipa::openapi::path::ParameterIn::Query)));
        self
    }

    /// JSON body of the request.
    #[must_use]
    pub fn body<T: ToSchema>(mut self) -> Self {
        self.request = Content::json::<T>();
        self
    }

    /// Body of the request that is a JSON list.
    #[must_use]
    pub fn list_body<T: ToSchema>(mut self) -> Self {
        self.request = Content::list::<T>();
        self
    }

    /// Text body of the request.
    #[must_use]
    pub fn text_body(mut self) -> Self {
        self.request = Content::Text;
        self
    }

    /// A possible answer with a JSON body.
    #[must_use]
    pub fn answer<T: ToSchema>(self, status: u16, description: &'static str) -> Self {
        self.answer_with(status, description, Content::json::<T>())
    }

    /// A possible answer with a JSON body of one type or the other.
    #[must_use]
    pub fn answer_either<A: ToSchema, B: ToSchema>(self, status: u16, description: &'static str) -> Self {
        self.answer_with(status, description, Content::either::<A, B>())
    }

    /// A possible answer.
    #[must_use]
    pub fn answer_with(mut self, status: u16, description: &'static str, content: Content) -> Self {
        self.answers.push(Answer { status, description, content });
        self
    }

    /// Needs no credentials.
    #[must_use]
    pub fn public(mut self) -> Self {
        self.is_public = true;
        self
    }

    /// No audit record tells of it, although its method is not GET; `reason` says why.
    #[must_use]
    pub fn unaudited(mut self, reason: &'static str) -> Self {
        self.unaudited = Some(reason);
        self
    }

    /// Whether each success is recorded.
    #[must_use]
    pub fn is_audited(&self) -> bool {
        self.method != Method::GET && self.unaudited.is_none()
    }

    /// Adds the operation and its aliases to a router, below `base`; `wrap` may put something around it.
    pub(crate) fn mount(
        &self,
        base: &str,
        mut router: Router<Exchange>,
        wrap: impl FnOnce(MethodRouter<Exchange>) -> MethodRouter<Exchange>,
    ) -> Router<Exchange> {
        let wrapped = wrap(self.router.clone());
        for path in &self.paths {
            router = router.route(&format!("{base}{path}"), wrapped.clone());
        }
        router
    }
}
