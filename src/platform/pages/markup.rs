//! Text that is HTML already.

use std::fmt::{self, Display};

use askama::filters::HtmlSafe;
use askama::{FastWritable, Template, Values};

/// Text that is HTML already, which templates therefore insert as it is.
/// # Shape
/// Balanced elements without a document around them; everything that came from outside is escaped in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Markup(String);

impl Markup {
    /// Renders a template, which escapes what it inserts.
    /// # Errors
    /// None of a template that calls no fallible filter.
    pub fn render(template: &impl Template) -> askama::Result<Self> {
        Ok(Self(template.render()?))
    }

    /// Takes HTML that a renderer of this program has made.
    #[must_use]
    pub fn trusted(html: impl Into<String>) -> Self {
        Self(html.into())
    }

    /// Returns the HTML.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if there is nothing to insert.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Display for Markup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FastWritable for Markup {
    fn write_into(&self, target: &mut dyn fmt::Write, _: &dyn Values) -> askama::Result<()> {
        Ok(target.write_str(&self.0)?)
    }
}

impl HtmlSafe for Markup {}
