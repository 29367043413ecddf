//! Deployment policies as users write them: without the members that only the exchange sets, and signed.

use serde_json::{Map, Value};

use super::kinds::POLICIES;
use crate::context::{Context, Exchange};
use crate::exit::Outcome;
use crate::signer::sign_policy;

/// Members that only the exchange sets. They are dropped, so that a listed policy can be added again.
pub const EXCHANGE_ONLY: [&str; 3] = ["owner", "created", "lastUpdated"];

/// Prepares a policy, or attributes of one, for sending: removes the members that only the exchange sets, and signs it.
///
/// # Errors
/// When it cannot be signed.
pub fn prepare(body: &mut Value, context: &Context) -> Outcome {
    without(body, &EXCHANGE_ONLY);
    sign_policy(body, context)
}

/// Returns a policy with changed attributes.
///
/// # Errors
/// When there is no such policy, or the exchange does not respond.
pub async fn merged(exchange: &Exchange, name: &str, changes: Option<&Map<String, Value>>) -> Outcome<Value> {
    let mut policy = POLICIES.read_one(exchange, name).await?.into_value();
    without(&mut policy, &EXCHANGE_ONLY);
    if let (Some(members), Some(changes)) = (policy.as_object_mut(), changes) {
        members.extend(changes.clone());
    }
    Ok(policy)
}

/// Removes members that a user cannot set.
pub fn without(document: &mut Value, members: &[&str]) {
    if let Some(object) = document.as_object_mut() {
        members.iter().for_each(|member| {
            object.shift_remove(*member);
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn listed_policy_can_be_added_again() {
        let mut policy = json!({"owner": "a/b", "label": "x", "lastUpdated": "t", "service": {}});
        without(&mut policy, &EXCHANGE_ONLY);
        assert_eq!(policy, json!({"label": "x", "service": {}}));
    }
}
