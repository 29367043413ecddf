//! Renders the pages of `docs/` as a book; the build script of the manual runs it, the program does not contain it.
//!
//! The same directory gives the same bytes. It reads nothing but that directory; `contents.rs` is where to read on.

mod contents;
mod error;
mod highlight;
mod layout;
mod markdown;
mod output;
mod search_index;
mod slug;

pub use error::BookError;
pub use output::write_book;
