//! JSON bodies, with the contract's answers to wrong ones.
//!
//! Source: exchange contract 1.1 and 1.4.

use std::convert::Infallible;

use axum::body::HttpBody;
use axum::extract::{FromRequest, Request};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, TryFutureExt};
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use memchr::memmem;
use serde::de::DeserializeOwned;

use crate::{ApiError, Exchange};

/// A required JSON body that is an object.
///
/// Callers without the right get 403 whatever they send: a handler reads the body after it has asked for the right.
#[must_use]
pub struct Body<T>(Result<T, ApiError>);

/// A required JSON body that is a list.
#[must_use]
pub struct ListBody<T>(Result<Vec<T>, ApiError>);

/// A body of any type, as bytes.
#[must_use]
pub struct RawBody(Result<Bytes, ApiError>);

impl<T> Body<T> {
    /// Takes what was sent.
    ///
    /// # Errors
    /// 400 when it is absent, no object or not of this shape, 413 when it is too large, 415 when it is not said to be JSON.
    pub fn read(self) -> Result<T, ApiError> {
        self.0
    }
}

impl<T> ListBody<T> {
    /// Takes what was sent.
    ///
    /// # Errors
    /// As those of [`Body::read`].
    pub fn read(self) -> Result<Vec<T>, ApiError> {
        self.0
    }
}

impl RawBody {
    /// Takes what was sent.
    ///
    /// # Errors
    /// 413 when it is too large.
    pub fn read(self) -> Result<Bytes, ApiError> {
        self.0
    }
}

impl<T: DeserializeOwned> FromRequest<Exchange> for Body<T> {
    type Rejection = Infallible;

    fn from_request(
        request: Request,
        exchange: &Exchange,
    ) -> impl Future<Output = Result<Self, Infallible>> + Send {
        Self::of(request, exchange).map(Ok)
    }
}

impl<T: DeserializeOwned> Body<T> {
    /// Waits for the body of a request.
    pub(crate) fn of(request: Request, exchange: &Exchange) -> impl Future<Output = Self> + Send + use<T> {
        json_bytes(request, exchange).map(|bytes| Self(bytes.and_then(|bytes| parse_object(&bytes))))
    }
}

impl<T: DeserializeOwned> FromRequest<Exchange> for ListBody<T> {
    type Rejection = Infallible;

    fn from_request(
        request: Request,
        exchange: &Exchange,
    ) -> impl Future<Output = Result<Self, Infallible>> + Send {
        json_bytes(request, exchange).map(|bytes| Ok(Self(bytes.and_then(|bytes| parse(&bytes)))))
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
fn json_bytes(
    request: Request,
    exchange: &Exchange,
) -> impl Future<Output = Result<Bytes, ApiError>> + Send + use<> {
    let is_json = has_json_type(request.headers());
    raw_bytes(request, exchange).map(move |bytes| {
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

impl FromRequest<Exchange> for RawBody {
    type Rejection = Infallible;

    fn from_request(
        request: Request,
        exchange: &Exchange,
    ) -> impl Future<Output = Result<Self, Infallible>> + Send {
        raw_bytes(request, exchange).map(|bytes| Ok(Self(bytes)))
    }
}

/// The bytes of a body. The rest of the request is let go at once: what waits for the body would carry it along.
fn raw_bytes(
    request: Request,
    exchange: &Exchange,
) -> impl Future<Output = Result<Bytes, ApiError>> + Send + use<> {
    let body = Limited::new(request.into_body(), exchange.max_body_bytes());
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
