//! Reading responses of an exchange: fields that are missing, null or unknown are not errors, so that every version and
//! every implementation of the API can be read.
//!
//! Requests are parsed the other way round: unknown members are refused, and scalars of another type are accepted ([`super::lenient`]).

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error, IgnoredAny, IntoDeserializer, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::Value;
use serde_json::value::RawValue;

/// A text that is the same in every response, such as the asterisks in place of a secret; it is not read.
pub type FixedText = &'static str;

/// Declares the body of a response.
///
/// Every field that is not an `Option` has a default when it is read and is required in the document of the API. `part` marks a
/// field whose type is also that of a request, which refuses unknown members. `paged` at the end adds what ends a page of a list.
macro_rules! response {
    ($(#[$meta:meta])* pub struct $name:ident { $($fields:tt)* }) => {
        response!(@fields [$(#[$meta])* pub struct $name] [] $($fields)*);
    };
    (@fields [$($head:tt)*] [$($done:tt)*]) => {
        #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        #[serde(rename_all = "camelCase")]
        $($head)* { $($done)* }
    };
    (@fields [$($head:tt)*] [$($done:tt)*] paged) => {
        response!(@fields [$($head)*] [$($done)*
            /// Value of `after` for the next page; left out on the last one, and in a list that is sent whole.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub next: Option<String>,
            /// Number of entries on all pages, if it was requested.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub count: Option<u64>,
            /// True if there may be more entries than `count`.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub count_is_minimum: Option<bool>,
        ]);
    };
    (@fields [$($head:tt)*] [$($done:tt)*] $(#[$meta:meta])* $field:ident: Option<$kind:ty>, $($rest:tt)*) => {
        response!(@fields [$($head)*] [$($done)* $(#[$meta])* pub $field: Option<$kind>,] $($rest)*);
    };
    (@fields [$($head:tt)*] [$($done:tt)*] $(#[$meta:meta])* $field:ident: FixedText, $($rest:tt)*) => {
        response!(@fields [$($head)*] [$($done)* $(#[$meta])*
            #[serde(default, deserialize_with = "crate::exchange::response::fixed_text")]
            #[schema(value_type = String, required = true)]
            pub $field: crate::exchange::response::FixedText,
        ] $($rest)*);
    };
    (@fields [$($head:tt)*] [$($done:tt)*] $(#[$meta:meta])* $field:ident: part $kind:ty, $($rest:tt)*) => {
        response!(@fields [$($head)*] [$($done)* $(#[$meta])*
            #[serde(default, deserialize_with = "crate::exchange::response::typed_part")]
            #[schema(required = true)]
            pub $field: $kind,
        ] $($rest)*);
    };
    (@fields [$($head:tt)*] [$($done:tt)*] $(#[$meta:meta])* $field:ident: $kind:ty, $($rest:tt)*) => {
        response!(@fields [$($head)*] [$($done)* $(#[$meta])*
            #[serde(default, deserialize_with = "crate::exchange::response::or_default")]
            #[schema(required = true)]
            pub $field: $kind,
        ] $($rest)*);
    };
}

/// Reads null like a missing field.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    input: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(input).map(Option::unwrap_or_default)
}

pub(crate) fn fixed_text<'de, D: Deserializer<'de>>(input: D) -> Result<FixedText, D::Error> {
    IgnoredAny::deserialize(input).map(|_| "")
}

pub(crate) fn typed_part<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    input: D,
) -> Result<T, D::Error> {
    part_of(Value::deserialize(input)?).map_err(D::Error::custom)
}

/// Reads a part that the exchange passes on as it was stored; null is the default.
///
/// Lists of objects inside the objects of a part are read as strictly as in a request.
///
/// # Errors
/// When a field that must be there is missing, or has a value of another kind.
pub fn part<T: DeserializeOwned + Default>(stored: &RawValue) -> Result<T, serde_json::Error> {
    serde_json::from_str(stored.get()).and_then(part_of)
}

/// Like [`part`], of a value that was read already.
///
/// # Errors
/// As those of [`part`].
pub fn part_of<T: DeserializeOwned + Default>(stored: Value) -> Result<T, serde_json::Error> {
    Option::<T>::deserialize(Tolerant(stored)).map(Option::unwrap_or_default)
}

/// Removes unknown and null members from objects before they are read into a shape.
struct Tolerant(Value);

impl IntoDeserializer<'_, serde_json::Error> for Tolerant {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Tolerant {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
            Value::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(Tolerant))),
            Value::Object(members) => {
                let members = members.into_iter().map(|(name, value)| (name, Tolerant(value)));
                visitor.visit_map(MapDeserializer::new(members))
            }
            scalar => scalar.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        let Value::Object(mut members) = self.0 else {
            return Err(Self::Error::custom("an object is expected"));
        };
        members.retain(|name, value| !value.is_null() && fields.contains(&name.as_str()));
        Self(Value::Object(members)).deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exchange::node::{NodeResponse, RegisteredService};

    #[test]
    fn fields_that_are_missing_null_or_unknown_are_no_errors() {
        let node: NodeResponse =
            serde_json::from_value(json!({"name": "n", "userInput": null, "owner": null, "more": 1}))
                .expect("readable");
        assert_eq!((node.name.as_str(), node.owner.as_str(), node.token), ("n", "", ""));
        assert_eq!(node.user_input.get(), "null");
    }

    #[test]
    fn parts_are_read_by_the_shape_of_the_request_without_what_it_refuses() {
        let stored = json!([{"url": "o/s", "more": 1, "policy": null, "configState": "suspended",
                             "properties": [{"name": "a", "value": "b", "propType": "string", "op": "in"}]}]);
        assert!(serde_json::from_value::<Vec<RegisteredService>>(stored.clone()).is_err());
        let read: Vec<RegisteredService> = part_of(stored).expect("readable");
        assert_eq!((read[0].url.as_str(), read[0].config_state.as_str()), ("o/s", "suspended"));
        assert_eq!(read[0].properties[0].name, "a");
        assert_eq!(part_of::<Vec<RegisteredService>>(Value::Null).expect("null"), []);
        assert!(part_of::<Vec<RegisteredService>>(json!([[1]])).is_err());
    }
}
