//! Requests that a second person approves a plan: the list, and one with its plan and what its reader may do about it.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use evenkeel_client::ApprovalDecision;
use evenkeel_wire::exchange::plan_approval::{
    ApprovalPlan, ApprovalWrite, DecidePlanApproval, PlanApproval, PlanApprovalsQuery,
};
use jiff::Timestamp;

use super::moment::Moment;
use crate::address::{address_of, query_of};
use crate::failure::Failure;
use crate::form::{Form, Query};
use crate::layout::{self, Tab};
use crate::reads;
use crate::session::Reader;

/// Requests of a page.
const PAGE: i64 = 25;
/// States by which the list is filtered.
const STATES: [&str; 6] = ["pending", "approved", "used", "rejected", "canceled", "expired"];

struct ApprovalRow {
    href: String,
    created: Moment,
    approval: PlanApproval,
}

#[derive(Template)]
#[template(path = "approvals.html")]
struct ListPage {
    rows: Vec<ApprovalRow>,
    states: [(&'static str, bool); 6],
    /// True if the organization requires approvals.
    is_required: bool,
    is_first: bool,
    next: Option<String>,
}

/// Shows the requests of an organization.
pub(crate) async fn show(
    reader: Reader,
    Path(org): Path<String>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let (state, after) = (form.owned("state"), form.owned("after"));
    let is_first = after.is_none();
    let query = PlanApprovalsQuery { state: state.clone(), after, limit: Some(PAGE) };
    let found = reader.client.plan_approvals(&org, &query).await?;
    let now = Timestamp::now();
    let rows = found.approvals.into_iter().map(|approval| ApprovalRow {
        href: address_of(&org, &["approvals", &approval.id]),
        created: Moment::new(&approval.created_at, now),
        approval,
    });
    let selected = state.as_deref().unwrap_or_default();
    let next =
        found.next.map(|next| format!("?{}", query_of([("state", selected), ("after", next.as_str())])));
    let page = ListPage {
        rows: rows.collect(),
        states: STATES.map(|state| (state, state == selected)),
        is_required: reader.client.requires_plan_approval(&org).await?,
        is_first,
        next,
    };
    Ok(layout::show(&reader, &org, Tab::Approvals, "Approvals", &page))
}

/// What a reader may do about a request.
struct Decision {
    /// Its name in the form.
    name: &'static str,
    text: &'static str,
    /// Why it is disabled; empty if it is not.
    objection: String,
}

#[derive(Template)]
#[template(path = "approval.html")]
struct OnePage {
    approval: PlanApproval,
    plan: ApprovalPlan,
    created: Moment,
    decided: Option<Moment>,
    used: Option<Moment>,
    /// The document of the write as JSON; empty if it has none.
    document: String,
    policy_href: String,
    decisions: Vec<Decision>,
    /// Why nothing can be decided, if that is the same for all.
    note: String,
    command: String,
}

/// Shows a request with its plan.
pub(crate) async fn show_one(
    reader: Reader,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let found = reader.client.plan_approval(&org, &id).await?;
    let approval = found.ok_or_else(|| Failure::Missing(format!("there is no request {id}")))?;
    let account = reads::account(&reader).await?;
    let is_own = approval.requester == account.name;
    let decisions = decisions(&approval, is_own, account.administrates(&org), &account.name);
    let now = Timestamp::now();
    let policy_href =
        approval.policy.as_deref().map_or_else(String::new, |policy| address_of(&org, &["policies", policy]));
    let page = OnePage {
        plan: approval.plan.clone().unwrap_or_default(),
        created: Moment::new(&approval.created_at, now),
        decided: Moment::known(approval.decided_at.as_deref(), now),
        used: Moment::known(approval.used_at.as_deref(), now),
        document: document_of(approval.write.as_ref()),
        policy_href,
        note: note(&decisions),
        decisions,
        command: command(&approval),
        approval,
    };
    Ok(layout::show(&reader, &org, Tab::Approvals, "Approval", &page))
}

/// Returns what can be done about a request in its state.
fn decisions(approval: &PlanApproval, is_own: bool, is_admin: bool, account: &str) -> Vec<Decision> {
    let objection = approval.objection.clone().unwrap_or_default();
    let unless = |may: bool, why: &str| if may { String::new() } else { why.to_owned() };
    let decision = |name, text, objection| Decision { name, text, objection };
    let cancel = unless(is_own || is_admin, "only the requester and administrators cancel a request");
    let is_approver = approval.decided_by.as_deref() == Some(account);
    match approval.state.as_str() {
        "pending" => vec![
            decision("approve", "Approve the plan", objection.clone()),
            decision("reject", "Reject it", objection),
            decision("cancel", "Cancel the request", cancel),
        ],
        "approved" => vec![
            decision(
                "apply",
                "Carry it out",
                unless(is_own || is_approver, "only the requester and the user who approved it carry it out"),
            ),
            decision("reject", "Withdraw the approval", objection),
            decision("cancel", "Cancel the request", cancel),
        ],
        _ => Vec::new(),
    }
}

/// Returns the objection that all decisions share; empty if one is possible.
fn note(decisions: &[Decision]) -> String {
    let objections: Vec<&str> = decisions.iter().map(|one| one.objection.as_str()).collect();
    match objections.first() {
        Some(first) if objections.iter().all(|one| !one.is_empty()) => (*first).to_owned(),
        _ => String::new(),
    }
}

fn command(approval: &PlanApproval) -> String {
    let id = &approval.id;
    match approval.state.as_str() {
        "pending" => {
            let token = approval.plan.as_ref().map(|plan| plan.token.as_str()).unwrap_or_default();
            format!("hzn approval approve {id} --token {token}")
        }
        "approved" => format!("hzn approval apply {id}"),
        _ => format!("hzn approval show {id}"),
    }
}

fn document_of(write: Option<&ApprovalWrite>) -> String {
    let members = match write {
        Some(ApprovalWrite::DeploymentPolicy { document, .. }) => document,
        Some(ApprovalWrite::Settings { settings }) => settings,
        Some(ApprovalWrite::PolicyAction { request, .. }) if !request.is_empty() => request,
        _ => return String::new(),
    };
    serde_json::to_string_pretty(members).unwrap_or_default()
}

/// Decides about a request, or carries its write out.
pub(crate) async fn decide(
    reader: Reader,
    Path((org, id)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Failure> {
    let reason = form.owned("reason").unwrap_or_default();
    let decision = match form.require("do")? {
        "apply" => {
            reader.client.apply_plan_approval(&org, &id).await?;
            return Ok(to_one(&org, &id));
        }
        "approve" => ApprovalDecision::Approve,
        "reject" => ApprovalDecision::Reject,
        "cancel" => ApprovalDecision::Cancel,
        other => {
            return Err(Failure::Input(format!(
                "do: '{other}' is none of approve, reject, cancel and apply"
            )));
        }
    };
    // What is approved is the plan that the page has shown.
    let token = match decision {
        ApprovalDecision::Approve => Some(form.require("token")?.to_owned()),
        ApprovalDecision::Reject | ApprovalDecision::Cancel => None,
    };
    let body = DecidePlanApproval { reason, token };
    reader.client.decide_plan_approval(&org, &id, decision, &body).await?;
    Ok(to_one(&org, &id))
}

/// Leads to the page of a request: a page that is loaded again must not decide again.
fn to_one(org: &str, id: &str) -> Response {
    Redirect::to(&address_of(org, &["approvals", id])).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enabled(state: &str, objection: Option<&str>, is_own: bool) -> Vec<&'static str> {
        let approval = PlanApproval {
            state: state.to_owned(),
            objection: objection.map(str::to_owned),
            decided_by: Some("o/bob".to_owned()),
            ..PlanApproval::default()
        };
        let all = decisions(&approval, is_own, false, "o/ann");
        all.into_iter().filter(|one| one.objection.is_empty()).map(|one| one.name).collect()
    }

    #[test]
    fn requester_cancels_and_applies_and_others_decide() {
        assert_eq!(enabled("pending", Some("it is yours"), true), ["cancel"]);
        assert_eq!(enabled("pending", None, false), ["approve", "reject"]);
        assert_eq!(enabled("approved", Some("it is yours"), true), ["apply", "cancel"]);
        assert_eq!(enabled("approved", None, false), ["reject"]);
        for state in ["used", "rejected", "canceled", "expired"] {
            assert!(enabled(state, None, true).is_empty(), "{state}");
        }
    }

    #[test]
    fn shared_objection_is_shown_once() {
        let of = |state: &str, objection: Option<&str>| {
            let objection = objection.map(str::to_owned);
            let approval = PlanApproval { state: state.to_owned(), objection, ..PlanApproval::default() };
            note(&decisions(&approval, false, false, "o/eve"))
        };
        assert_eq!(of("pending", Some("you may not")), "you may not");
        assert_eq!(of("pending", None), "");
        assert_eq!(of("used", Some("it is used")), "");
    }
}
