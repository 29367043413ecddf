//! Builds request paths from raw ids: every segment and every query value is percent-encoded.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::Value;

use crate::ClientError;

/// Characters that stay unencoded in a path segment (RFC 3986 unreserved, plus characters common in ids).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'@')
    .remove(b'*')
    .remove(b'!');
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A path below the base of the API, with query parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path {
    path: String,
    query: String,
    /// Largest response in bytes; `None` for that of every response.
    pub(crate) max_response: Option<usize>,
}

impl Path {
    /// A path of the given raw segments.
    pub fn new(segments: &[&str]) -> Self {
        segments.iter().fold(Self::default(), |path, segment| path.push(segment))
    }

    /// A path below `orgs/{org}`.
    pub fn org(org: &str, segments: &[&str]) -> Self {
        segments.iter().fold(Self::new(&["orgs", org]), |path, segment| path.push(segment))
    }

    /// Adds one raw segment; slashes in it are encoded. The dots of a segment that consists only of dots are encoded,
    /// because intermediaries would resolve it.
    pub fn push(mut self, segment: &str) -> Self {
        self.path.push('/');
        if segment == "." || segment == ".." {
            self.path.push_str(&segment.replace('.', "%2E"));
        } else {
            self.path.extend(utf8_percent_encode(segment, SEGMENT));
        }
        self
    }

    /// Adds a query parameter.
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.query.push(if self.query.is_empty() { '?' } else { '&' });
        self.query.extend(utf8_percent_encode(name, QUERY));
        self.query.push('=');
        self.query.extend(utf8_percent_encode(value, QUERY));
        self
    }

    /// Adds the members of a query as parameters, in their order; those that are null are left out.
    ///
    /// # Errors
    /// [`ClientError::Request`] for a query that is not an object of scalars.
    pub fn parameters<Q: Serialize>(self, query: &Q) -> Result<Self, ClientError> {
        let refused = |text: String| ClientError::Request(text);
        let members = match serde_json::to_value(query) {
            Ok(Value::Object(members)) => members,
            Ok(_) => return Err(refused("a query is an object".to_owned())),
            Err(error) => return Err(refused(error.to_string())),
        };
        members.into_iter().try_fold(self, |path, (name, value)| match value {
            Value::Null => Ok(path),
            Value::String(text) => Ok(path.query(&name, &text)),
            Value::Bool(_) | Value::Number(_) => Ok(path.query(&name, &value.to_string())),
            Value::Array(_) | Value::Object(_) => Err(refused(format!("{name} is not a scalar"))),
        })
    }

    /// Refuses a response of more bytes.
    pub(crate) fn at_most(mut self, bytes: usize) -> Self {
        self.max_response = Some(bytes);
        self
    }

    /// Marks the call as one that does not count as a heartbeat.
    pub fn no_heartbeat(self) -> Self {
        self.query("noheartbeat", "true")
    }

    pub(crate) fn text(&self, base: &str) -> String {
        format!("{base}{}{}", self.path, self.query)
    }

    /// The path without query, for log lines.
    pub fn shown(&self) -> &str {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_ids_stay_one_segment() {
        let path = Path::org("acme", &["nodes", "a/b?c#d %2F"]).query("x", "1&y=2");
        assert_eq!(path.text("/v1"), "/v1/orgs/acme/nodes/a%2Fb%3Fc%23d%20%252F?x=1%26y%3D2");
        assert_eq!(Path::new(&["..", "a.b"]).text(""), "/%2E%2E/a.b");
    }

    #[test]
    fn members_of_a_query_become_parameters_unless_they_are_null() {
        let query = serde_json::json!({"group": "o/g", "node": null, "limit": 5});
        let path = Path::new(&["a"]).parameters(&query).expect("scalars");
        assert_eq!(path.text(""), "/a?group=o%2Fg&limit=5");
        assert!(Path::new(&["a"]).parameters(&[1]).is_err());
    }

    #[test]
    fn usual_ids_are_left_readable() {
        assert_eq!(Path::new(&["me@acme.com_*_dev"]).text(""), "/me@acme.com_*_dev");
    }
}
