//! The writer, whose text equals the reference's.

use std::io;

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;
use serde_json::ser::Formatter;

use crate::policy::property::{Property, PropertyList};

/// Writes a value as the reference does.
///
/// # Panics
/// Never for the types of this crate: they serialize into strings, numbers, lists and objects with text keys only.
pub fn to_text<T: Serialize>(value: &T) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, ReferenceFormatter);
    value.serialize(&mut serializer).expect("types of this crate serialize into memory without fail");
    String::from_utf8(bytes).expect("the writer puts out text only")
}

/// Serializes any value in the reference's form: members sorted by name, numbers as 64-bit floating point.
pub(crate) fn plain_value<S: Serializer>(value: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    Plain(value).serialize(serializer)
}

/// Serializes properties with [`plain_value`] for their values.
pub(crate) fn properties<S: Serializer>(list: &PropertyList, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.iter().map(PlainProperty))
}

struct Plain<'a>(&'a Value);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Number(number) => match number.as_f64() {
                Some(number) => plain_number(number, serializer),
                None => number.serialize(serializer),
            },
            Value::Array(elements) => {
                let mut list = serializer.serialize_seq(Some(elements.len()))?;
                elements.iter().try_for_each(|element| list.serialize_element(&Plain(element)))?;
                list.end()
            }
            Value::Object(members) => {
                let mut sorted: Vec<_> = members.iter().collect();
                sorted.sort_by_key(|(name, _)| *name);
                let mut map = serializer.serialize_map(Some(sorted.len()))?;
                sorted.into_iter().try_for_each(|(name, value)| map.serialize_entry(name, &Plain(value)))?;
                map.end()
            }
            other => other.serialize(serializer),
        }
    }
}

/// Integers stay integers for every writer; minus zero and integers beyond 53 bits are written as floating point.
fn plain_number<S: Serializer>(number: f64, serializer: S) -> Result<S::Ok, S::Error> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let is_whole =
        number.fract() == 0.0 && number.abs() <= EXACT && !(number == 0.0 && number.is_sign_negative());
    #[expect(clippy::cast_possible_truncation, reason = "whole and within 53 bits")]
    if is_whole { serializer.serialize_i64(number as i64) } else { serializer.serialize_f64(number) }
}

struct PlainProperty<'a>(&'a Property);

impl Serialize for PlainProperty<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let property = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &property.name)?;
        map.serialize_entry("value", &Plain(&property.value))?;
        if !property.declared.is_undeclared() {
            map.serialize_entry("type", &property.declared)?;
        }
        map.end()
    }
}

struct ReferenceFormatter;

impl Formatter for ReferenceFormatter {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(number_text(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, escaped) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut letters = escaped.chars();
            if let Some(letter) = letters.next() {
                write!(writer, "\\u{:04x}", u32::from(letter))?;
            }
            rest = letters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

/// Returns the shortest digits that read back as the number; with an exponent below 1e-6 and from 1e21 on.
fn number_text(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}
