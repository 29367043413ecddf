//! Shapes of the documents that users write, as the existing tool reads them into its own structures.
//!
//! Members of a shape are sent under the name that the exchange uses, regardless of their case in the file; unknown
//! members are left out. Members that only the exchange sets are accepted and not sent, so that a listed document can
//! be written again. Source: agbot 5.3.

mod ha_group;
mod nmp;
mod node;
mod pattern;
mod policy;
mod service;
mod user_input;

use evenkeel_domain::review::{self, Finding, identity};
use evenkeel_ids::PolicyId;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub use ha_group::HaGroupFile;
pub use nmp::NmpFile;
pub use node::{NodeFile, NodePolicyFile, ServicePolicyFile};
pub use pattern::PatternFile;
pub use policy::{DeploymentPolicyFile, complete_policy};
pub use service::{ServiceFile, complete_service};
pub use user_input::{UserInputFile, read_user_input};

use crate::exit::{CliError, Exit, Outcome};
use crate::input::Shaped;
use crate::output::warn;

/// A member that only the exchange sets: read, and not sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(input).map(|_| Self)
    }
}

/// Adds a label to a document, as the existing tool does.
fn fill_label(document: &mut Value) {
    if let Some(members) = document.as_object_mut() {
        members.entry("label").or_insert_with(|| Value::from(""));
    }
}

/// Refuses a policy without constraints when its file probably meant to have some, and warns about the others unless that is confirmed.
///
/// # Errors
/// With status 1.
pub fn require_constraints(what: &str, shaped: &Shaped, is_confirmed: bool) -> Outcome {
    let Shaped { document, unknown } = shaped;
    let selects = |member: &str| {
        let list = document.get(member).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).any(|text| !text.trim().is_empty())
    };
    if is_confirmed || selects("constraints") || selects("patterns") {
        return Ok(());
    }
    if let Some(one) = unknown.iter().find(|one| one.meant == Some("constraints")) {
        return Err(CliError::new(
            Exit::Input,
            format!("{what} was not sent"),
            format!(
                "it has no constraints, so it selects every node; {} was probably meant to be some",
                one.path
            ),
            "correct the member, or confirm with --no-constraints that every node is meant",
        ));
    }
    warn(format!("{what} has no constraints: it selects every node (--no-constraints confirms that)"));
    Ok(())
}

/// Refuses an HA group without members when its file probably meant to have some.
///
/// # Errors
/// With status 1.
pub fn require_members(what: &str, shaped: &Shaped) -> Outcome {
    let is_given = shaped.document.get("members").is_some_and(|members| !members.is_null());
    match shaped.unknown.iter().find(|one| one.meant == Some("members")) {
        Some(one) if !is_given => Err(CliError::new(
            Exit::Input,
            format!("{what} was not sent"),
            format!("it has no members; {} was probably meant to be some", one.path),
            "correct the member; an empty list in members means a group without nodes",
        )),
        _ => Ok(()),
    }
}

/// Refuses a deployment policy, or attributes of one, that can never work, and warns about probable mistakes.
///
/// # Errors
/// With status 1, naming the member and the rule.
pub fn check_policy(id: &PolicyId, document: &Value) -> Outcome {
    check(&format!("deployment policy {id}"), &review::deployment_policy(id, document))
}

/// Refuses a pattern that can never work.
///
/// # Errors
/// See [`check_policy`].
pub fn check_pattern(name: &str, document: &Value) -> Outcome {
    check(&format!("pattern {name}"), &review::pattern(document))
}

/// Refuses a management policy with malformed properties.
///
/// # Errors
/// See [`check_policy`].
pub fn check_management_policy(name: &str, document: &Value) -> Outcome {
    check(&format!("management policy {name}"), &review::properties("properties", document))
}

/// Refuses a service that can never work, and warns about members of its deployment that no agent reads.
///
/// # Errors
/// See [`check_policy`].
pub fn check_service(id: &str, document: &Value) -> Outcome {
    check(&format!("service {id}"), &review::service(document))
}

/// Refuses the policy of a node, or of a service, with malformed properties.
///
/// # Errors
/// See [`check_policy`].
pub fn check_properties(of: &str, document: &Value) -> Outcome {
    check(&format!("the policy of {of}"), &review::node_policy(document))
}

/// Refuses a name for a new object that can hardly be typed or read; `noun` is its kind.
///
/// # Errors
/// See [`check_policy`].
pub fn check_name(noun: &str, name: &str) -> Outcome {
    refuse_errors(&format!("{noun} {name} was not created"), &identity::name("its name", name))
}

/// Refuses a new secret that is trivial, and warns about a weak one; `of` names its owner.
///
/// # Errors
/// See [`check_policy`].
pub fn check_secret(of: &str, meaning: &str, secret: &str) -> Outcome {
    refuse_errors(
        &format!("the {meaning} of {of} was not set"),
        &identity::secret(&format!("the {meaning}"), secret),
    )
}

fn check(what: &str, findings: &[Finding]) -> Outcome {
    refuse_errors(&format!("{what} was not sent: it can never work in this form"), findings)
}

fn refuse_errors(failure: &str, findings: &[Finding]) -> Outcome {
    let errors: Vec<String> =
        findings.iter().filter(|finding| finding.is_error()).map(ToString::to_string).collect();
    if !errors.is_empty() {
        return Err(CliError::input(failure, errors.join("; "), "correct the named members"));
    }
    findings.iter().for_each(|finding| warn(finding.to_string()));
    Ok(())
}

#[cfg(test)]
mod tests;
