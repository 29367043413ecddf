//! The lenient reader: a deserializer over a JSON value.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Error, Map, Value};

use super::DecodeError;

/// Reads a JSON text.
///
/// # Errors
/// [`DecodeError`] when the text is not JSON, nests deeper than 127 levels, or holds a value of the wrong kind.
pub fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, DecodeError> {
    from_value(&serde_json::from_str(text)?)
}

/// Reads a JSON value.
///
/// # Errors
/// [`DecodeError`] when a value is of the wrong kind.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, DecodeError> {
    Ok(T::deserialize(Tolerant(value))?)
}

/// A value that deserializes as in the reference.
struct Tolerant<'a>(&'a Value);

/// Reads null as the empty value of the wanted type, everything else as usual.
macro_rules! null_is {
    ($($method:ident => $visit:ident($empty:expr);)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            if self.0.is_null() { visitor.$visit($empty) } else { self.0.$method(visitor) }
        })*
    };
}

impl<'de> Deserializer<'de> for Tolerant<'de> {
    type Error = Error;

    null_is! {
        deserialize_bool => visit_bool(false);
        deserialize_i8 => visit_i64(0);
        deserialize_i16 => visit_i64(0);
        deserialize_i32 => visit_i64(0);
        deserialize_i64 => visit_i64(0);
        deserialize_u8 => visit_u64(0);
        deserialize_u16 => visit_u64(0);
        deserialize_u32 => visit_u64(0);
        deserialize_u64 => visit_u64(0);
        deserialize_f32 => visit_f64(0.0);
        deserialize_f64 => visit_f64(0.0);
        deserialize_str => visit_str("");
        deserialize_string => visit_str("");
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(_) => self.deserialize_map(visitor),
            scalar => scalar.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_seq(Elements([].iter())),
            Value::Array(elements) => visitor.visit_seq(Elements(elements.iter())),
            other => other.deserialize_seq(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_map(Members::none()),
            Value::Object(members) => visitor.visit_map(Members::new(members, &[])),
            other => other.deserialize_map(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_map(Members::none()),
            Value::Object(members) => visitor.visit_map(Members::new(members, fields)),
            other => other.deserialize_map(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier ignored_any
    }
}

struct Elements<'de>(std::slice::Iter<'de, Value>);

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.0.next().map(|element| seed.deserialize(Tolerant(element))).transpose()
    }
}

/// The members of an object that the wanted structure has, each once, under the structure's name for it.
struct Members<'de> {
    members: std::vec::IntoIter<(&'de str, &'de Value)>,
    value: Option<&'de Value>,
}

impl<'de> Members<'de> {
    fn none() -> Self {
        Self { members: Vec::new().into_iter(), value: None }
    }

    /// Without wanted fields every member is kept: then a map is read, not a structure.
    fn new(members: &'de Map<String, Value>, fields: &'static [&'static str]) -> Self {
        let kept: Vec<(&str, &Value)> = if fields.is_empty() {
            members.iter().map(|(name, value)| (name.as_str(), value)).collect()
        } else {
            fields.iter().filter_map(|field| Some((*field, last_member(members, field)?))).collect()
        };
        Self { members: kept.into_iter(), value: None }
    }
}

/// Returns the last member of that name, ignoring case, that is not null.
fn last_member<'de>(members: &'de Map<String, Value>, field: &str) -> Option<&'de Value> {
    let mut matching = members.iter().filter(|(name, value)| is_same_name(name, field) && !value.is_null());
    matching.next_back().map(|(_, value)| value)
}

/// Two letters outside ASCII fold into ASCII ones: the long s and the Kelvin sign.
fn is_same_name(given: &str, field: &str) -> bool {
    let folded = given.chars().map(|letter| match letter {
        '\u{17F}' => 's',
        '\u{212A}' => 'k',
        other => other.to_ascii_lowercase(),
    });
    folded.eq(field.chars().map(|letter| letter.to_ascii_lowercase()))
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((name, value)) = self.members.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        let name: StrDeserializer<'_, Error> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        // A reader that requests a value before a name gets the value of an absent member.
        seed.deserialize(Tolerant(self.value.take().unwrap_or(&Value::Null)))
    }
}
