//! JSON bodies, with the contract's answers to wrong ones.
//!
//! Source: exchange contract 1.1 and 1.4.

use std::future::ready;

use axum::body::HttpBody;
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use evenkeel_api::Content;
use futures_util::{FutureExt, TryFutureExt};
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use memchr::memmem;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use crate::ApiError;

/// The body of a request as an argument of a handler.
///
/// Callers without the right get 403 whatever they send: a wrong body is an error only after the right was granted.
pub(crate) trait RequestBody: Sized + Send + 'static {
    /// Receives the body.
    ///
    /// # Errors
    /// 400 when it is absent or not of this shape, 413 when it is too large, 415 when it is not declared as JSON.
    fn receive(request: Request, max_bytes: usize) -> impl Future<Output = Result<Self, ApiError>> + Send;

    /// The body as the API document shows it.
    fn content() -> Content;
}

/// A required JSON body that is an object.
pub(crate) struct Body<T>(pub(crate) T);

/// A required JSON body that is a list.
pub(crate) struct ListBody<T>(pub(crate) Vec<T>);

/// A body of any type, as bytes.
pub(crate) struct RawBody(pub(crate) Bytes);

/// No body: whatever is sent is left alone.
pub(crate) struct NoBody;

impl<T: DeserializeOwned + ToSchema + Send + 'static> RequestBody for Body<T> {
    fn receive(request: Request, max_bytes: usize) -> impl Future<Output = Result<Self, ApiError>> + Send {
        json_bytes(request, max_bytes).map(|bytes| parse_object(&bytes?).map(Self))
    }

    fn content() -> Content {
        Content::read::<T>()
    }
}

impl<T: DeserializeOwned + ToSchema + Send + 'static> RequestBody for ListBody<T> {
    fn receive(request: Request, max_bytes: usize) -> impl Future<Output = Result<Self, ApiError>> + Send {
        json_bytes(request, max_bytes).map(|bytes| parse(&bytes?).map(Self))
    }

    fn content() -> Content {
        Content::read_list::<T>()
    }
}

impl RequestBody for RawBody {
    fn receive(request: Request, max_bytes: usize) -> impl Future<Output = Result<Self, ApiError>> + Send {
        raw_bytes(request, max_bytes).map(|bytes| bytes.map(Self))
    }

    fn content() -> Content {
        Content::TEXT
    }
}

impl RequestBody for NoBody {
    fn receive(_: Request, _: usize) -> impl Future<Output = Result<Self, ApiError>> + Send {
        ready(Ok(Self))
    }

    fn content() -> Content {
        Content::None
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

/// Whether a JSON text spells a NUL character, which no column of the database holds.
fn escapes_nul(json: &[u8]) -> bool {
    memmem::find_iter(json, b"\\u0000").any(|at| {
        // An even number of backslashes before it: it is no escaped backslash itself.
        json[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0
    })
}

/// The bytes of a body that says it is JSON.
fn json_bytes(request: Request, max_bytes: usize) -> impl Future<Output = Result<Bytes, ApiError>> + Send {
    let is_json = has_json_type(request.headers());
    raw_bytes(request, max_bytes).map(move |bytes| {
        let bytes = bytes?;
        if bytes.is_empty() {
            return Err(ApiError::Plain {
                status: StatusCode::BAD_REQUEST,
                message: "Request entity expected but not supplied".to_owned(),
            });
        }
        if !is_json {
            return Err(ApiError::Plain {
                status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
                message: "The request's Content-Type is not supported. Expected:\napplication/json"
                    .to_owned(),
            });
        }
        Ok(bytes)
    })
}

/// The bytes of a body. The rest of the request is let go at once: what waits for the body would carry it along.
fn raw_bytes(request: Request, max_bytes: usize) -> impl Future<Output = Result<Bytes, ApiError>> + Send {
    let body = Limited::new(request.into_body(), max_bytes);
    gather(body).map_err(|error| {
        let (status, message) = if error.is::<LengthLimitError>() {
            (StatusCode::PAYLOAD_TOO_LARGE, "the request body is larger than this exchange accepts")
        } else {
            (StatusCode::BAD_REQUEST, "the request body could not be read")
        };
        ApiError::Plain { status, message: message.to_owned() }
    })
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

fn has_json_type(headers: &HeaderMap) -> bool {
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
