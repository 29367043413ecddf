//! Addresses of pages, whose segments and fields are names that others chose.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters of names that stay as they are in addresses.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Returns a name as a segment of an address or a value in a query.
pub(crate) fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NAME).to_string()
}

/// Returns the address of a page of an organization, of which the segments are names.
pub(crate) fn address_of(org: &str, segments: &[&str]) -> String {
    let below = segments.iter().map(|segment| format!("/{}", encoded(segment)));
    format!("/console/orgs/{}{}", encoded(org), below.collect::<String>())
}

/// Returns fields as a query without its question mark; those with an empty value are left out.
pub(crate) fn query_of<'f>(fields: impl IntoIterator<Item = (&'f str, &'f str)>) -> String {
    let given = fields.into_iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> =
        given.map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    pairs.join("&")
}

/// Returns an address with further fields in its query; those with an empty value are left out.
pub(crate) fn with_fields<'f>(address: &str, fields: impl IntoIterator<Item = (&'f str, &'f str)>) -> String {
    let query = query_of(fields);
    let mark = match address.contains('?') {
        _ if query.is_empty() => "",
        true => "&",
        false => "?",
    };
    format!("{address}{mark}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_segments_of_addresses() {
        for (name, address) in [("edge-1", "edge-1"), ("a/b", "a%2Fb"), ("<ü>", "%3C%C3%BC%3E")] {
            assert_eq!(encoded(name), address);
        }
        assert_eq!(address_of("o", &[]), "/console/orgs/o");
        assert_eq!(address_of("ü", &["nodes", "a/b c"]), "/console/orgs/%C3%BC/nodes/a%2Fb%20c");
    }

    #[test]
    fn hostile_values_stay_in_their_fields() {
        let hostile = "a&b=c#d?e/f%00 \"<img>'+;\r\n\u{202e}";
        let query = query_of([("name", hostile), ("none", ""), ("x&y", "1")]);
        let read: Vec<(String, String)> =
            url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let fields =
            [("name", hostile), ("x&y", "1")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read, fields);
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.~%=&".contains(letter);
        assert!(query.chars().all(is_plain), "{query}");
        assert_eq!(with_fields("/nodes", [("after", "a b")]), "/nodes?after=a%20b");
        assert_eq!(with_fields("/nodes?state=up", [("after", "?")]), "/nodes?state=up&after=%3F");
        assert_eq!(with_fields("/nodes", [("after", "")]), "/nodes");
    }
}
