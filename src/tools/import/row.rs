//! One row in PostgreSQL's text form of COPY: split, validated value by value, and written again.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::table::Check;

/// Longest valid id; longer ones do not fit an index.
const MAX_ID: usize = 1_000;
const NOTHING: &[u8] = b"\\N";
const BEGINNING: &str = "1970-01-01T00:00:00Z";

/// The reason why a row is refused, with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unfit {
    /// The row's key.
    pub key: String,
    /// The value and its error.
    pub reason: String,
}

/// Validates one line (without its end) and appends it to `output` in the target's form.
pub(super) fn carry(line: &[u8], columns: &[(&str, Check)], output: &mut Vec<u8>) -> Result<(), Unfit> {
    let start = output.len();
    let mut fields = line.split(|byte| *byte == b'\t');
    let key = fields.next().unwrap_or_default();
    output.extend_from_slice(key);
    let mut outcome = Ok(());
    for (name, check) in columns {
        output.push(b'\t');
        let field = fields.next().ok_or_else(|| "the source sent too few values".to_owned());
        if let Err(reason) = field.and_then(|field| carry_value(field, *check, output)) {
            outcome = Err(Unfit {
                key: text(key).unwrap_or_default().into_owned(),
                reason: words(name, *check, &reason),
            });
            break;
        }
    }
    if outcome.is_ok() {
        output.push(b'\n');
    } else {
        output.truncate(start);
    }
    outcome
}

fn words(name: &str, check: Check, reason: &str) -> String {
    match check {
        Check::Present(reason) => reason.to_owned(),
        _ => format!("{name}: {reason}"),
    }
}

fn carry_value(field: &[u8], check: Check, output: &mut Vec<u8>) -> Result<(), String> {
    if field == NOTHING {
        return carry_nothing(check, output);
    }
    let value = text(field)?;
    match check {
        Check::Id => check_id(&value)?,
        Check::List | Check::Object | Check::OptionalObject if value.is_empty() => {
            return carry_nothing(check, output);
        }
        Check::List => check_json(&value, '[')?,
        Check::Object | Check::OptionalObject => check_json(&value, '{')?,
        Check::Time | Check::OptionalTime => return carry_time(&value, check, output),
        Check::OptionalHash if value.is_empty() => return carry_nothing(check, output),
        Check::HashOrEmpty if value.is_empty() => {}
        Check::Hash | Check::OptionalHash | Check::HashOrEmpty => check_hash(&value)?,
        _ => {}
    }
    output.extend_from_slice(field);
    Ok(())
}

fn carry_nothing(check: Check, output: &mut Vec<u8>) -> Result<(), String> {
    let written: &[u8] = match check {
        Check::Text | Check::HashOrEmpty => b"",
        Check::List => b"[]",
        Check::Object => b"{}",
        Check::Time => BEGINNING.as_bytes(),
        Check::OptionalText | Check::OptionalObject | Check::OptionalTime | Check::OptionalHash => NOTHING,
        Check::Id
        | Check::Flag
        | Check::Whole
        | Check::Uuid
        | Check::Hash
        | Check::Texts
        | Check::Bytes
        | Check::Present(_) => {
            return Err("it is missing".to_owned());
        }
    };
    output.extend_from_slice(written);
    Ok(())
}

fn carry_time(value: &str, check: Check, output: &mut Vec<u8>) -> Result<(), String> {
    if value.is_empty() {
        return carry_nothing(check, output);
    }
    let instant: Timestamp = value
        .strip_suffix("[UTC]")
        .unwrap_or(value)
        .parse()
        .map_err(|_| format!("'{}' is not an instant", shortened(value)))?;
    output.extend_from_slice(instant.to_string().as_bytes());
    Ok(())
}

fn check_id(value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Err("it is empty".to_owned());
    }
    if value.len() > MAX_ID {
        return Err(format!("it has more than {MAX_ID} bytes"));
    }
    if value.chars().any(char::is_whitespace) {
        return Err("it has a blank".to_owned());
    }
    Ok(())
}

fn check_json(value: &str, opening: char) -> Result<(), String> {
    let parsed: Result<&RawValue, _> = serde_json::from_str(value);
    if let Err(error) = parsed {
        return Err(format!("it is not JSON: {error}"));
    }
    if value.contains("\\u0000") {
        return Err("it has the character NUL".to_owned());
    }
    if !value.trim_start().starts_with(opening) {
        let wanted = if opening == '[' { "list" } else { "object" };
        return Err(format!("it is not a JSON {wanted}"));
    }
    Ok(())
}

fn check_hash(value: &str) -> Result<(), String> {
    let is_bcrypt =
        value.len() == 60 && ["$2a$", "$2b$", "$2y$"].iter().any(|prefix| value.starts_with(prefix));
    let is_argon = value.starts_with("$argon2id$") && value.split('$').count() == 6;
    if is_bcrypt || is_argon { Ok(()) } else { Err("it is not an Argon2id or bcrypt hash".to_owned()) }
}

fn shortened(value: &str) -> String {
    value.chars().take(40).collect()
}

/// Unescapes a field of COPY's text form.
fn text(field: &[u8]) -> Result<Cow<'_, str>, String> {
    let plain = if field.contains(&b'\\') { Cow::Owned(unescaped(field)) } else { Cow::Borrowed(field) };
    let not_text = || "it is not UTF-8".to_owned();
    match plain {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| not_text()),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| not_text()),
    }
}

fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut bytes = field.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'b') => 8,
                Some(b'f') => 12,
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'v') => 11,
                Some(other) => *other,
                None => b'\\',
            },
            other => *other,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(line: &str, columns: &[(&str, Check)]) -> Result<String, String> {
        let mut output = b"before\n".to_vec();
        let outcome = carry(line.as_bytes(), columns, &mut output);
        let written =
            String::from_utf8(output).expect("text").strip_prefix("before\n").expect("kept").to_owned();
        outcome.map(|()| written).map_err(|unfit| format!("{}|{}", unfit.key, unfit.reason))
    }

    #[test]
    fn good_values_go_through_as_they_are() {
        let columns = [("a", Check::Id), ("b", Check::Text), ("c", Check::List), ("d", Check::OptionalText)];
        let line = "o/n\tn\tone\\ttwo\\\\\t[{\"a\": \"x\\\\ny\"}]\t\\N";
        assert_eq!(carried(line, &columns).expect("good"), format!("{line}\n"));
    }

    #[test]
    fn absent_values_get_their_meaning() {
        let columns =
            [("a", Check::List), ("b", Check::Object), ("c", Check::OptionalObject), ("d", Check::Text)];
        assert_eq!(carried("k\t\t\t\t\\N", &columns).expect("good"), "k\t[]\t{}\t\\N\t\n");
        let hashes = [("a", Check::OptionalHash), ("b", Check::HashOrEmpty)];
        assert_eq!(carried("k\t\t", &hashes).expect("good"), "k\t\\N\t\n");
    }

    #[test]
    fn instants_of_the_reference_become_plain_ones() {
        let columns = [("a", Check::Time)];
        assert_eq!(
            carried("k\t2024-05-06T07:08:09.25Z[UTC]", &columns).expect("good"),
            "k\t2024-05-06T07:08:09.25Z\n"
        );
        assert_eq!(carried("k\t", &columns).expect("good"), "k\t1970-01-01T00:00:00Z\n");
        assert_eq!(carried("k\tyesterday", &columns), Err("k|a: 'yesterday' is not an instant".to_owned()));
    }

    #[test]
    fn invalid_rows_write_nothing_and_report_the_reason() {
        for (line, check, reason) in [
            ("k\t{}", Check::List, "k|x: it is not a JSON list"),
            ("k\t[1,", Check::List, "k|x: it is not JSON: EOF while parsing a value at line 1 column 3"),
            ("k\t[\"\\\\u0000\"]", Check::List, "k|x: it has the character NUL"),
            ("k\ta b", Check::Id, "k|x: it has a blank"),
            ("k\t", Check::Id, "k|x: it is empty"),
            ("k\tsecret", Check::Hash, "k|x: it is not an Argon2id or bcrypt hash"),
            ("k\t\\N", Check::Present("its owner is not there"), "k|its owner is not there"),
            ("k", Check::Text, "k|x: the source sent too few values"),
        ] {
            assert_eq!(carried(line, &[("x", check)]), Err(reason.to_owned()), "{line}");
        }
    }

    #[test]
    fn hashes_are_known_by_their_form() {
        let bcrypt = format!("k\t$2a$10${}", "x".repeat(53));
        assert!(carried(&bcrypt, &[("x", Check::Hash)]).is_ok());
        assert!(carried("k\t$argon2id$v=19$m=7168,t=5,p=1$c2FsdA$aGFzaA", &[("x", Check::Hash)]).is_ok());
    }
}
