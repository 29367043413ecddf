//! Example bodies, by the name of their schema.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::{Content as Media, ContentBuilder, RefOr};

use crate::Content;

/// One example of each schema.
#[derive(Default)]
pub struct Examples {
    by_schema: BTreeMap<String, Value>,
}

impl Examples {
    /// Reads JSON objects that hold an example under the name of each schema.
    ///
    /// # Errors
    /// A text that is no such object.
    pub fn parse(texts: &[&str]) -> Result<Examples, serde_json::Error> {
        let mut by_schema = BTreeMap::new();
        for text in texts {
            by_schema.extend(serde_json::from_str::<BTreeMap<String, Value>>(text)?);
        }
        Ok(Examples { by_schema })
    }

    /// The examples of a body, by the name of the schema; nothing for a schema without one.
    #[must_use]
    pub fn of(&self, content: &Content) -> Vec<(String, Option<Value>)> {
        let Content::Json(json) = content else { return Vec::new() };
        let example = |name: &str, is_list: bool| {
            let value = self.by_schema.get(name).cloned()?;
            Some(if is_list { json!([value]) } else { value })
        };
        json.kinds.iter().map(|kind| (kind.name.clone(), example(&kind.name, kind.is_list))).collect()
    }

    /// The names of all schemas that have an example.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_schema.keys().map(String::as_str)
    }

    /// A body with its examples.
    pub(crate) fn media(&self, content: &Content, media: ContentBuilder) -> Media {
        let mut found: Vec<(String, Value)> =
            self.of(content).into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        match found.len() {
            0 => media.build(),
            1 => media.example(found.pop().map(|(_, value)| value)).build(),
            _ => {
                media
                    .examples_from_iter(found.into_iter().map(|(name, value)| {
                        (name, RefOr::T(ExampleBuilder::new().value(Some(value)).build()))
                    }))
                    .build()
            }
        }
    }
}
