//! Addresses below `/manual/`.

use axum::http::{HeaderMap, header};
use bytes::Bytes;
use evenkeel_pages::{Cache, redirect};

use crate::book::{ATTACHMENTS, PAGES};

/// Addresses of earlier versions, and the pages that replaced them.
const MOVED: [(&str, &str); 9] = [
    ("overview", "explanation/ha-groups"),
    ("running-a-hub", "reference/settings"),
    ("agent", "reference/agent"),
    ("ha-groups", "how-to/manage-ha-groups"),
    ("cli", "reference/cli"),
    ("security", "explanation/security"),
    ("import", "how-to/import-from-another-exchange"),
    ("compatibility", "reference/compatibility"),
    ("exit-codes", "reference/exit-codes"),
];

const PLAIN: &str = "text/plain; charset=utf-8";
const MARKDOWN: &str = "text/markdown; charset=utf-8";

type Response = axum::http::Response<Bytes>;

/// Returns the response for a path below `/manual/`; `None` if there is nothing. Pages have their address with and without `.md`.
pub(crate) fn respond(path: &str, query: Option<&str>, headers: &HeaderMap) -> Option<Response> {
    let name = path.strip_suffix(".md").unwrap_or(path);
    if let Some(page) = PAGES.iter().find(|page| page.path == name) {
        let is_raw = query.is_some_and(|query| query.split('&').any(|one| one == "raw" || one == "raw="));
        let body = match raw_type(headers).or(is_raw.then_some(PLAIN)) {
            Some(content_type) => page.raw(content_type),
            None => page.html(),
        };
        return Some(body.respond(headers, Cache::Revalidate));
    }
    if let Some(file) = ATTACHMENTS.iter().find(|file| file.path == path) {
        return Some(file.stored().respond(headers, Cache::Revalidate));
    }
    MOVED.iter().find(|(old, _)| *old == name).map(|(_, new)| redirect(&format!("/manual/{new}")))
}

/// Returns the type of the raw text that a client asks for; `None` for those that read HTML, and for those that name neither.
fn raw_type(headers: &HeaderMap) -> Option<&'static str> {
    let values = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let accepted: Vec<String> = values.flat_map(|value| value.split(',')).filter_map(media_type).collect();
    let accepts = |kinds: &[&str]| accepted.iter().any(|one| kinds.contains(&one.as_str()));
    if accepts(&["text/html", "application/xhtml+xml", "text/*", "*/*"]) {
        return None;
    }
    match (accepts(&["text/markdown"]), accepts(&["text/plain"])) {
        (true, _) => Some(MARKDOWN),
        (false, true) => Some(PLAIN),
        (false, false) => None,
    }
}

/// Returns the media type of a member of `Accept`, unless its weight is 0.
fn media_type(member: &str) -> Option<String> {
    let mut parts = member.split(';').map(str::trim);
    let kind = parts.next()?.to_ascii_lowercase();
    let weight = parts.find_map(|part| part.strip_prefix("q=")).and_then(|weight| weight.parse::<f32>().ok());
    (weight != Some(0.0)).then_some(kind)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use axum::http::{HeaderValue, StatusCode};

    use super::*;
    use crate::book::OVERVIEW;

    const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs");

    fn get(path: &str, query: Option<&str>, accept: &'static str) -> Option<Response> {
        respond(path, query, &HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]))
    }

    fn bytes(response: Option<Response>) -> Vec<u8> {
        let response = response.expect("a page");
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body().to_vec()
    }

    fn text(response: Option<Response>) -> String {
        String::from_utf8(bytes(response)).expect("UTF-8")
    }

    fn files(directory: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).expect("a directory of the manual").flatten() {
            let path = entry.path();
            if path.is_dir() {
                files(&path, found);
            } else {
                let name = path.strip_prefix(DOCS).expect("a file of the manual");
                found.insert(name.to_str().expect("UTF-8").to_owned());
            }
        }
    }

    fn attributes<'a>(html: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
        let parts: Vec<&str> = html.split(&format!(" {name}=\"")).skip(1).collect();
        parts.into_iter().filter_map(|rest| rest.split_once('"')).map(|(value, _)| value)
    }

    /// All pages as HTML, by their address.
    fn rendered() -> BTreeMap<String, String> {
        let pages =
            PAGES.iter().map(|page| (format!("/manual/{}", page.path), text(get(page.path, None, "*/*"))));
        let overview = OVERVIEW.stored("text/html").respond(&HeaderMap::new(), Cache::Revalidate);
        pages.chain([("/manual".to_owned(), text(Some(overview)))]).collect()
    }

    #[test]
    fn every_file_of_docs_is_served() {
        let mut found = BTreeSet::new();
        files(Path::new(DOCS), &mut found);
        assert!(found.len() > 80, "{} files", found.len());
        for path in found {
            let expected = std::fs::read(Path::new(DOCS).join(&path)).expect("a file");
            assert!(bytes(get(&path, Some("raw"), "*/*")) == expected, "{path}");
        }
    }

    #[test]
    fn links_lead_to_pages_and_to_anchors_on_them() {
        let pages = rendered();
        let (mut links, mut fragments) = (0, 0);
        for (address, html) in &pages {
            for href in attributes(html, "href").chain(attributes(html, "src")) {
                let (path, fragment) = href.split_once('#').unwrap_or((href, ""));
                let target = if path.is_empty() { address } else { path };
                if !target.starts_with("/manual") {
                    continue;
                }
                links += 1;
                let file = target.strip_prefix("/manual/").unwrap_or_default();
                let file = file.split('?').next().unwrap_or_default();
                assert!(
                    pages.contains_key(target) || respond(file, None, &HeaderMap::new()).is_some(),
                    "{address}: {href}"
                );
                if !fragment.is_empty() {
                    fragments += 1;
                    let is_anchor = attributes(&pages[target], "id").any(|id| id == fragment);
                    assert!(is_anchor, "{address}: {href} names no heading");
                }
            }
        }
        assert!(links > 5_000 && fragments > 1_000, "{links} links, {fragments} of them with fragments");
    }

    #[test]
    fn pages_are_whole() {
        for (address, html) in rendered() {
            assert_eq!(html.matches("<h1").count(), 1, "{address}");
            for part in ["<main", "</main>", "<nav class=\"contents\"", "class=\"skip\""] {
                assert_eq!(html.matches(part).count(), 1, "{address}: {part}");
            }
            let ids: Vec<&str> = attributes(&html, "id").collect();
            assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "{address}: ids occur once");
            for part in [" style=", "<style", "<script>", "javascript:"] {
                let tags =
                    html.split('<').filter_map(|one| one.split_once('>')).map(|(tag, _)| format!("<{tag}>"));
                assert!(tags.filter(|tag| tag.contains(part)).count() == 0, "{address}: {part}");
            }
            let current = format!("<a href=\"{address}\" aria-current=\"");
            assert_eq!(html.matches(&current).count(), 1, "{address} is marked");
        }
    }

    #[test]
    fn neighbors_are_linked() {
        for pair in PAGES.windows(2) {
            let (one, other) = (text(get(pair[0].path, None, "*/*")), text(get(pair[1].path, None, "*/*")));
            assert!(
                one.contains(&format!("<link rel=\"next\" href=\"/manual/{}\">", pair[1].path)),
                "{}",
                pair[0].path
            );
            assert!(
                other.contains(&format!("<a rel=\"prev\" href=\"/manual/{}\">", pair[0].path)),
                "{}",
                pair[1].path
            );
        }
    }

    #[test]
    fn addresses_of_earlier_versions_redirect_to_served_pages() {
        for (old, new) in MOVED {
            let response = get(&format!("{old}.md"), None, "*/*").expect("a redirection");
            assert_eq!(response.status(), StatusCode::PERMANENT_REDIRECT, "{old}");
            assert_eq!(response.headers()[header::LOCATION], format!("/manual/{new}"));
            assert_eq!(get(new, None, "*/*").expect("a page").status(), StatusCode::OK, "{new}");
        }
        assert!(get("none", None, "*/*").is_none());
    }

    #[test]
    fn pages_come_in_the_type_asked_for() {
        let html = "text/html; charset=utf-8";
        for (path, query, accept, content_type) in [
            ("explanation/ha-groups", None, "*/*", html),
            ("explanation/ha-groups.md", None, "*/*", html),
            ("explanation/ha-groups.md", None, "text/html,application/xhtml+xml,*/*;q=0.8", html),
            ("explanation/ha-groups", None, "application/json", html),
            ("explanation/ha-groups", None, "text/markdown, text/html;q=0.5", html),
            ("explanation/ha-groups.md", Some("raw"), "text/html", PLAIN),
            ("explanation/ha-groups", Some("raw"), "*/*", PLAIN),
            ("explanation/ha-groups", None, "text/plain", PLAIN),
            ("explanation/ha-groups", None, "text/plain, text/html;q=0", PLAIN),
            ("explanation/ha-groups.md", None, "text/markdown", MARKDOWN),
            ("explanation/architecture.svg", None, "*/*", "image/svg+xml"),
            ("images/console-now.png", None, "*/*", "image/png"),
            ("monitoring/dashboard.json", None, "*/*", "application/json"),
            ("monitoring/alerts.yml", None, "*/*", PLAIN),
        ] {
            let response = get(path, query, accept).expect("a page");
            assert_eq!(response.headers()[header::CONTENT_TYPE], content_type, "{path} {query:?} {accept}");
        }
    }
}
