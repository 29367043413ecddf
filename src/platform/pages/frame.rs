//! The frame of a page: head, header, columns and footer.

use askama::Template;

use crate::Markup;
use crate::asset::{ICON, SCRIPT, STYLE};

/// A part of what a listener serves to browsers, which the header links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    Start,
    Manual,
    Console,
}

/// A `<link>` in the head of a page, such as the next page of a book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadLink<'a> {
    pub rel: &'a str,
    pub href: &'a str,
}

/// A whole page.
/// # Shape
/// `main` has the page's only `h1`. `aside` is the column before it, with the element `id="contents"`, or empty; `outline` the one
/// after it, or empty. `tools` stands in the header.
#[derive(Template)]
#[template(path = "frame.html")]
pub struct Frame<'a> {
    pub title: &'a str,
    pub area: Area,
    pub head_links: &'a [HeadLink<'a>],
    /// Addresses of further scripts.
    pub scripts: &'a [&'a str],
    pub tools: &'a Markup,
    pub aside: &'a Markup,
    pub main: &'a Markup,
    pub outline: &'a Markup,
}

impl Frame<'_> {
    /// Returns the document.
    #[must_use]
    pub fn html(&self) -> String {
        self.render().expect("the template calls no fallible filter, and a string takes every text")
    }

    /// Returns the version of the program.
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    fn style() -> &'static str {
        STYLE.href()
    }

    fn script() -> &'static str {
        SCRIPT.href()
    }

    fn icon() -> &'static str {
        ICON.href()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(title: &str) -> String {
        let none = Markup::default();
        let main = Markup::trusted("<h1>Text</h1>");
        let head_links = [HeadLink { rel: "next", href: "/manual/\"><script>" }];
        let (tools, aside, outline) = (&none, &none, &none);
        Frame {
            title,
            area: Area::Manual,
            head_links: &head_links,
            scripts: &[],
            tools,
            aside,
            main: &main,
            outline,
        }
        .html()
    }

    #[test]
    fn text_is_escaped_and_markup_is_not() {
        let page = frame("a < b & \"c\"");
        assert!(page.contains("<title>a &#60; b &#38; &#34;c&#34; – Evenkeel</title>"), "{page}");
        assert!(page.contains("<h1>Text</h1>"), "{page}");
        assert!(!page.contains("\"><script>"), "{page}");
    }

    #[test]
    fn page_has_its_landmarks_and_a_link_to_its_content() {
        let page = frame("Title");
        for part in
            ["<html lang=\"en\">", "href=\"#main\"", "<main id=\"main\"", "<header", "<footer", "<nav"]
        {
            assert_eq!(page.matches(part).count(), 1, "{part}: {page}");
        }
        assert!(page.contains("href=\"/manual\" aria-current=\"true\""), "{page}");
        assert!(page.contains(env!("CARGO_PKG_VERSION")), "{page}");
    }

    #[test]
    fn page_needs_nothing_inline_and_nothing_of_another_host() {
        let page = frame("Title");
        for part in [" style=", "<style", " onclick=", "http://", "https://"] {
            assert!(!page.contains(part), "{part}: {page}");
        }
        assert_eq!(page.matches("<script").count(), 1, "{page}");
        assert!(page.contains(&format!("<script src=\"{}\" defer></script>", SCRIPT.href())), "{page}");
    }
}
