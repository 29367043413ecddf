//! Pages that a listener of a hub serves to browsers: a start page, and the manual of this version.

mod page;
mod start_page;

pub use start_page::router;
