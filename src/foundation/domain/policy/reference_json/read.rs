//! The lenient reader: a deserializer over a JSON value.

use std::cell::RefCell;
use std::rc::Rc;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Error, Map, Value};

use super::{DecodeError, MemberError, Read, Unknown};
use crate::object::nearest;

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
    Ok(T::deserialize(Tolerant(value, ()))?)
}

/// Reads a JSON value, and names the members that the wanted structure does not have.
///
/// # Errors
/// [`MemberError`] with the path of the first value of the wrong kind.
pub fn read_naming<T: DeserializeOwned>(value: &Value) -> Result<Read<T>, MemberError> {
    let trace = Trace::default();
    let read = T::deserialize(Tolerant(value, trace.clone()));
    let Log { unknown, failed } = trace.log.take();
    match read {
        Ok(value) => Ok(Read { value, unknown }),
        Err(error) => Err(MemberError { path: failed.unwrap_or_default(), reason: error.to_string() }),
    }
}

/// Notes taken while a value is read.
trait Notes: Clone {
    /// Returns the notes of a member.
    fn of_member(&self, name: &str) -> Self;
    /// Returns the notes of an element of a list.
    fn of_element(&self, index: usize) -> Self;
    /// Notes the members of an object that the wanted structure does not have.
    fn note_unknown(&self, members: &Map<String, Value>, fields: &'static [&'static str]);
    /// Notes that the value is of the wrong kind; the innermost value counts.
    fn note_failure(&self);
}

impl Notes for () {
    fn of_member(&self, _: &str) {}
    fn of_element(&self, _: usize) {}
    fn note_unknown(&self, _: &Map<String, Value>, _: &'static [&'static str]) {}
    fn note_failure(&self) {}
}

/// Position of a value, with the notes about the whole document.
#[derive(Clone, Default)]
struct Trace {
    path: String,
    log: Rc<RefCell<Log>>,
}

#[derive(Default)]
struct Log {
    unknown: Vec<Unknown>,
    failed: Option<String>,
}

impl Notes for Trace {
    fn of_member(&self, name: &str) -> Self {
        let separator = if self.path.is_empty() { "" } else { "." };
        Self { path: format!("{}{separator}{name}", self.path), log: Rc::clone(&self.log) }
    }

    fn of_element(&self, index: usize) -> Self {
        Self { path: format!("{}[{index}]", self.path), log: Rc::clone(&self.log) }
    }

    fn note_unknown(&self, members: &Map<String, Value>, fields: &'static [&'static str]) {
        let is_known = |name: &&String| fields.iter().any(|field| is_same_name(name, field));
        let unknown = members.keys().filter(|name| !is_known(name)).map(|name| Unknown {
            path: self.of_member(name).path,
            meant: nearest(fields.iter().copied(), name),
        });
        self.log.borrow_mut().unknown.extend(unknown);
    }

    fn note_failure(&self) {
        self.log.borrow_mut().failed.get_or_insert_with(|| self.path.clone());
    }
}

/// A value that deserializes as in the reference.
struct Tolerant<'a, N>(&'a Value, N);

/// Reads null as the empty value of the wanted type, everything else as usual.
macro_rules! null_is {
    ($($method:ident => $visit:ident($empty:expr);)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            if self.0.is_null() { visitor.$visit($empty) } else { self.0.$method(visitor) }
        })*
    };
}

impl<'de, N: Notes> Deserializer<'de> for Tolerant<'de, N> {
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
            Value::Null => visitor.visit_seq(Elements([].iter().enumerate(), self.1)),
            Value::Array(elements) => visitor.visit_seq(Elements(elements.iter().enumerate(), self.1)),
            other => other.deserialize_seq(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_map(Members::none(self.1)),
            Value::Object(members) => visitor.visit_map(Members::new(members, &[], self.1)),
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
            Value::Null => visitor.visit_map(Members::none(self.1)),
            Value::Object(members) => {
                self.1.note_unknown(members, fields);
                visitor.visit_map(Members::new(members, fields, self.1))
            }
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

struct Elements<'de, N>(std::iter::Enumerate<std::slice::Iter<'de, Value>>, N);

impl<'de, N: Notes> SeqAccess<'de> for Elements<'de, N> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((index, element)) = self.0.next() else { return Ok(None) };
        let notes = self.1.of_element(index);
        let read = seed.deserialize(Tolerant(element, notes.clone()));
        read.inspect_err(|_| notes.note_failure()).map(Some)
    }
}

/// The members of an object that the wanted structure has, each once, under the structure's name for it.
struct Members<'de, N> {
    members: std::vec::IntoIter<(&'de str, &'de Value)>,
    value: Option<(&'de str, &'de Value)>,
    notes: N,
}

impl<'de, N> Members<'de, N> {
    fn none(notes: N) -> Self {
        Self { members: Vec::new().into_iter(), value: None, notes }
    }

    /// Without wanted fields every member is kept: then a map is read, not a structure.
    fn new(members: &'de Map<String, Value>, fields: &'static [&'static str], notes: N) -> Self {
        let kept: Vec<(&str, &Value)> = if fields.is_empty() {
            members.iter().map(|(name, value)| (name.as_str(), value)).collect()
        } else {
            fields.iter().filter_map(|field| Some((*field, last_member(members, field)?))).collect()
        };
        Self { members: kept.into_iter(), value: None, notes }
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

impl<'de, N: Notes> MapAccess<'de> for Members<'de, N> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((name, value)) = self.members.next() else {
            return Ok(None);
        };
        self.value = Some((name, value));
        let name: StrDeserializer<'_, Error> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        // A reader that requests a value before a name gets the value of an absent member.
        let (name, value) = self.value.take().unwrap_or(("", &Value::Null));
        let notes = self.notes.of_member(name);
        let read = seed.deserialize(Tolerant(value, notes.clone()));
        read.inspect_err(|_| notes.note_failure())
    }
}
