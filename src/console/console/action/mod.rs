//! Actions: each shows its plan and its `hzn` line first, and is carried out only if the plan still holds.

mod catalog;
mod control;
mod plan;

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};

use evenkeel_wire::exchange::plan_approval::ApprovalWrite;

use crate::address::{address_of, with_fields};
use crate::approval;
use crate::failure::Failure;
use crate::form::{Form, Query};
use crate::layout::{self, Tab};
use crate::session::Reader;

use catalog::{Action, Target};
pub(crate) use control::Control;
use plan::Plan;

#[derive(Template)]
#[template(path = "plan.html")]
struct PlanPage<'a> {
    action: &'static Action,
    target: &'a Target,
    plan: &'a Plan,
    token: String,
    command: String,
    /// Where the reader came from.
    back: String,
    /// True if the state has changed since the plan was shown.
    is_renewed: bool,
    /// True if the action is requested, because a second person has to approve it.
    is_request: bool,
}

#[derive(Template)]
#[template(path = "done.html")]
struct DonePage<'a> {
    action: &'static Action,
    target: &'a Target,
    /// Why parts of it were left as they are.
    refused: Vec<String>,
    back: String,
}

/// Shows what an action would do.
pub(crate) async fn show_plan(
    reader: Reader,
    Path((org, name)): Path<(String, String)>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let (action, target) = chosen(&org, &name, &form)?;
    let plan = Plan::of(&reader, action, &target).await?;
    let is_request = to_approve(&reader, action, &target).await?.is_some();
    Ok(planned(&reader, action, &target, &plan, (false, is_request)))
}

fn planned(
    reader: &Reader,
    action: &'static Action,
    target: &Target,
    plan: &Plan,
    (is_renewed, is_request): (bool, bool),
) -> Response {
    let command = if is_request { action.request_command(target) } else { (action.command)(target) };
    let (token, back) = (plan.token(action, target), back_to(target));
    let body = PlanPage { action, target, plan, token, command, back, is_renewed, is_request };
    layout::show(reader, &target.org, tab(target), action.title, &body)
}

/// Carries an action out, unless its plan no longer holds.
pub(crate) async fn carry_out(
    reader: Reader,
    Path((org, name)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Failure> {
    let (action, target) = chosen(&org, &name, &form)?;
    let plan = Plan::of(&reader, action, &target).await?;
    let to_approve = to_approve(&reader, action, &target).await?;
    if form.require("token")? != plan.token(action, &target) {
        return Ok(planned(&reader, action, &target, &plan, (true, to_approve.is_some())));
    }
    if let Some(write) = to_approve {
        return approval::request(&reader, &org, write, form.require("reason")?).await;
    }
    let refused = catalog::run(&reader, action, &target).await?;
    if !refused.is_empty() {
        return Ok(done(&reader, action, &target, refused));
    }
    // A page that is loaded again must not carry the action out again.
    let path = address_of(&org, &["do", action.name, "done"]);
    Ok(Redirect::to(&with_fields(&path, target.parts())).into_response())
}

/// Returns the write that a second person has to approve; none if the reader carries the action out.
async fn to_approve(
    reader: &Reader,
    action: &Action,
    target: &Target,
) -> Result<Option<ApprovalWrite>, Failure> {
    match action.to_approve(target) {
        Some(write) if approval::is_needed(reader, &target.org).await? => Ok(Some(write)),
        _ => Ok(None),
    }
}

/// Shows that an action was accepted.
pub(crate) async fn show_done(
    reader: Reader,
    Path((org, name)): Path<(String, String)>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let (action, target) = chosen(&org, &name, &form)?;
    Ok(done(&reader, action, &target, Vec::new()))
}

fn done(reader: &Reader, action: &'static Action, target: &Target, refused: Vec<String>) -> Response {
    let body = DonePage { action, target, refused, back: back_to(target) };
    layout::show(reader, &target.org, tab(target), action.title, &body)
}

fn chosen(org: &str, name: &str, form: &Form) -> Result<(&'static Action, Target), Failure> {
    let action = Action::find(name).ok_or_else(|| Failure::Missing(format!("there is no action {name}")))?;
    Ok((action, Target::read(org, action, form)?))
}

fn tab(target: &Target) -> Tab {
    match target {
        Target { group: Some(_), .. } => Tab::Groups,
        Target { policy: Some(_), .. } => Tab::Policies,
        _ => Tab::Nodes,
    }
}

fn back_to(target: &Target) -> String {
    let segments: &[&str] = match target {
        Target { group: Some(group), .. } => &["groups", group],
        Target { policy: Some(policy), .. } => &["policies", policy],
        Target { node: Some(node), .. } => &["nodes", node],
        _ => &["now"],
    };
    address_of(&target.org, segments)
}
