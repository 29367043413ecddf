//! Errors of a build.

use std::path::PathBuf;

use thiserror::Error;

/// A reason why the book cannot be made.
#[derive(Debug, Error)]
pub enum BookError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{path}: no section of src/platform/book/contents.rs has this directory")]
    NoSection { path: String },
    #[error("{path}: the page has no first heading, `# Title`")]
    NoTitle { path: String },
    #[error("a template of the book")]
    Template(#[from] askama::Error),
}
