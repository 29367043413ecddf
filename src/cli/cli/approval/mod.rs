//! `hzn approval`: a second person approves the plan of a write, where the organization requires it.

mod request;
mod text;

pub(crate) use request::{own_name, send_request};

use clap::{Args, Subcommand};
use evenkeel_client::{ApprovalDecision, ClientError};
use evenkeel_wire::exchange::plan_approval::{
    AppliedPlanApproval, DecidePlanApproval, PlanApproval, PlanApprovalsQuery,
};
use serde_json::Value;

use crate::context::{Context, Exchange, UserOptions};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, print_note};
use crate::wait::{Progress, Wait};

const LIST_WITH: &str = "hzn approval list";
/// Requests of one page.
const PAGE: i64 = 100;

/// Options of `approval`.
#[derive(Debug, Args)]
pub struct ApprovalArguments {
    #[command(flatten)]
    user: UserOptions,
    #[command(subcommand)]
    command: ApprovalCommand,
}

#[derive(Debug, Subcommand)]
enum ApprovalCommand {
    /// Plans a write and requests that a second person approves it
    #[command(subcommand)]
    Request(request::RequestCommand),
    /// Lists requests, newest first
    List {
        /// Only requests in this state: pending, approved, rejected, canceled, used or expired
        #[arg(long, value_name = "STATE", value_parser = ["pending", "approved", "rejected", "canceled", "used", "expired"])]
        state: Option<String>,
        /// Show at most this number of requests
        #[arg(long, value_name = "NUMBER", default_value_t = 100)]
        most: usize,
    },
    /// Shows a request with its plan
    Show {
        /// Id of the request
        id: String,
        #[command(flatten)]
        wait: Wait,
    },
    /// Approves the plan of a request of another user
    Approve {
        /// Id of the request
        id: String,
        /// Token of the plan that you have read; another plan is not approved [default: the plan that is shown now]
        #[arg(long, value_name = "TOKEN")]
        token: Option<String>,
        /// Reason
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Rejects a request of another user, or withdraws its approval before it is applied
    Reject {
        /// Id of the request
        id: String,
        /// Reason
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Cancels a request of your own, or, as an administrator, of another user
    Cancel {
        /// Id of the request
        id: String,
        /// Reason
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Carries out an approved write once, if its plan still holds
    Apply {
        /// Id of the request
        id: String,
    },
}

/// Runs a command for approvals.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(arguments: ApprovalArguments, context: &Context) -> Outcome {
    let exchange = context.exchange(&arguments.user, None)?;
    match arguments.command {
        ApprovalCommand::Request(command) => request::run(command, context, &exchange).await,
        ApprovalCommand::List { state, most } => {
            let found = list(&exchange, state.as_deref(), most).await?;
            context.screen.show(&view(&found))
        }
        ApprovalCommand::Show { id, wait } => {
            follow(&wait, context, &exchange, &id).await?;
            show(context, &read(&exchange, &id).await?)
        }
        ApprovalCommand::Approve { id, token, reason } => {
            let token = match token {
                Some(token) => token,
                None => {
                    let found = read(&exchange, &id).await?;
                    print_note(text::plan_text(&found).trim_end());
                    found.plan.unwrap_or_default().token
                }
            };
            let decision = DecidePlanApproval { reason: reason.unwrap_or_default(), token: Some(token) };
            decide(context, &exchange, &id, ApprovalDecision::Approve, decision).await
        }
        ApprovalCommand::Reject { id, reason } => {
            let decision = DecidePlanApproval { reason: reason.unwrap_or_default(), token: None };
            decide(context, &exchange, &id, ApprovalDecision::Reject, decision).await
        }
        ApprovalCommand::Cancel { id, reason } => {
            let decision = DecidePlanApproval { reason: reason.unwrap_or_default(), token: None };
            decide(context, &exchange, &id, ApprovalDecision::Cancel, decision).await
        }
        ApprovalCommand::Apply { id } => apply(context, &exchange, &id).await,
    }
}

/// Reads a request with its write and its plan.
///
/// # Errors
/// With status 8 when there is none.
pub(crate) async fn read(exchange: &Exchange, id: &str) -> Outcome<PlanApproval> {
    let doing = format!("reading request {id}");
    let call = exchange.server.client.plan_approval(&exchange.org, id);
    let found = exchange.server.call(&doing, call).await?;
    found.ok_or_else(|| missing(id))
}

fn missing(id: &str) -> CliError {
    CliError::not_found("request for an approval", id, LIST_WITH)
}

/// Lists at most `most` requests in a state, newest first.
///
/// # Errors
/// When the exchange does not respond.
pub(crate) async fn list(
    exchange: &Exchange,
    state: Option<&str>,
    most: usize,
) -> Outcome<Vec<PlanApproval>> {
    let mut all: Vec<PlanApproval> = Vec::new();
    let state = state.map(str::to_owned);
    let mut query = PlanApprovalsQuery { state, after: None, limit: Some(PAGE) };
    loop {
        let call = exchange.server.client.plan_approvals(&exchange.org, &query);
        let page = exchange.server.call("listing the requests for approvals", call).await?;
        all.extend(page.approvals);
        if page.next.is_none() || all.len() >= most {
            break;
        }
        query.after = page.next;
    }
    all.truncate(most);
    Ok(all)
}

fn view(all: &[PlanApproval]) -> View {
    let mut table = Table::new(&["id", "state", "write", "requested by", "decided by", "expires", "reason"])
        .keeping(&["id", "state"]);
    for one in all {
        let decided = one.decided_by.clone().unwrap_or_default();
        let (expires, reason) = (one.expires_at.clone(), one.reason.clone());
        table.push([
            one.id.clone(),
            one.state.clone(),
            one.title.clone(),
            one.requester.clone(),
            decided,
            expires,
            reason,
        ]);
    }
    View::new(serde_json::to_value(all).unwrap_or(Value::Null), table)
}

fn show(context: &Context, approval: &PlanApproval) -> Outcome {
    let json = serde_json::to_value(approval).unwrap_or(Value::Null);
    context.screen.show(&View::text(&text::whole_text(approval), json))
}

async fn decide(
    context: &Context,
    exchange: &Exchange,
    id: &str,
    decision: ApprovalDecision,
    body: DecidePlanApproval,
) -> Outcome {
    let doing = format!("the request to {} {id}", decision.name());
    let call = exchange.server.client.decide_plan_approval(&exchange.org, id, decision, &body);
    match call.await {
        Ok(_) if context.is_dry_run => Ok(()),
        Ok(found) => {
            exchange.server.report_done(&format!("request {id} is {}: {}", found.state, found.title));
            if decision == ApprovalDecision::Approve {
                print_note(format!("its requester, or you, may carry it out with: hzn approval apply {id}"));
            }
            Ok(())
        }
        Err(error) if error.is_not_found() => Err(missing(id)),
        Err(error) => Err(exchange.server.failed(&doing, &error)),
    }
}

async fn apply(context: &Context, exchange: &Exchange, id: &str) -> Outcome {
    let applied = apply_request(context, exchange, id).await.map_err(|(failure, error)| match error {
        error if error.is_not_found() => missing(id),
        error => refused(&failure, &error, id),
    })?;
    for reason in &applied.refused {
        print_note(reason);
    }
    if let Some(action) = &applied.action_id {
        print_note(format!("id of the action: {action}"));
    }
    Ok(())
}

/// Has the agbot carry out the approved write of a request.
///
/// # Errors
/// The failure, with the error of the call.
pub(crate) async fn apply_request(
    context: &Context,
    exchange: &Exchange,
    id: &str,
) -> Result<AppliedPlanApproval, (CliError, ClientError)> {
    let agbot = context.agbot(exchange).map_err(|failure| {
        let why = failure.why.clone();
        (failure, ClientError::Request(why))
    })?;
    let applied = agbot.client.apply_plan_approval(&exchange.org, id).await;
    let applied =
        applied.map_err(|error| (agbot.failed(&format!("applying request {id}"), &error), error))?;
    agbot.report_done(&applied.msg);
    Ok(applied)
}

/// Returns the failure of an application, with what helps when the plan no longer holds.
fn refused(failure: &CliError, error: &ClientError, id: &str) -> CliError {
    if error.status() == Some(409) {
        let advice = format!(
            "see the request with: hzn approval show {id}; if the plan has changed, request another approval with: hzn approval request"
        );
        return failure.clone().with_advice(advice);
    }
    failure.clone()
}

/// Follows a request until it is approved; an end without an approval is a failure.
async fn follow(wait: &Wait, context: &Context, exchange: &Exchange, id: &str) -> Outcome {
    let change = format!("request {id}");
    wait.follow(context, &change, async || Ok(progress(&read(exchange, id).await?))).await
}

fn progress(approval: &PlanApproval) -> Progress {
    let PlanApproval { id, title, .. } = approval;
    let by = approval.decided_by.as_deref().unwrap_or_default();
    let why = approval.decision.as_deref().unwrap_or_default();
    match approval.state.as_str() {
        "pending" => {
            Progress::Pending(format!("request {id} to {title} waits for the approval of a second person"))
        }
        "approved" | "used" => Progress::Done(format!("request {id} was approved by {by}")),
        "expired" => Progress::Failed(format!("request {id} has expired")),
        state => Progress::Failed(format!("request {id} was {state} by {by}: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_ends_with_the_decision() {
        let of = |state: &str| progress(&PlanApproval { state: state.to_owned(), ..PlanApproval::default() });
        assert!(matches!(of("pending"), Progress::Pending(_)));
        for state in ["approved", "used"] {
            assert!(matches!(of(state), Progress::Done(_)), "{state}");
        }
        for state in ["rejected", "canceled", "expired"] {
            assert!(matches!(of(state), Progress::Failed(_)), "{state}");
        }
    }
}
