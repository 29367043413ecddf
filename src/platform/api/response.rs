//! Return types of handlers: each names the statuses and bodies that it may have, for the client and for the
//! API document.

use std::marker::PhantomData;

use axum::Json;
use axum::response::{Html, IntoResponse, Response, Sse};
use http::{StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use crate::content::Content;

/// A response whose statuses and bodies are known from its type.
pub trait Documented: IntoResponse {
    /// Returns the statuses with their bodies, the success first.
    fn responses() -> Vec<(u16, Content)>;
}

/// The body of a documented response.
pub trait DocumentedBody {
    /// Returns its form on the wire.
    fn content() -> Content;
}

impl<T: ToSchema> DocumentedBody for T {
    fn content() -> Content {
        Content::json::<T>()
    }
}

/// A body that is a JSON list.
#[derive(Debug)]
pub struct ListOf<T>(PhantomData<fn() -> T>);

impl<T: ToSchema> DocumentedBody for ListOf<T> {
    fn content() -> Content {
        Content::list::<T>()
    }
}

impl<T: Documented, E> Documented for Result<T, E>
where
    Result<T, E>: IntoResponse,
{
    fn responses() -> Vec<(u16, Content)> {
        T::responses()
    }
}

impl<T: Serialize + ToSchema> Documented for Json<T> {
    fn responses() -> Vec<(u16, Content)> {
        vec![(200, Content::json::<T>())]
    }
}

impl<T> Documented for Html<T>
where
    Html<T>: IntoResponse,
{
    fn responses() -> Vec<(u16, Content)> {
        vec![(200, Content::Text("text/html"))]
    }
}

impl<S> Documented for Sse<S>
where
    Sse<S>: IntoResponse,
{
    fn responses() -> Vec<(u16, Content)> {
        vec![(200, Content::Text("text/event-stream"))]
    }
}

/// 201 with JSON.
#[derive(Debug)]
pub struct Created<T>(pub T);

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, Json(self.0)).into_response()
    }
}

impl<T: Serialize + ToSchema> Documented for Created<T> {
    fn responses() -> Vec<(u16, Content)> {
        vec![(201, Content::json::<T>())]
    }
}

/// 202 with JSON.
#[derive(Debug)]
pub struct Accepted<T>(pub T);

impl<T: Serialize> IntoResponse for Accepted<T> {
    fn into_response(self) -> Response {
        (StatusCode::ACCEPTED, Json(self.0)).into_response()
    }
}

impl<T: Serialize + ToSchema> Documented for Accepted<T> {
    fn responses() -> Vec<(u16, Content)> {
        vec![(202, Content::json::<T>())]
    }
}

/// 204.
#[derive(Debug)]
pub struct NoContent;

impl IntoResponse for NoContent {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl Documented for NoContent {
    fn responses() -> Vec<(u16, Content)> {
        vec![(204, Content::None)]
    }
}

/// 200 with plain text.
#[derive(Debug)]
pub struct Text(pub String);

impl IntoResponse for Text {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], self.0).into_response()
    }
}

impl Documented for Text {
    fn responses() -> Vec<(u16, Content)> {
        vec![(200, Content::TEXT)]
    }
}

/// A list of which `T` is the whole body, with one status when it has elements and another when it has none.
///
/// Long ones are sent page by page, see [`Listing::paged`].
#[derive(Debug)]
pub struct Listing<T, const FOUND: u16, const EMPTY: u16> {
    response: Response,
    body: PhantomData<fn() -> T>,
}

/// A list: 200, or 404 with the same body when it is empty.
pub type List<T> = Listing<T, 200, 404>;

/// The result of a search: 201, or 404 with the same body when nothing was found.
pub type SearchResult<T> = Listing<T, 201, 404>;

/// A list that may be empty: 200 in any case.
pub type WholeList<T> = Listing<T, 200, 200>;

impl<T, const FOUND: u16, const EMPTY: u16> Listing<T, FOUND, EMPTY> {
    /// The status with or without elements.
    pub(crate) fn status(is_empty: bool) -> StatusCode {
        let status = StatusCode::from_u16(if is_empty { EMPTY } else { FOUND });
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// A list that is in memory.
    pub fn of(is_empty: bool, body: T) -> Self
    where
        T: Serialize,
    {
        Self::sent((Self::status(is_empty), Json(body)).into_response())
    }

    /// A list whose response has been made.
    pub(crate) fn sent(response: Response) -> Self {
        Self { response, body: PhantomData }
    }
}

impl<T> List<T> {
    /// The list unless it is empty, for operations that refuse to show an empty one.
    #[must_use]
    pub fn non_empty(self) -> Option<WholeList<T>> {
        (self.response.status() == StatusCode::OK).then(|| Listing::sent(self.response))
    }
}

impl<T, const FOUND: u16, const EMPTY: u16> IntoResponse for Listing<T, FOUND, EMPTY> {
    fn into_response(self) -> Response {
        self.response
    }
}

impl<T: DocumentedBody, const FOUND: u16, const EMPTY: u16> Documented for Listing<T, FOUND, EMPTY> {
    fn responses() -> Vec<(u16, Content)> {
        let mut statuses = vec![FOUND, EMPTY];
        statuses.dedup();
        statuses.into_iter().map(|status| (status, T::content())).collect()
    }
}

/// One response or another, for instance a whole resource or one attribute of it; bodies of the same status are alternatives.
#[derive(Debug)]
pub enum Either<A, B> {
    /// The first.
    First(A),
    /// The second.
    Second(B),
}

impl<A: IntoResponse, B: IntoResponse> IntoResponse for Either<A, B> {
    fn into_response(self) -> Response {
        match self {
            Either::First(response) => response.into_response(),
            Either::Second(response) => response.into_response(),
        }
    }
}

impl<A: Documented, B: Documented> Documented for Either<A, B> {
    fn responses() -> Vec<(u16, Content)> {
        let mut all = A::responses();
        for (status, content) in B::responses() {
            match all.iter_mut().find(|(other, _)| *other == status) {
                Some((_, first)) => *first = first.clone().or_content(content),
                None => all.push((status, content)),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, ToSchema)]
    struct Group {
        name: String,
    }

    #[derive(Serialize, ToSchema)]
    struct Attribute {
        value: String,
    }

    fn statuses<T: Documented>() -> Vec<u16> {
        T::responses().into_iter().map(|(status, _)| status).collect()
    }

    #[test]
    fn types_of_responses_name_their_statuses() {
        assert_eq!(statuses::<Json<Group>>(), [200]);
        assert_eq!(statuses::<Created<Group>>(), [201]);
        assert_eq!(statuses::<NoContent>(), [204]);
        assert_eq!(statuses::<List<Group>>(), [200, 404]);
        assert_eq!(statuses::<SearchResult<ListOf<Group>>>(), [201, 404]);
        assert_eq!(statuses::<WholeList<Group>>(), [200]);
        assert_eq!(statuses::<Either<Json<Group>, Json<Attribute>>>(), [200]);
    }

    #[test]
    fn empty_list_has_its_own_status() {
        let list = |is_empty| List::of(is_empty, Group { name: "gate".to_owned() });
        assert!(list(false).non_empty().is_some() && list(true).non_empty().is_none());
        assert_eq!(list(false).into_response().status(), StatusCode::OK);
        assert_eq!(list(true).into_response().status(), StatusCode::NOT_FOUND);
        let value = Attribute { value: "a".to_owned() };
        let search = SearchResult::of(false, value);
        assert_eq!(search.into_response().status(), StatusCode::CREATED);
    }
}
