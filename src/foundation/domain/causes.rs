//! Error messages: an error with its causes.

use std::error::Error;

/// Formats an error and its causes on one line, each part once.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let part = inner.to_string();
        if !text.ends_with(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct TestError(&'static str, Option<Box<TestError>>);

    impl fmt::Display for TestError {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str(self.0)
        }
    }

    impl Error for TestError {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as &(dyn Error + 'static))
        }
    }

    #[test]
    fn chain_contains_every_cause_once() {
        let disk = TestError("the disk is full", None);
        let file = TestError("cannot write d/file: the disk is full", Some(Box::new(disk)));
        let record = TestError("cannot keep the record", Some(Box::new(file)));
        assert_eq!(chain(&record), "cannot keep the record: cannot write d/file: the disk is full");
        assert_eq!(chain(&TestError("alone", None)), "alone");
    }
}
