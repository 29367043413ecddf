//! Frame, style and script of every page that a listener serves to browsers, and the responses that carry them.
//!
//! Pages are typed templates; text is escaped unless its type is [`Markup`]. The crate knows no page: crates with pages fill a [`Frame`].
//! It builds for build scripts, too, and therefore contains no server: `frame.rs` is where to read on.

mod asset;
mod compression;
mod frame;
mod markup;
mod response;

pub use asset::{Asset, SCRIPT, STYLE, find_asset};
pub use compression::{compress, decompress};
pub use frame::{Area, Frame, HeadLink};
pub use markup::Markup;
pub use response::{Cache, StoredBody, page, redirect};
