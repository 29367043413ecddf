//! Pages of the book: its columns, and what stands around an article.

use askama::Template;
use evenkeel_pages::{Area, Frame, HeadLink, Markup};

use crate::contents::{Document, SECTIONS};
use crate::markdown::{Article, Heading};

/// Deepest level of headings beside a page.
const DEEPEST: usize = 3;
/// Beside pages with more headings stand only those of the second level.
const MOST_HEADINGS: usize = 60;
/// Sections of at least this many pages may continue in the next column of the overview.
const LONG_SECTION: usize = 20;

/// The column with all pages.
#[derive(Template)]
#[template(path = "navigation.html")]
struct Navigation<'a> {
    sections: Vec<Listed<'a>>,
    /// Address of the current page, or empty.
    current: &'a str,
}

/// The page with all sections.
#[derive(Template)]
#[template(path = "overview.html")]
struct Overview<'a> {
    sections: Vec<Listed<'a>>,
    version: &'static str,
}

/// A section with its pages.
struct Listed<'a> {
    title: &'static str,
    summary: &'static str,
    is_open: bool,
    pages: Vec<Entry<'a>>,
}

impl Listed<'_> {
    fn is_long(&self) -> bool {
        self.pages.len() >= LONG_SECTION
    }
}

struct Entry<'a> {
    href: String,
    title: &'a str,
}

#[derive(Template)]
#[template(path = "article.html")]
struct Body<'a> {
    version: &'static str,
    section: &'static str,
    article: Markup,
    outline: Vec<&'a Heading>,
    previous: Option<Entry<'a>>,
    next: Option<Entry<'a>>,
    raw: String,
}

#[derive(Template)]
#[template(path = "outline.html")]
struct Outline<'a> {
    outline: Vec<&'a Heading>,
}

#[derive(Template)]
#[template(path = "search_form.html")]
struct SearchForm<'a> {
    index: &'a str,
}

/// The pages of the book, and what all of them share.
pub(crate) struct Layout<'a> {
    pub(crate) pages: &'a [(Document, Article)],
    pub(crate) search_form: Markup,
}

impl<'a> Layout<'a> {
    /// Lays out `pages`; the search finds its index at `index`.
    pub(crate) fn new(pages: &'a [(Document, Article)], index: &str) -> askama::Result<Self> {
        Ok(Self { pages, search_form: Markup::render(&SearchForm { index })? })
    }

    /// Returns the column with all pages, in which the one at `current` is marked.
    pub(crate) fn navigation(&self, current: &str) -> askama::Result<Markup> {
        Markup::render(&Navigation { sections: self.sections(current), current })
    }

    /// Returns the document that lists all pages.
    pub(crate) fn overview(&self) -> askama::Result<String> {
        let overview = Overview { sections: self.sections(""), version: env!("CARGO_PKG_VERSION") };
        self.frame("Manual", "/manual", &[], &Markup::render(&overview)?, &Markup::default())
    }

    /// Returns the document of a page.
    pub(crate) fn page(&self, number: usize) -> askama::Result<String> {
        let (document, article) = &self.pages[number];
        let (previous, next) = (number.checked_sub(1), number + 1);
        let previous = previous.map(|one| entry(&self.pages[one].0));
        let next = self.pages.get(next).map(|(document, _)| entry(document));
        let mut links = Vec::new();
        links.extend(previous.as_ref().map(|one| HeadLink { rel: "prev", href: &one.href }));
        links.extend(next.as_ref().map(|one| HeadLink { rel: "next", href: &one.href }));
        let outline = outline(&article.headings);
        let column = if outline.len() < 2 {
            Markup::default()
        } else {
            Markup::render(&Outline { outline: outline.clone() })?
        };
        let body = Markup::render(&Body {
            version: env!("CARGO_PKG_VERSION"),
            section: SECTIONS[document.section].title,
            article: Markup::trusted(article.html.as_str()),
            outline,
            previous: previous.as_ref().map(Entry::again),
            next: next.as_ref().map(Entry::again),
            raw: format!("{}.md?raw", document.href()),
        })?;
        self.frame(&document.title, &document.href(), &links, &body, &column)
    }

    fn frame(
        &self,
        title: &str,
        current: &str,
        head_links: &[HeadLink<'_>],
        main: &Markup,
        outline: &Markup,
    ) -> askama::Result<String> {
        let aside = &self.navigation(current)?;
        let tools = &self.search_form;
        Ok(Frame { title, area: Area::Manual, head_links, scripts: &[], tools, aside, main, outline }.html())
    }

    fn sections(&self, current: &str) -> Vec<Listed<'a>> {
        let section = |(number, section): (usize, &crate::contents::Section)| {
            let own = self.pages.iter().filter(|(document, _)| document.section == number);
            let pages: Vec<Entry<'a>> = own.map(|(document, _)| entry(document)).collect();
            let is_open = pages.iter().any(|page| page.href == current);
            Listed { title: section.title, summary: section.summary, is_open, pages }
        };
        SECTIONS.iter().enumerate().map(section).collect()
    }
}

impl<'a> Entry<'a> {
    fn again(&self) -> Entry<'a> {
        Entry { href: self.href.clone(), title: self.title }
    }
}

fn entry(document: &Document) -> Entry<'_> {
    Entry { href: document.href(), title: &document.title }
}

/// Returns the headings that stand beside a page.
fn outline(headings: &[Heading]) -> Vec<&Heading> {
    let down_to = |deepest: usize| {
        headings.iter().filter(move |one| (2..=deepest).contains(&one.level)).collect::<Vec<&Heading>>()
    };
    let all = down_to(DEEPEST);
    if all.len() > MOST_HEADINGS { down_to(2) } else { all }
}
