//! Pages that a listener of a hub serves to browsers: a start page, and the manual of this version.

mod address;
mod book;
mod router;
mod search;
mod start_page;

pub use router::router;
