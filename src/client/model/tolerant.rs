//! The macro behind the tolerant shapes.

/// Declares a struct whose fields all have defaults and read null as their default.
macro_rules! tolerant {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$field_meta])* #[serde(default, deserialize_with = "crate::model::or_default")] pub $field: $kind,)*
        }
    };
}
