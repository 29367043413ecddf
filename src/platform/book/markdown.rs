//! A page of Markdown as HTML.

use pulldown_cmark::{
    Alignment, CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html,
};

use crate::highlight::{escape_into, highlight};
use crate::slug::Slugs;

/// Bytes of code in a table that is shown in one line: names break badly at their hyphens.
const LONGEST_WHOLE_CODE: usize = 26;

/// A heading of a page.
pub(crate) struct Heading {
    pub(crate) level: usize,
    pub(crate) id: String,
    pub(crate) text: String,
}

/// A page as HTML.
pub(crate) struct Article {
    pub(crate) html: String,
    /// In the order of the page.
    pub(crate) headings: Vec<Heading>,
    /// The text that readers see, for the search.
    pub(crate) words: String,
}

/// Renders the page at `path` below `docs/`.
pub(crate) fn render(text: &str, path: &str) -> Article {
    let mut renderer = Renderer { path, ..Renderer::default() };
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    for event in Parser::new_ext(text, options) {
        renderer.add(event);
    }
    let mut html = String::with_capacity(text.len() * 2);
    html::push_html(&mut html, renderer.events.into_iter());
    Article { html, headings: renderer.headings, words: renderer.words }
}

#[derive(Default)]
struct Renderer<'a> {
    path: &'a str,
    events: Vec<Event<'a>>,
    headings: Vec<Heading>,
    words: String,
    slugs: Slugs,
    /// Position of the events of the heading that is open, and its text.
    heading: Option<(usize, String)>,
    /// Language and text of the code block that is open.
    code: Option<(String, String)>,
    table: Table,
}

/// Where in a table the renderer is.
#[derive(Default)]
struct Table {
    alignments: Vec<Alignment>,
    column: usize,
    is_open: bool,
    is_head: bool,
}

impl<'a> Renderer<'a> {
    fn add(&mut self, event: Event<'a>) {
        match event {
            Event::Start(Tag::Heading { .. }) => self.heading = Some((self.events.len(), String::new())),
            Event::End(TagEnd::Heading(level)) => self.end_heading(level),
            Event::Start(Tag::CodeBlock(kind)) => self.code = Some((language(&kind), String::new())),
            Event::End(TagEnd::CodeBlock) => self.end_code(),
            Event::Text(text) => self.add_text(text),
            Event::Code(text) => self.add_code(text),
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let dest_url = address(self.path, &dest_url).into();
                self.events.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
            }
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let dest_url = address(self.path, &dest_url).into();
                self.events.push(Event::Start(Tag::Image { link_type, dest_url, title, id }));
            }
            // Markup of a page is text; comments are for those who edit it.
            Event::Html(text) | Event::InlineHtml(text) if text.trim_start().starts_with("<!--") => {}
            Event::Html(text) | Event::InlineHtml(text) => self.add_text(text),
            Event::Start(tag) if self.starts_table(&tag) => {}
            Event::End(tag) if self.ends_table(tag) => {}
            Event::SoftBreak | Event::HardBreak => {
                self.words.push(' ');
                self.events.push(event);
            }
            other => {
                self.words.push('\n');
                self.events.push(other);
            }
        }
    }

    fn add_text(&mut self, text: CowStr<'a>) {
        self.words.push_str(&text);
        if let Some((_, code)) = &mut self.code {
            code.push_str(&text);
            return;
        }
        if let Some((_, heading)) = &mut self.heading {
            heading.push_str(&text);
        }
        self.events.push(Event::Text(text));
    }

    fn add_code(&mut self, text: CowStr<'a>) {
        self.words.push_str(&text);
        if let Some((_, heading)) = &mut self.heading {
            heading.push_str(&text);
        }
        if self.table.is_open && text.len() <= LONGEST_WHOLE_CODE {
            let mut code = String::new();
            escape_into(&mut code, &text);
            self.push_html(format!("<code class=\"whole\">{code}</code>"));
            return;
        }
        self.events.push(Event::Code(text));
    }

    fn end_heading(&mut self, level: HeadingLevel) {
        let Some((start, text)) = self.heading.take() else { return };
        let id = self.slugs.add(&text);
        let mut inner = String::new();
        html::push_html(&mut inner, self.events.drain(start..));
        let mut label = String::new();
        escape_into(&mut label, &text);
        let anchor = format!("<a class=\"anchor\" href=\"#{id}\" aria-label=\"Link to “{label}”\">#</a>");
        self.push_html(format!("<{level} id=\"{id}\">{inner}{anchor}</{level}>\n"));
        self.words.push('\n');
        self.headings.push(Heading { level: level as usize, id, text });
    }

    fn end_code(&mut self) {
        let Some((language, code)) = self.code.take() else { return };
        let colored = highlight(&code, &language);
        self.push_html(format!("<pre><code>{colored}</code></pre>\n"));
        self.words.push('\n');
    }

    /// Writes the beginning of a table or of a part of it; the classes replace the inline styles that browsers are not to apply.
    fn starts_table(&mut self, tag: &Tag<'_>) -> bool {
        match tag {
            Tag::Table(alignments) => {
                self.table = Table { alignments: alignments.clone(), is_open: true, ..Table::default() };
                self.push_html("<div class=\"scroll\"><table>\n".to_owned());
            }
            Tag::TableHead => {
                (self.table.column, self.table.is_head) = (0, true);
                self.push_html("<thead><tr>".to_owned());
            }
            Tag::TableRow => {
                self.table.column = 0;
                self.push_html("<tr>".to_owned());
            }
            Tag::TableCell => {
                let class = match self.table.alignments.get(self.table.column) {
                    Some(Alignment::Right) => " class=\"right\"",
                    Some(Alignment::Center) => " class=\"center\"",
                    _ => "",
                };
                self.table.column += 1;
                let element = if self.table.is_head { "th scope=\"col\"" } else { "td" };
                self.push_html(format!("<{element}{class}>"));
            }
            _ => return false,
        }
        self.words.push('\n');
        true
    }

    fn ends_table(&mut self, tag: TagEnd) -> bool {
        let html = match tag {
            TagEnd::Table => {
                self.table.is_open = false;
                "</tbody></table></div>\n"
            }
            TagEnd::TableHead => {
                self.table.is_head = false;
                "</tr></thead><tbody>\n"
            }
            TagEnd::TableRow => "</tr>\n",
            TagEnd::TableCell if self.table.is_head => "</th>",
            TagEnd::TableCell => "</td>",
            _ => return false,
        };
        self.push_html(html.to_owned());
        true
    }

    fn push_html(&mut self, html: String) {
        self.events.push(Event::Html(html.into()));
    }
}

/// Returns the language of a code block, the first word after its fence.
fn language(kind: &CodeBlockKind<'_>) -> String {
    match kind {
        CodeBlockKind::Fenced(info) => info.split_whitespace().next().unwrap_or_default().to_owned(),
        CodeBlockKind::Indented => String::new(),
    }
}

/// Returns the address of `target`, a link on the page at `path`.
fn address(path: &str, target: &str) -> String {
    if target.starts_with('#')
        || target.starts_with('/')
        || target.contains("://")
        || target.starts_with("mailto:")
    {
        return target.to_owned();
    }
    let (file, fragment) = target.split_once('#').map_or((target, None), |(file, one)| (file, Some(one)));
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    let page = parts.join("/");
    let fragment = fragment.map(|one| format!("#{one}")).unwrap_or_default();
    format!("/manual/{}{fragment}", page.strip_suffix(".md").unwrap_or(&page))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> String {
        render(text, "how-to/x.md").html
    }

    #[test]
    fn links_lead_to_rendered_pages() {
        for (target, expected) in [
            ("y.md", "/manual/how-to/y"),
            ("../reference/cli.md#hzn", "/manual/reference/cli#hzn"),
            ("../development.md", "/manual/development"),
            ("../monitoring/alerts.yml", "/manual/monitoring/alerts.yml"),
            ("#here", "#here"),
            ("https://example.org/a.md", "https://example.org/a.md"),
        ] {
            assert_eq!(address("how-to/x.md", target), expected, "{target}");
        }
        assert!(html("[y](y.md#a)").contains("href=\"/manual/how-to/y#a\""));
        assert!(html("![p](p.svg)").contains("src=\"/manual/how-to/p.svg\" alt=\"p\""));
    }

    #[test]
    fn headings_have_anchors() {
        let article = render("# A `b` & c\n\n## Two\n\n## Two\n", "x.md");
        let ids: Vec<(usize, &str, &str)> =
            article.headings.iter().map(|one| (one.level, one.id.as_str(), one.text.as_str())).collect();
        assert_eq!(ids, [(1, "a-b--c", "A b & c"), (2, "two", "Two"), (2, "two-1", "Two")]);
        assert!(article.html.contains("<h1 id=\"a-b--c\">A <code>b</code> &amp; c<a"), "{}", article.html);
    }

    #[test]
    fn tables_scroll_and_have_no_inline_style() {
        let html = html("| a | n |\n| --- | ---: |\n| x | 1 |\n");
        assert!(html.contains("<div class=\"scroll\"><table>"), "{html}");
        assert!(html.contains("<th scope=\"col\">a</th><th scope=\"col\" class=\"right\">n</th>"), "{html}");
        assert!(html.contains("<td>x</td><td class=\"right\">1</td>"), "{html}");
        assert!(!html.contains("style="), "{html}");
    }

    #[test]
    fn names_in_tables_stay_whole() {
        let long = "x-".repeat(20);
        let html = html(&format!("| a |\n| --- |\n| `agbot-listen` `<{long}>` |\n\n`data-dir`\n"));
        assert!(html.contains("<code class=\"whole\">agbot-listen</code>"), "{html}");
        assert!(html.contains(&format!("<code>&lt;{long}&gt;</code>")), "{html}");
        assert!(html.contains("<p><code>data-dir</code></p>"), "{html}");
    }

    #[test]
    fn markup_of_a_page_is_text() {
        let html = html("<!-- note -->\n\na <b>bold</b> word\n\n<script>alert(1)</script>\n");
        assert!(html.contains("a &lt;b&gt;bold&lt;/b&gt; word"), "{html}");
        assert!(html.contains("&lt;script&gt;") && !html.contains("note"), "{html}");
    }

    #[test]
    fn words_are_those_that_readers_see() {
        let words = render("# Title\n\nSome [text](y.md) and `code`.\n\n```sh\nhzn mon\n```\n| a | b |\n| - | - |\n| c | d |\n", "x.md").words;
        for word in ["Title", "text", "code", "hzn mon", "c", "d"] {
            assert!(words.contains(word), "{word}: {words}");
        }
        assert!(!words.contains("y.md"), "{words}");
    }
}
