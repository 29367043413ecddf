//! What a listener of a hub shows to people with a browser: a start page, and the manual of this version.

mod page;
mod start_page;

pub use start_page::router;
