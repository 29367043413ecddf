//! Documents of `hzn apply` whose writes a second person has to approve.
//!
//! A write that nobody has approved is requested instead of carried out. The same documents, applied again, carry out what was approved.

use std::collections::BTreeMap;

use evenkeel_wire::exchange::plan_approval::{ApprovalWrite, PlanApproval};
use serde_json::{Value, json};

use super::document::DocumentKind;
use super::{Action, Step, shown_as};
use crate::approval;
use crate::context::{Context, Exchange};
use crate::diff::changes;
use crate::exit::{CliError, Exit, Outcome};
use crate::output::print_note;

/// Organization whose users write without an approval.
const ROOT: &str = "root";

/// What a step waits for, or is carried out with.
#[derive(Debug, Clone)]
pub(super) enum Approval {
    /// It has to be requested.
    Missing,
    /// This request waits for the second person.
    Pending(Box<PlanApproval>),
    /// It was approved, and is applied.
    Approved(Box<PlanApproval>),
    /// It was applied.
    Applied(Box<PlanApproval>),
}

impl Approval {
    /// Returns whether the step is not carried out now.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self, Self::Missing | Self::Pending(_))
    }

    fn request(&self) -> Option<&PlanApproval> {
        match self {
            Self::Missing => None,
            Self::Pending(request) | Self::Approved(request) | Self::Applied(request) => Some(request),
        }
    }

    /// The human-readable state.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Missing => "to be requested".to_owned(),
            Self::Pending(request) => format!("{} waits", request.id),
            Self::Approved(request) => format!("{} approved", request.id),
            Self::Applied(request) => format!("{} applied", request.id),
        }
    }

    /// The state for programs.
    pub(super) fn json(&self) -> Value {
        let state = match self {
            Self::Missing => "missing",
            Self::Pending(_) => "pending",
            Self::Approved(_) => "approved",
            Self::Applied(_) => "used",
        };
        json!({"state": state, "id": self.request().map(|request| &request.id)})
    }
}

/// Returns whether a step needs an approval where an organization requires it.
fn is_gated(step: &Step) -> bool {
    step.kind == DocumentKind::Policy && step.action != Action::Keep
}

/// Finds the approvals of the steps, by their positions; a step without an entry needs none.
///
/// # Errors
/// When the exchange does not respond.
pub(super) async fn find(steps: &[Step], exchange: &Exchange) -> Outcome<BTreeMap<usize, Approval>> {
    let mut found = BTreeMap::new();
    if exchange.caller.org == ROOT || !steps.iter().any(is_gated) || !is_required(exchange).await? {
        return Ok(found);
    }
    let mut open = approval::list(exchange, Some("pending"), usize::MAX).await?;
    open.extend(approval::list(exchange, Some("approved"), usize::MAX).await?);
    // The newest request counts: the plan of an earlier one may no longer hold. Ids are in the order of time.
    open.sort_by(|one, other| other.id.cmp(&one.id));
    for (position, step) in steps.iter().enumerate().filter(|(_, step)| is_gated(step)) {
        found.insert(position, of_step(step, &open, exchange).await?);
    }
    Ok(found)
}

async fn is_required(exchange: &Exchange) -> Outcome<bool> {
    let call = exchange.server.client.org_orchestration(&exchange.org);
    let settings = exchange.server.call("reading the settings of the organization", call).await?;
    Ok(settings.is_some_and(|settings| settings.as_value()["approval"] == "changes"))
}

async fn of_step(step: &Step, open: &[PlanApproval], exchange: &Exchange) -> Outcome<Approval> {
    let name = exchange.split(&step.name).1;
    for one in open.iter().filter(|one| one.policy.as_deref() == Some(name.as_str())) {
        let request = approval::read(exchange, &one.id).await?;
        if !request.write.as_ref().is_some_and(|write| is_of(step, write)) {
            continue;
        }
        return Ok(match request.state.as_str() {
            "pending" => Approval::Pending(Box::new(request)),
            "approved" => Approval::Approved(Box::new(request)),
            // It has ended since the list was read.
            _ => continue,
        });
    }
    Ok(Approval::Missing)
}

/// Returns whether a write is that of a step: signatures differ each time.
fn is_of(step: &Step, write: &ApprovalWrite) -> bool {
    match write {
        ApprovalWrite::DeploymentPolicy { document, .. } if step.action != Action::Remove => {
            let approved = shown_as(step.kind, &Value::Object(document.clone()));
            changes(&approved, &shown_as(step.kind, &step.wanted)).is_empty()
        }
        ApprovalWrite::DeploymentPolicyRemoval { .. } => step.action == Action::Remove,
        _ => false,
    }
}

/// Requires a reason for the requests that are made: the second person reads it.
///
/// # Errors
/// With status 1 without one.
pub(super) fn require_reason(approvals: &BTreeMap<usize, Approval>, reason: Option<&str>) -> Outcome {
    let is_needed = approvals.values().any(|approval| matches!(approval, Approval::Missing));
    if !is_needed || reason.is_some_and(|reason| !reason.trim().is_empty()) {
        return Ok(());
    }
    Err(CliError::input(
        "nothing was applied",
        "a second person has to approve writes of deployment policies in this organization, and reads the reason for them",
        "give --reason TEXT",
    ))
}

/// Carries a step out with its approval, or requests one.
///
/// # Errors
/// When the agbot plans or carries out nothing.
pub(super) async fn carry_out(
    (step, document): (&Step, Value),
    found: Approval,
    reason: Option<&str>,
    (context, exchange): (&Context, &Exchange),
) -> Outcome<Approval> {
    let reason = match found {
        Approval::Approved(request) => match approval::apply_request(context, exchange, &request.id).await {
            Ok(_) => return Ok(Approval::Applied(request)),
            // The plan that was approved no longer holds: another one has to be approved.
            Err((_, error)) if error.status() == Some(409) => reason.map_or(request.reason, str::to_owned),
            Err((failure, _)) => return Err(failure),
        },
        Approval::Missing => reason.unwrap_or_default().to_owned(),
        found => return Ok(found),
    };
    let policy = approval::own_name(exchange, &step.name)?;
    let write = match document {
        Value::Object(document) if step.action != Action::Remove => {
            ApprovalWrite::DeploymentPolicy { policy, document }
        }
        _ => ApprovalWrite::DeploymentPolicyRemoval { policy },
    };
    match approval::send_request(context, exchange, write, (reason, None)).await? {
        Some(request) => Ok(Approval::Pending(Box::new(request))),
        None => Ok(Approval::Missing),
    }
}

/// Fails if steps wait for a second person, with the commands that follow.
///
/// # Errors
/// With status 14 then.
pub(super) fn require_approved(approvals: &BTreeMap<usize, Approval>, file: &str) -> Outcome {
    let waiting: Vec<&PlanApproval> =
        approvals.values().filter(|approval| approval.is_waiting()).filter_map(Approval::request).collect();
    if waiting.is_empty() {
        return Ok(());
    }
    for request in &waiting {
        print_note(format!("request {} of {}: {}", request.id, request.requester, request.title));
        print_note(format!(
            "another user who may do that reads it with: hzn approval show {id}; and approves it with: hzn approval approve {id}",
            id = request.id
        ));
    }
    let count = waiting.len();
    Err(CliError::new(
        Exit::Approval,
        format!("{count} of the documents {} not applied", if count == 1 { "was" } else { "were" }),
        "a second person has to approve writes of deployment policies in this organization",
        format!("when the requests are approved: hzn apply -f {file}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(action: Action, wanted: Value) -> Step {
        Step { kind: DocumentKind::Policy, name: "o/p".to_owned(), action, changes: Vec::new(), wanted }
    }

    fn write(document: &Value) -> ApprovalWrite {
        let document = document.as_object().cloned().unwrap_or_default();
        ApprovalWrite::DeploymentPolicy { policy: "p".to_owned(), document }
    }

    #[test]
    fn approval_is_that_of_the_same_document_and_no_other() {
        let wanted =
            json!({"label": "l", "service": {"name": "s", "serviceVersions": [{"version": "2.0.0"}]}});
        let update = step(Action::Update, wanted.clone());
        let mut signed = wanted.clone();
        signed["service"]["serviceVersions"][0]["deployment_overrides_signature"] = json!("abc");
        signed["description"] = json!("l");
        assert!(is_of(&update, &write(&signed)), "signatures and defaults are no difference");
        for (path, value) in [
            ("/service/serviceVersions/0/version", json!("2.0.1")),
            ("/label", json!("m")),
            ("/service/serviceVersions", json!([])),
        ] {
            let mut other = wanted.clone();
            *other.pointer_mut(path).expect("a member") = value;
            assert!(!is_of(&update, &write(&other)), "{path}");
        }
        let mut with_settings = wanted;
        with_settings["orchestration"] = json!({"mode": "global"});
        assert!(!is_of(&update, &write(&with_settings)), "an approved document with more than is wanted");
        let removal = ApprovalWrite::DeploymentPolicyRemoval { policy: "p".to_owned() };
        assert!(is_of(&step(Action::Remove, Value::Null), &removal) && !is_of(&update, &removal));
    }

    #[test]
    fn steps_that_wait_end_with_a_status_of_their_own() {
        let request = Box::new(PlanApproval { id: "7".to_owned(), ..PlanApproval::default() });
        let of = |approval: Approval| BTreeMap::from([(0, approval)]);
        for done in [Approval::Applied(request.clone()), Approval::Missing] {
            assert_eq!(require_approved(&of(done), "f.yaml"), Ok(()));
        }
        let failure = require_approved(&of(Approval::Pending(request)), "f.yaml").expect_err("a failure");
        assert_eq!(failure.exit, Exit::Approval);
        assert!(failure.advice.ends_with("hzn apply -f f.yaml"), "{}", failure.advice);
        assert_eq!(require_reason(&of(Approval::Missing), Some("ticket")), Ok(()));
        for reason in [None, Some(" ")] {
            assert!(require_reason(&of(Approval::Missing), reason).is_err());
        }
    }
}
