//! The id of the request that a task handles: set by the client or generated, and repeated in the response and in every log line.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries the id, in requests and responses.
pub static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is accepted from a client.
const MAX_LENGTH: usize = 64;

tokio::task_local! {
    /// The request that this task handles. A span would add it to the log, too, at ten times the cost per request.
    static CURRENT: RequestId;
}

/// Calls `read` with the id of the request that the current task handles; `None` outside of a request.
pub(crate) fn with_current<T>(read: impl FnOnce(&str) -> T) -> Option<T> {
    CURRENT.try_with(|id| read(id.as_str())).ok()
}

/// The id of one request.
#[derive(Clone, Debug)]
pub struct RequestId(Source);

#[derive(Clone, Debug)]
enum Source {
    Client(HeaderValue),
    // Stored inline, because the reference count of a header value costs as much as writing it again.
    Generated([u8; 16]),
}

impl RequestId {
    /// Returns the client's id if it is a short text of visible characters.
    #[must_use]
    pub fn from_client(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get(&REQUEST_ID)?;
        let is_usable =
            (1..=MAX_LENGTH).contains(&value.len()) && value.as_bytes().iter().all(u8::is_ascii_graphic);
        is_usable.then(|| Self(Source::Client(value.clone())))
    }

    /// Creates an id from a number: its 16 hexadecimal digits.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        let mut digits = [0; 16];
        // Formatting would reallocate a string several times for every request.
        for (digit, shift) in digits.iter_mut().zip((0..u64::BITS).step_by(4).rev()) {
            *digit = b"0123456789abcdef"[(number >> shift) as usize & 15];
        }
        Self(Source::Generated(digits))
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Source::Client(value) => value.to_str().unwrap_or_default(),
            Source::Generated(digits) => str::from_utf8(digits).unwrap_or_default(),
        }
    }

    /// Returns the id as a header value.
    ///
    /// # Panics
    /// Never: hexadecimal digits are a header value.
    #[must_use]
    pub fn header(&self) -> HeaderValue {
        match &self.0 {
            Source::Client(value) => value.clone(),
            Source::Generated(digits) => {
                HeaderValue::from_bytes(digits).expect("hexadecimal digits are a header value")
            }
        }
    }

    /// Runs `work` with this id as the current request's.
    pub fn scope<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), work)
    }
}
