//! Duplicate member names.
//!
//! A JSON parser silently keeps the last one, so that the file and the deployed document differ.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Returns the names that occur more than once in an object of a document.
///
/// # Errors
/// When the document cannot be read.
pub fn repeated_names<'de, D: Deserializer<'de>>(document: D) -> Result<BTreeSet<String>, D::Error> {
    let mut repeated = BTreeSet::new();
    Walk { repeated: &mut repeated }.deserialize(document)?;
    Ok(repeated)
}

struct Walk<'a> {
    repeated: &'a mut BTreeSet<String>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, document: D) -> Result<(), D::Error> {
        document.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, document: D) -> Result<(), D::Error> {
        document.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while elements.next_element_seed(Walk { repeated: self.repeated })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if names.contains(&name) {
                self.repeated.insert(name);
            } else {
                names.insert(name);
            }
            members.next_value_seed(Walk { repeated: self.repeated })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_within_each_object() {
        let names =
            |text: &str| repeated_names(&mut serde_json::Deserializer::from_str(text)).expect("a document");
        assert!(names(r#"{"a": {"a": [{"b": 1.5}, {"b": -1}, null, true, "b"]}, "b": 2}"#).is_empty());
        let repeated = names(r#"{"x": [{"a": 1, "b": {"c": 1, "c": 2}, "a": {}}], "x": 1}"#);
        assert_eq!(repeated.into_iter().collect::<Vec<_>>(), ["a", "c", "x"]);
        let yaml = repeated_names(serde_yaml_ng::Deserializer::from_str("a: 1\nb: {c: 1}\na: 2\n"));
        assert_eq!(yaml.expect("a document").into_iter().collect::<Vec<_>>(), ["a"]);
        for empty in ["", "# nothing\n", "a: null\nb:\n", "a: !t 1\nb: !t {c: 1}\n"] {
            let names = repeated_names(serde_yaml_ng::Deserializer::from_str(empty));
            let value = serde_yaml_ng::Deserializer::from_str(empty);
            let value = <serde_json::Value as serde::Deserialize>::deserialize(value);
            assert_eq!(names.is_ok(), value.is_ok(), "{empty:?}: {names:?} {value:?}");
        }
    }
}
