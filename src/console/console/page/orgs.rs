//! The organizations that the reader may read.

use askama::Template;
use axum::response::Response;

use crate::address::address_of;
use crate::failure::Failure;
use crate::layout::show_alone;
use crate::reads::{self, ROOT_ORG};
use crate::session::Reader;

#[derive(Template)]
#[template(path = "orgs.html")]
struct Page {
    /// Name, label and address of each.
    orgs: Vec<(String, String, String)>,
}

pub(crate) async fn show(reader: Reader) -> Result<Response, Failure> {
    let own = &reader.session.org;
    let found = reads::orgs(&reader).await?;
    // The shared organization is listed for all, and its nodes only for root.
    let readable = found.into_iter().filter(|(org, _)| org == own || own == ROOT_ORG);
    let orgs = readable.map(|(org, label)| {
        let href = address_of(&org, &["now"]);
        (org, label, href)
    });
    let page = Page { orgs: orgs.collect() };
    Ok(show_alone(&reader, "Organizations", &page))
}
