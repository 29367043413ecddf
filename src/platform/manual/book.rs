//! The pages of `docs/`, which the build has rendered and compressed.

use std::borrow::Cow;

use bytes::Bytes;
use evenkeel_pages::StoredBody;

include!(concat!(env!("OUT_DIR"), "/book.rs"));

/// A page of the book.
pub(crate) struct Page {
    /// Path below `docs/` without `.md`, which is also the path below `/manual/`.
    pub(crate) path: &'static str,
    /// Position of its section in the book.
    pub(crate) section: usize,
    html: Body,
    raw: Body,
}

/// A file that pages refer to.
pub(crate) struct Attachment {
    pub(crate) path: &'static str,
    body: Body,
}

/// A compressed body.
pub(crate) struct Body {
    etag: &'static str,
    gzip: &'static [u8],
}

impl Body {
    /// Returns the body for a response, without another allocation.
    pub(crate) fn stored(&self, content_type: &'static str) -> StoredBody {
        StoredBody { content_type, etag: Cow::Borrowed(self.etag), gzip: Bytes::from_static(self.gzip) }
    }
}

impl Page {
    pub(crate) fn html(&self) -> StoredBody {
        self.html.stored("text/html; charset=utf-8")
    }

    /// Returns the page as it is in `docs/`.
    pub(crate) fn raw(&self, content_type: &'static str) -> StoredBody {
        self.raw.stored(content_type)
    }
}

impl Attachment {
    pub(crate) fn stored(&self) -> StoredBody {
        self.body.stored(match self.path.rsplit('.').next() {
            Some("svg") => "image/svg+xml",
            Some("png") => "image/png",
            Some("json") => "application/json",
            _ => "text/plain; charset=utf-8",
        })
    }
}
