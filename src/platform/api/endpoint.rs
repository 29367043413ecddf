//! One row of the table of routes: its handler and its entry in the API document.

use std::ops::Deref;

use axum::Router;
use axum::routing::MethodRouter;
use http::Method;
use utoipa::ToSchema;
use utoipa::openapi::path::Parameter;

use crate::content::Content;
use crate::{CodeForm, PREFIX, parameter};

/// One possible response.
#[derive(Clone)]
pub struct DocumentedResponse {
    /// HTTP status.
    pub status: u16,
    /// When it is given.
    pub description: &'static str,
    /// Its body.
    pub content: Content,
}

/// Access that an operation requires of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredAccess {
    /// Nothing, not even credentials.
    Public,
    /// A right, by its name.
    Right(&'static str),
}

impl RequiredAccess {
    /// Returns the name of the right; `public` when none is needed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RequiredAccess::Public => "public",
            RequiredAccess::Right(name) => name,
        }
    }
}

/// What the success of an operation means for the resource that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It did not exist before.
    Creates,
    /// It may have existed before, and exists.
    Changes,
    /// It no longer exists.
    Removes,
}

/// One operation of the API, as the document describes it.
#[derive(Clone)]
pub struct Operation {
    /// HTTP method.
    pub method: Method,
    /// Path below the prefix, then its aliases.
    pub paths: Vec<&'static str>,
    /// Name of the operation, as the handler is called.
    pub operation: &'static str,
    /// Group in the document.
    pub tag: &'static str,
    /// One-line summary of the operation.
    pub summary: &'static str,
    /// Parameters besides those of the path.
    pub parameters: Vec<Parameter>,
    /// Body of the request.
    pub request: Content,
    /// Responses besides those that every operation may have.
    pub responses: Vec<DocumentedResponse>,
    /// Required access.
    pub access: RequiredAccess,
    /// Reason for which no audit record is written for an operation that is not a read.
    pub unaudited: Option<&'static str>,
    /// Kind of the resource whose state its audit record shows; none for actions and messages.
    pub subject: Option<&'static str>,
    /// What becomes of that resource when the operation succeeds.
    pub effect: Effect,
    /// Format of the codes of its refusals.
    pub codes: CodeForm,
    /// True if the fast path finds it before the router is asked.
    pub is_fast: bool,
    /// Prefix of its paths.
    pub prefixes: &'static [&'static str],
}

impl Operation {
    /// Returns true if the operation needs no credentials.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.access == RequiredAccess::Public
    }

    /// Returns true if each success is written to the audit record.
    #[must_use]
    pub fn is_audited(&self) -> bool {
        self.method != Method::GET && self.unaudited.is_none()
    }

    /// Returns true if the operation is served without the prefix, too.
    #[must_use]
    pub fn is_at_root(&self) -> bool {
        self.prefixes.contains(&"")
    }

    /// Every whole path under which it is served.
    pub fn whole_paths(&self) -> impl Iterator<Item = String> {
        self.prefixes.iter().flat_map(|prefix| self.paths.iter().map(move |path| format!("{prefix}{path}")))
    }
}

/// One operation with its handler `H`.
pub struct Endpoint<H> {
    operation: Operation,
    handler: H,
    is_mounted: bool,
}

impl<H> Deref for Endpoint<H> {
    type Target = Operation;

    fn deref(&self) -> &Operation {
        &self.operation
    }
}

/// Starts the row of one operation.
pub fn endpoint<H>(
    method: Method,
    path: &'static str,
    operation: &'static str,
    access: RequiredAccess,
    handler: H,
) -> Endpoint<H> {
    let effect = if method == Method::DELETE { Effect::Removes } else { Effect::Changes };
    let operation = Operation {
        method,
        paths: vec![path],
        operation,
        tag: "exchange",
        summary: "",
        parameters: Vec::new(),
        request: Content::None,
        responses: Vec::new(),
        access,
        unaudited: None,
        subject: None,
        effect,
        codes: CodeForm::Word,
        is_fast: false,
        prefixes: &[PREFIX],
    };
    Endpoint { operation, handler, is_mounted: true }
}

impl<H> Endpoint<H> {
    /// The same handler under another path.
    #[must_use]
    pub fn alias(mut self, path: &'static str) -> Self {
        self.operation.paths.push(path);
        self
    }

    /// The same handler without the prefix, too.
    #[must_use]
    pub fn at_root_too(mut self) -> Self {
        self.operation.prefixes = &[PREFIX, ""];
        self
    }

    /// Group and one-line summary for the document.
    #[must_use]
    pub fn doc(mut self, tag: &'static str, summary: &'static str) -> Self {
        self.operation.tag = tag;
        self.operation.summary = summary;
        self
    }

    /// Parameters besides those of the path.
    #[must_use]
    pub fn parameters(mut self, parameters: Vec<Parameter>) -> Self {
        self.operation.parameters.extend(parameters);
        self
    }

    /// Body of the request.
    #[must_use]
    pub fn request(mut self, content: Content) -> Self {
        self.operation.request = content;
        self
    }

    /// An optional header that it understands.
    #[must_use]
    pub fn header(mut self, name: &'static str, description: &'static str, example: &'static str) -> Self {
        self.operation.parameters.push(parameter::header(name, description, example));
        self
    }

    /// Responses of the type that the handler returns; [`Endpoint::success`] and [`Endpoint::empty`] describe them.
    #[must_use]
    pub fn responses(mut self, responses: Vec<(u16, Content)>) -> Self {
        let documented = responses.into_iter().map(|(status, content)| DocumentedResponse {
            status,
            description: "",
            content,
        });
        self.operation.responses.extend(documented);
        self
    }

    /// Describes the response of a success.
    #[must_use]
    pub fn success(self, description: &'static str) -> Self {
        self.describe(|status| status < 300, description)
    }

    /// Describes the response of a list without elements.
    #[must_use]
    pub fn empty(self, description: &'static str) -> Self {
        self.describe(|status| status == 404, description)
    }

    /// A list that always has an element.
    #[must_use]
    pub fn never_empty(mut self) -> Self {
        self.operation.responses.retain(|response| response.status != 404);
        self
    }

    fn describe(mut self, is_meant: fn(u16) -> bool, description: &'static str) -> Self {
        let documented = self.operation.responses.iter_mut();
        documented
            .filter(|response| is_meant(response.status))
            .for_each(|response| response.description = description);
        self
    }

    /// A possible response with a JSON body.
    #[must_use]
    pub fn response<T: ToSchema>(self, status: u16, description: &'static str) -> Self {
        self.response_with(status, description, Content::json::<T>())
    }

    /// A possible response with a JSON body of one type or the other.
    #[must_use]
    pub fn response_either<A: ToSchema, B: ToSchema>(self, status: u16, description: &'static str) -> Self {
        self.response_with(status, description, Content::either::<A, B>())
    }

    /// A possible response, instead of one with this status that the handler's type names.
    #[must_use]
    pub fn response_with(mut self, status: u16, description: &'static str, content: Content) -> Self {
        self.operation.responses.retain(|response| response.status != status);
        self.operation.responses.push(DocumentedResponse { status, description, content });
        self
    }

    /// Exempts the operation from the audit record although its method is not GET; `reason` states why.
    #[must_use]
    pub fn unaudited(mut self, reason: &'static str) -> Self {
        self.operation.unaudited = Some(reason);
        self
    }

    /// Kind of the resource whose state its audit record shows.
    #[must_use]
    pub fn audit(mut self, subject: impl Into<&'static str>) -> Self {
        self.operation.subject = Some(subject.into());
        self
    }

    /// Success means that the resource did not exist before.
    #[must_use]
    pub fn creates(mut self) -> Self {
        self.operation.effect = Effect::Creates;
        self
    }

    /// The resource exists afterwards, although the method is DELETE: a part of it is removed.
    #[must_use]
    pub fn keeps_resource(mut self) -> Self {
        self.operation.effect = Effect::Changes;
        self
    }

    /// Refusals have the number of the status as their code.
    #[must_use]
    pub fn numbered_codes(mut self) -> Self {
        self.operation.codes = CodeForm::Number;
        self
    }

    /// Found by its path before the router is asked: for what every agent sends all the time.
    #[must_use]
    pub fn fast(mut self) -> Self {
        self.operation.is_fast = true;
        self
    }

    /// Only described: a path with a parameter in this place serves it, for a path of its own would hide that one's other methods.
    #[must_use]
    pub fn served_elsewhere(mut self) -> Self {
        self.is_mounted = false;
        self
    }

    /// Adds the operation and its aliases to a router, below `base`; `route` creates the method router of
    /// each path.
    pub fn mount<S: Clone + Send + Sync + 'static>(
        &self,
        base: &str,
        mut router: Router<S>,
        route: impl Fn(&'static str, &H) -> MethodRouter<S>,
    ) -> Router<S> {
        if !self.is_mounted {
            return router;
        }
        for path in &self.operation.paths {
            router = router.route(&format!("{base}{path}"), route(path, &self.handler));
        }
        router
    }

    /// Returns the handler of the operation.
    #[must_use]
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// Returns the operation's entry of the API document.
    #[must_use]
    pub fn described(&self) -> Operation {
        self.operation.clone()
    }
}
