//! The files that the manual includes.

use std::fmt::Write as _;
use std::path::Path;

use evenkeel_pages::{Asset, compress};
use sha2::{Digest, Sha256};

use crate::BookError;
use crate::contents::{self, Contents, Document};
use crate::layout::Layout;
use crate::markdown::{Article, render};
use crate::search_index::index;

/// Renders all pages of `docs` into `directory`, with `book.rs`, which lists them.
/// # Shape
/// `book.rs` defines `PAGES` in the order of the book, `ATTACHMENTS` sorted by path, `OVERVIEW`, `NAVIGATION`, `SEARCH_FORM`, `INDEX`
/// and `INDEX_HREF`, of types that the including file defines; bodies are compressed files beside it.
/// # Errors
/// [`BookError::Read`] and [`BookError::Write`] name the file, [`BookError::NoSection`] and [`BookError::NoTitle`] the page.
pub fn write_book(docs: &Path, directory: &Path) -> Result<(), BookError> {
    let Contents { documents, attachments } = contents::read(docs)?;
    let rendered = |document: Document| {
        let article = render(&document.text, &document.path);
        (document, article)
    };
    let pages: Vec<(Document, Article)> = documents.into_iter().map(rendered).collect();
    let mut output = Output { directory, code: String::new(), count: 0 };
    let index = index(&pages);
    let asset = Asset::new("/assets/index", "txt", "text/plain; charset=utf-8", index.as_bytes());
    let layout = Layout::new(&pages, asset.href())?;
    output.add_pages(&layout)?;
    output.code.push_str("pub(crate) static ATTACHMENTS: &[Attachment] = &[\n");
    for (path, bytes) in attachments {
        let body = output.body(&bytes)?;
        line(&mut output.code, &format!("    Attachment {{ path: {path:?}, body: {body} }},"));
    }
    output.code.push_str("];\n");
    let overview = output.body(layout.overview()?.as_bytes())?;
    line(&mut output.code, &format!("pub(crate) static OVERVIEW: Body = {overview};"));
    let form = layout.search_form.as_str();
    for (name, value) in [
        ("NAVIGATION", layout.navigation("")?.as_str()),
        ("SEARCH_FORM", form),
        ("INDEX", &index),
        ("INDEX_HREF", asset.href()),
    ] {
        line(&mut output.code, &format!("pub(crate) static {name}: &str = {value:?};"));
    }
    let compressed = output.body(index.as_bytes())?;
    line(&mut output.code, &format!("pub(crate) static COMPRESSED_INDEX: Body = {compressed};"));
    output.write("book.rs", output.code.as_bytes())
}

struct Output<'a> {
    directory: &'a Path,
    code: String,
    /// Files with bodies so far, which are named by their number.
    count: usize,
}

impl Output<'_> {
    fn add_pages(&mut self, layout: &Layout<'_>) -> Result<(), BookError> {
        self.code.push_str("pub(crate) static PAGES: &[Page] = &[\n");
        for (number, (document, _)) in layout.pages.iter().enumerate() {
            let html = self.body(layout.page(number)?.as_bytes())?;
            let raw = self.body(document.text.as_bytes())?;
            let (path, section) = (document.path.trim_end_matches(".md"), document.section);
            line(
                &mut self.code,
                &format!("    Page {{ path: {path:?}, section: {section}, html: {html}, raw: {raw} }},"),
            );
        }
        self.code.push_str("];\n");
        Ok(())
    }

    /// Writes a compressed file, and returns the expression for it.
    fn body(&mut self, bytes: &[u8]) -> Result<String, BookError> {
        let name = format!("{}.gz", self.count);
        self.count += 1;
        self.write(&name, &compress(bytes))?;
        let digest = Sha256::digest(bytes);
        let etag: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("Body {{ etag: {etag:?}, gzip: include_bytes!({name:?}) }}"))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), BookError> {
        let path = self.directory.join(name);
        std::fs::write(&path, bytes).map_err(|source| BookError::Write { path, source })
    }
}

fn line(code: &mut String, text: &str) {
    writeln!(code, "{text}").expect("a string takes every text");
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs");

    fn written(name: &str) -> Vec<(String, Vec<u8>)> {
        let directory = std::env::temp_dir().join(format!("evenkeel-book-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        write_book(Path::new(DOCS), &directory).expect("a book");
        let entries =
            std::fs::read_dir(&directory).expect("the directory").map(|entry| entry.expect("an entry"));
        let read = |entry: std::fs::DirEntry| {
            (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("a file"))
        };
        let mut files: Vec<_> = entries.map(read).collect();
        files.sort();
        std::fs::remove_dir_all(&directory).expect("the directory");
        files
    }

    #[test]
    fn same_pages_give_the_same_bytes() {
        let one = written("one");
        assert!(one.len() > 100, "{} files", one.len());
        assert!(one == written("two"), "the files differ");
    }
}
