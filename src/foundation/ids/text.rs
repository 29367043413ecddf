//! The shared text that all ids consist of.

/// Implements reading and printing the text of an id, which is its only field.
macro_rules! text_id {
    ($name:ident) => {
        impl $name {
            /// Returns the whole text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

pub(crate) use text_id;
