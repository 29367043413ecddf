//! Tokens of plans: a plan is carried out only if it is still the one that its reader confirmed.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Returns the token of a plan, which differs when anything that was hashed for it does.
///
/// # Shape
/// `plan`: everything that the page of the plan shows and that the reader chose. The token guards against a state that has changed meanwhile; it
/// grants no right.
pub(crate) fn token_of(plan: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    plan.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_the_same_for_the_same_plan_only() {
        let token = token_of(&("drain", ["n1", "n2"]));
        assert_eq!(token, token_of(&("drain", ["n1", "n2"])));
        for other in [("pause", ["n1", "n2"]), ("drain", ["n1", "n3"]), ("drain", ["n1n", "2"])] {
            assert_ne!(token, token_of(&other), "{other:?}");
        }
        assert_eq!(token.len(), 16);
    }
}
