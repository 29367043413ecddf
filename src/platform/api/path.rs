//! The parameters in the path of a request as typed values.

use std::ops::Range;

use crate::Refusal;

/// The parameters of a path, in its order.
pub trait PathParameters: Sized + Send + Sync + 'static {
    /// Reads the decoded parameters in their order; `None` when the path has another number of them.
    fn from_values(values: &mut dyn Iterator<Item = &str>) -> Option<Self>;

    /// The organization.
    fn org(&self) -> Option<&str> {
        None
    }

    /// The bare id of the resource.
    fn id(&self) -> Option<&str> {
        None
    }
}

impl PathParameters for () {
    fn from_values(_: &mut dyn Iterator<Item = &str>) -> Option<Self> {
        Some(())
    }
}

/// Declares the parameters of paths: an organization, the bare id of a resource of it, and whatever follows.
#[macro_export]
macro_rules! paths {
    ($(
        $(#[$about:meta])*
        $visibility:vis struct $name:ident {
            $(#[$about_org:meta])* $org:ident
            $(, $(#[$about_id:meta])* $id:ident $(, $(#[$about_part:meta])* $part:ident)*)?
        }
    )*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone)]
        $visibility struct $name {
            $(#[$about_org])* $visibility $org: String,
            $($(#[$about_id])* $visibility $id: String, $($(#[$about_part])* $visibility $part: String,)*)?
        }

        impl $crate::PathParameters for $name {
            fn from_values(values: &mut dyn Iterator<Item = &str>) -> Option<Self> {
                Some(Self {
                    $org: values.next()?.to_owned(),
                    $($id: values.next()?.to_owned(), $($part: values.next()?.to_owned(),)*)?
                })
            }

            fn org(&self) -> Option<&str> {
                Some(&self.$org)
            }

            $(fn id(&self) -> Option<&str> {
                Some(&self.$id)
            })?
        }
    )*};
}

paths! {
    /// An organization in a path.
    pub struct OrgPath {
        /// The organization.
        org
    }

    /// A resource of an organization in a path.
    pub struct ResourcePath {
        /// The organization.
        org,
        /// The bare id of the resource.
        id
    }

    /// A part of a resource in a path.
    pub struct PartPath {
        /// The organization.
        org,
        /// The bare id of the resource.
        id,
        /// The part.
        part
    }
}

/// The values of the parameters in a path.
#[derive(Debug)]
pub enum PathValues {
    /// Their positions in a path that needs no decoding.
    Plain(Positions),
    /// Decoded.
    Decoded(Vec<String>),
}

/// Positions of the parameters in a path, which has at most two.
#[derive(Debug, Clone, Default)]
pub struct Positions(pub [Option<Range<usize>>; 2]);

impl Positions {
    /// The parameters of the path in which they were found.
    pub fn of<'p>(&self, path: &'p str) -> impl Iterator<Item = &'p str> {
        self.0.iter().flatten().filter_map(|range| path.get(range.clone()))
    }
}

impl PathValues {
    /// Reads the parameters of a path.
    ///
    /// # Errors
    /// 500 when the path has another number of them.
    pub(crate) fn parse<P: PathParameters>(&self, path: &str) -> Result<P, Refusal> {
        let parsed = match self {
            PathValues::Plain(positions) => P::from_values(&mut positions.of(path)),
            PathValues::Decoded(values) => {
                let mut values = values.iter().map(String::as_str);
                P::from_values(&mut values).filter(|_| values.next().is_none())
            }
        };
        parsed.ok_or_else(|| Refusal::internal("the handler expects other parameters than its path has"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_in_their_order() {
        let decoded = |values: &[&str]| PathValues::Decoded(values.iter().map(ToString::to_string).collect());
        let part: PartPath = decoded(&["o", "n", "p"]).parse("").expect("three");
        assert_eq!((part.org.as_str(), part.id.as_str(), part.part.as_str()), ("o", "n", "p"));
        assert_eq!((part.org(), part.id()), (Some("o"), Some("n")));
        let org: OrgPath = PathValues::Plain(Positions([Some(1..3), None])).parse("/oo/x").expect("one");
        assert_eq!((org.org(), org.id()), (Some("oo"), None));
        for wrong in [&["o"][..], &["o", "n", "p"]] {
            assert!(decoded(wrong).parse::<ResourcePath>("").is_err());
        }
    }
}
