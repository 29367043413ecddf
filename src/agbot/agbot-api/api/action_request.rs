//! Reading what an action on a deployment policy is about.
//!
//! Source: orchestration 1.8, A6, C7.

use evenkeel_api::{BodyKind, Content, Input, Refusal};
use evenkeel_domain::object::{Members, Object};
use evenkeel_domain::orchestration::MembersError;
use evenkeel_wire::agbot::action::ActionRequest;
use serde_json::Value;

use super::parameters::known;
use super::pipeline::{AgbotRequest, Sent};

impl Input<AgbotRequest> for ActionRequest {
    const KIND: BodyKind = BodyKind::Raw;

    fn read(sent: Sent) -> Result<ActionRequest, Refusal> {
        let is_forced = is_forced(sent.uri.query().unwrap_or_default())?;
        let mut read = if sent.body.is_empty() { ActionRequest::default() } else { sent.members(of_body)? };
        read.force = is_forced.or(read.force);
        Ok(read)
    }

    fn body() -> Content {
        Content::read::<ActionRequest>()
    }
}

/// Reads `force` in the query, where the specification has it; other parameters are ignored.
///
/// # Source
/// Orchestration E4.5.
fn is_forced(query: &str) -> Result<Option<bool>, Refusal> {
    let given = query.split('&').find_map(|pair| pair.strip_prefix("force="));
    let read = given.map(|text| {
        let bad = || Refusal::invalid_input("force must be true or false");
        text.parse().map_err(|_| bad())
    });
    read.transpose()
}

/// Reads the body of an action.
///
/// # Errors
/// The first member that breaks a rule.
pub(super) fn of_body(value: Value) -> Result<ActionRequest, MembersError> {
    const MEMBERS: Members = known(&[
        "unit",
        "node",
        "destination",
        "force",
        "check",
        "check_capacity",
        "operation",
        "operation_params",
    ]);
    let mut object = Object::open(String::new(), value, &MEMBERS)?;
    let mut name = |member: &str| match object.text(member, evenkeel_api::MAX_ID)? {
        Some(text) if text.is_empty() || text.contains('\0') => Err(object.broken(member, "must be a name")),
        found => Ok(found),
    };
    let (workload_unit, node, operation) = (name("unit")?, name("node")?, name("operation")?);
    Ok(ActionRequest {
        workload_unit,
        node,
        destination: object.names("destination", 0..=1000, "nodes")?,
        force: object.boolean("force")?,
        check: object.boolean("check")?,
        check_capacity: object.boolean("check_capacity")?,
        operation,
        operation_params: object.take("operation_params"),
    })
}

/// Returns a member that only the action recover has.
pub(super) fn recovery_member(request: &ActionRequest) -> Option<&'static str> {
    let given = [
        ("check", request.check.is_some()),
        ("check_capacity", request.check_capacity.is_some()),
        ("operation", request.operation.is_some()),
        ("operation_params", request.operation_params.is_some()),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(member, _)| member)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn body_names_the_member_that_breaks_a_rule() {
        let refused = |value| of_body(value).unwrap_err().to_string();
        assert_eq!(refused(json!({"nodes": "n1"})), "nodes is not known; node was probably meant");
        assert_eq!(refused(json!({"node": 1})), "node must be a text");
        assert_eq!(refused(json!({"force": "yes"})), "force must be true or false");
        assert_eq!(refused(json!([])), "the body must be an object");
        let given = of_body(json!({"unit": null, "node": "n1", "destination": [], "force": false})).unwrap();
        assert_eq!((given.node.as_deref(), given.force), (Some("n1"), Some(false)));
    }
}
