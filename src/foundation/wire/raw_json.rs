//! JSON that is passed on whole.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A JSON document that is passed on exactly as it was received.
///
/// The command line prints the text that a server sent and sends the text of a user's file. That must preserve the
/// order of members, and members that this version does not know, which a typed body cannot guarantee. Calls whose
/// result is shown return this type, and it is the only way in which JSON without a shape leaves the client. Code that
/// decides by a member reads the typed body first, with [`RawJson::read`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Value);

impl RawJson {
    /// Reads the document as a typed body.
    ///
    /// # Errors
    /// When it has another shape.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.0)
    }

    /// Returns the document for display.
    #[must_use]
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// Returns the document for display.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.0
    }
}

impl From<Value> for RawJson {
    fn from(document: Value) -> Self {
        Self(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::node::NodeResponse;

    #[test]
    fn unknown_members_and_their_order_survive() {
        let text = r#"{"zeta":1,"name":"n","alpha":[null],"userInput":[{"x":1}]}"#;
        let document: RawJson = serde_json::from_str(text).expect("JSON");
        assert_eq!(serde_json::to_string(&document).expect("JSON"), text);
        let node: NodeResponse = document.read().expect("a node");
        assert_eq!((node.name.as_str(), node.user_input.get()), ("n", r#"[{"x":1}]"#));
    }
}
