//! Colors of code, as classes of the style sheet.

use std::sync::LazyLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};
use syntect::util::LinesWithEndings;

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(SyntaxSet::load_defaults_newlines);

/// Beginnings of scopes, and the class that shows them; the first that matches from the innermost scope outwards decides.
const CLASSES: [(&str, &str); 16] = [
    ("comment", "c"),
    ("punctuation.definition.comment", "c"),
    ("meta.structure.dictionary.key", "f"),
    ("string.other.keyvalue", "f"),
    ("string", "s"),
    ("constant", "n"),
    ("variable.parameter", "v"),
    ("variable.other", "v"),
    ("variable.function", "f"),
    ("support.function", "f"),
    ("support.type", "f"),
    ("entity.name", "f"),
    ("punctuation.definition.variable", "v"),
    ("keyword.operator", ""),
    ("keyword", "k"),
    ("storage", "k"),
];

static SCOPES: LazyLock<Vec<(Scope, &'static str)>> = LazyLock::new(|| {
    let scope = |name: &str| Scope::new(name).expect("the table has names of scopes");
    CLASSES.iter().map(|(name, class)| (scope(name), *class)).collect()
});

/// Returns `code` as escaped HTML, with a class for each part that its language distinguishes.
pub(crate) fn highlight(code: &str, language: &str) -> String {
    let mut html = String::with_capacity(code.len() * 2);
    let Some(syntax) = syntax(language) else {
        escape_into(&mut html, code);
        return html;
    };
    let (mut state, mut stack, mut span) = (ParseState::new(syntax), ScopeStack::new(), Span::default());
    for line in LinesWithEndings::from(code) {
        // A line that the grammar cannot read stays without colors.
        let operations = state.parse_line(line, &SYNTAXES).unwrap_or_default();
        let mut start = 0;
        for (end, operation) in operations {
            span.push(&mut html, &line[start..end], &stack);
            start = end;
            if stack.apply(&operation).is_err() {
                stack = ScopeStack::new();
            }
        }
        span.push(&mut html, &line[start..], &stack);
    }
    span.close(&mut html);
    html
}

fn syntax(language: &str) -> Option<&'static SyntaxReference> {
    let token = match language {
        // The set has no grammar of these two; this one knows comments, keys and values.
        "toml" | "ini" => "properties",
        other => other,
    };
    SYNTAXES.find_syntax_by_token(token).filter(|_| !token.is_empty())
}

/// The element that is open; neighbors of one class share it.
#[derive(Default)]
struct Span(&'static str);

impl Span {
    fn push(&mut self, html: &mut String, text: &str, stack: &ScopeStack) {
        if text.is_empty() {
            return;
        }
        let class = class(stack);
        if class != self.0 && !text.trim().is_empty() {
            self.close(html);
            if !class.is_empty() {
                html.push_str(&format!("<span class=\"{class}\">"));
            }
            self.0 = class;
        }
        escape_into(html, text);
    }

    fn close(&mut self, html: &mut String) {
        if !self.0.is_empty() {
            html.push_str("</span>");
        }
        self.0 = "";
    }
}

fn class(stack: &ScopeStack) -> &'static str {
    let mut scopes = stack.scopes.iter().rev();
    let found = scopes.find_map(|scope| SCOPES.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope)));
    found.map_or("", |(_, class)| *class)
}

/// Appends `text` with the letters replaced that HTML would read as its own.
pub(crate) fn escape_into(html: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            other => html.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_variables_of_a_shell_have_classes() {
        let html = highlight("# note\necho \"$HUB\" > /tmp/a && true\n", "sh");
        assert!(html.contains("<span class=\"c\"># note"), "{html}");
        assert!(html.contains("<span class=\"f\">echo"), "{html}");
        assert!(html.contains("<span class=\"v\">$HUB</span>"), "{html}");
        assert!(html.contains("&gt; /tmp/a &amp;&amp;"), "{html}");
    }

    #[test]
    fn every_language_of_the_pages_has_a_grammar() {
        for language in ["sh", "json", "yaml", "toml", "ini", "rust"] {
            assert!(syntax(language).is_some(), "{language}");
        }
        assert_eq!(highlight("a < b\n", "unknown"), "a &lt; b\n");
        assert_eq!(highlight("a < b\n", ""), "a &lt; b\n");
    }

    #[test]
    fn keys_and_values_differ() {
        let html = highlight("{\"a\": \"b\", \"n\": 1}\n", "json");
        assert!(html.contains("class=\"s\">&quot;b&quot;</span>"), "{html}");
        assert!(html.contains("class=\"n\">1</span>"), "{html}");
        assert_eq!(html.matches("<span").count(), html.matches("</span>").count());
    }
}
