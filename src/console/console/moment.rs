//! Instants as pages show them: how long ago, with the exact time for those who need it.

use askama::Template;
use jiff::Timestamp;

/// An instant.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(ext = "html", source = r#"<time datetime="{{ at }}" title="{{ at }}">{{ text }}</time>"#)]
pub(crate) struct Moment {
    /// As the API sent it.
    pub(crate) at: String,
    /// In words.
    pub(crate) text: String,
}

/// It is shown as an element, whose template escapes what it contains.
impl askama::filters::HtmlSafe for Moment {}

impl Moment {
    /// Describes an instant, seen now.
    pub(crate) fn new(at: &str, now: Timestamp) -> Self {
        // Some times of the exchange end with the name of the zone.
        let plain = at.split('[').next().unwrap_or(at);
        let text = match plain.parse::<Timestamp>() {
            Ok(instant) => ago(now.as_second().saturating_sub(instant.as_second())),
            Err(_) => at.to_owned(),
        };
        Self { at: plain.to_owned(), text }
    }

    /// Describes an instant that may be unknown.
    pub(crate) fn known(at: Option<&str>, now: Timestamp) -> Option<Self> {
        at.map(|at| Self::new(at, now))
    }
}

fn ago(secs: i64) -> String {
    // A clock of the hub may be ahead of this one.
    match u64::try_from(secs).unwrap_or(0) {
        0..=1 => "just now".to_owned(),
        secs @ 2..=119 => format!("{secs} s ago"),
        secs @ 120..=7_199 => format!("{} min ago", secs / 60),
        secs @ 7_200..=172_799 => format!("{} h ago", secs / 3_600),
        secs => format!("{} days ago", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_escapes_what_it_contains() {
        let now = Timestamp::UNIX_EPOCH;
        let moment = Moment::new("1970-01-01T00:00:00Z[UTC]", now).to_string();
        let instant = "1970-01-01T00:00:00Z";
        assert_eq!(moment, format!("<time datetime=\"{instant}\" title=\"{instant}\">just now</time>"));
        assert!(!Moment::new("\"><script>", now).to_string().contains("<script"));
    }

    #[test]
    fn age_is_in_the_largest_fitting_unit() {
        let now: Timestamp = "2026-03-03T00:00:00Z".parse().expect("an instant");
        for (at, text) in [
            ("2026-03-03T00:00:30Z", "just now"),
            ("2026-03-03T00:00:00Z", "just now"),
            ("2026-03-02T23:58:30.5Z", "90 s ago"),
            ("2026-03-02T23:00:00Z[UTC]", "60 min ago"),
            ("2026-03-02T00:00:00Z", "24 h ago"),
            ("2026-02-01T00:00:00Z", "30 days ago"),
            ("", ""),
            ("soon", "soon"),
        ] {
            assert_eq!(Moment::new(at, now).text, text, "{at}");
        }
    }
}
