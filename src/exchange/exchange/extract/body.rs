//! JSON bodies, with the contract's responses to invalid ones.
//!
//! Source: exchange-api 1.1, 1.4.

use axum::body::{self, HttpBody};
use bytes::{Bytes, BytesMut};
use evenkeel_api::{ApiRequest, BodyKind, Content, Input, Refusal};
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use memchr::memmem;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiError;

/// A request whose body has been received whole.
pub(crate) trait Received: ApiRequest<Sent = Bytes, Refusal = ApiError> {}

impl<A: ApiRequest<Sent = Bytes, Refusal = ApiError>> Received for A {}

/// A required JSON body that is an object.
pub(crate) struct Body<T>(pub(crate) T);

/// A shape that a body may have where deployed clients send any body, which is left alone.
pub(crate) trait OptionalShape {
    /// A body with one of these members is meant to have the shape.
    const MEMBERS: &'static [&'static str];
}

/// A JSON body that is an object with members of the shape, or none. It is rare, and apart from the request so that those without it stay
/// small.
pub(crate) struct OptionalBody<T>(pub(crate) Option<Box<T>>);

/// A required JSON body that is a list.
pub(crate) struct ListBody<T>(pub(crate) Vec<T>);

/// A body of any type, as bytes.
pub(crate) struct RawBody(pub(crate) Bytes);

impl<A: Received, T: DeserializeOwned + ToSchema + Send + 'static> Input<A> for Body<T> {
    const KIND: BodyKind = BodyKind::Json;

    fn read(bytes: Bytes) -> Result<Self, ApiError> {
        parse_object(&bytes).map(Self)
    }

    fn body() -> Content {
        Content::read::<T>()
    }
}

impl<A: Received, T: DeserializeOwned + ToSchema + OptionalShape + Send + 'static> Input<A>
    for OptionalBody<T>
{
    const KIND: BodyKind = BodyKind::OptionalJson;

    fn read(bytes: Bytes) -> Result<Self, ApiError> {
        let members = serde_json::from_slice::<Map<String, Value>>(&bytes);
        if !members.is_ok_and(|members| T::MEMBERS.iter().any(|name| members.contains_key(*name))) {
            return Ok(Self(None));
        }
        parse_object(&bytes).map(|body| Self(Some(Box::new(body))))
    }

    fn body() -> Content {
        Content::read_optional::<T>()
    }
}

impl<A: Received, T: DeserializeOwned + ToSchema + Send + 'static> Input<A> for ListBody<T> {
    const KIND: BodyKind = BodyKind::Json;

    fn read(bytes: Bytes) -> Result<Self, ApiError> {
        parse(&bytes).map(Self)
    }

    fn body() -> Content {
        Content::read_list::<T>()
    }
}

impl<A: Received> Input<A> for RawBody {
    const KIND: BodyKind = BodyKind::Raw;

    fn read(bytes: Bytes) -> Result<Self, ApiError> {
        Ok(Self(bytes))
    }

    fn body() -> Content {
        Content::TEXT
    }
}

fn parse_object<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, ApiError> {
    // Without this check a list would be read as the members of an object in their order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(ApiError::invalid_input("the request body is not valid: a JSON object is expected"));
    }
    parse(bytes)
}

fn parse<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, ApiError> {
    if escapes_nul(bytes) {
        return Err(ApiError::invalid_input("the request body is not valid: it holds a NUL character"));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| ApiError::invalid_input(format!("the request body is not valid: {error}")))
}

/// Returns true if a JSON text spells a NUL character, which no column of the database holds.
fn escapes_nul(json: &[u8]) -> bool {
    memmem::find_iter(json, b"\\u0000").any(|at| {
        // An even number of backslashes before it: it is not an escaped backslash itself.
        json[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0
    })
}

/// Receives the bytes of a body; `is_json`: true if the request declares it as JSON.
///
/// # Errors
/// 413 when it is too large; for JSON 400 when it is absent and 415 when it is not declared as such.
pub(crate) async fn receive(
    kind: BodyKind,
    is_json: bool,
    body: body::Body,
    max_bytes: usize,
) -> Result<Bytes, ApiError> {
    if kind == BodyKind::None {
        return Ok(Bytes::new());
    }
    let refusal = |status, message: &str| ApiError::from(Refusal::plain(status, message));
    let bytes = gather(Limited::new(body, max_bytes)).await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            let message = "the request body is larger than this exchange accepts";
            refusal(StatusCode::PAYLOAD_TOO_LARGE, message)
        } else {
            refusal(StatusCode::BAD_REQUEST, "the request body could not be read")
        }
    })?;
    if kind == BodyKind::Json && bytes.is_empty() {
        return Err(refusal(StatusCode::BAD_REQUEST, "Request entity expected but not supplied"));
    }
    if kind == BodyKind::OptionalJson && !is_json {
        return Ok(Bytes::new());
    }
    if kind == BodyKind::Json && !is_json {
        let message = "The request's Content-Type is not supported. Expected:\napplication/json";
        return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    Ok(bytes)
}

/// All of a body in one piece. Most come in one, which is taken as it is.
async fn gather<B: HttpBody<Data = Bytes> + Unpin>(mut body: B) -> Result<Bytes, B::Error> {
    let first = next_piece(&mut body).await?.unwrap_or_default();
    let Some(second) = next_piece(&mut body).await? else { return Ok(first) };
    let mut all = BytesMut::from(&first[..]);
    all.extend_from_slice(&second);
    while let Some(piece) = next_piece(&mut body).await? {
        all.extend_from_slice(&piece);
    }
    Ok(all.freeze())
}

async fn next_piece<B: HttpBody<Data = Bytes> + Unpin>(body: &mut B) -> Result<Option<Bytes>, B::Error> {
    while !body.is_end_stream()
        && let Some(frame) = body.frame().await
    {
        if let Ok(data) = frame?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Returns true if a request calls its body JSON.
pub(crate) fn has_json_type(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn body_of_any_number_of_pieces_is_read_whole_up_to_the_limit() {
        for count in 0..4 {
            let pieces =
                || stream::iter(["ab", "", "cd", "e"].into_iter().take(count).map(Ok::<_, Infallible>));
            let whole: String = ["ab", "", "cd", "e"][..count].concat();
            let read = gather(Limited::new(Body::from_stream(pieces()), whole.len())).await;
            assert_eq!(read.expect("it fits"), whole.as_bytes());
            if !whole.is_empty() {
                let refused = gather(Limited::new(Body::from_stream(pieces()), whole.len() - 1)).await;
                assert!(refused.expect_err("it is too long").is::<LengthLimitError>());
            }
        }
        assert_eq!(gather(Body::from("abc")).await.expect("it is there"), "abc");
        assert_eq!(gather(Body::empty()).await.expect("nothing is there"), "");
    }

    #[test]
    fn only_a_real_escape_is_a_nul_character() {
        assert!(escapes_nul(br#"{"a":"x\u0000y"}"#));
        assert!(escapes_nul(br#"{"a":"\\\u0000"}"#));
        assert!(!escapes_nul(br#"{"a":"\\u0000"}"#));
        assert!(!escapes_nul(br#"{"a":"u0000"}"#));
    }
}
