//! `/agreement`.

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{delete, get},
};
use evenkeel_wire::agent::ByAge;
use evenkeel_wire::agent::agreement::{LocalAgreement, LocalAgreements};
use evenkeel_wire::agreement::reason;

use super::{Api, Refusal};
use crate::step::{Agreement, Event};

pub(super) fn routes() -> Router<Api> {
    Router::new().route("/agreement", get(list)).route("/agreement/{id}", delete(cancel).get(refuse_single))
}

fn record(agreement: &Agreement) -> LocalAgreement {
    let (reason_code, ended_at) = agreement.ending.map_or((0, 0), |ending| (ending.reason, ending.at));
    let description = if reason_code == 0 { "" } else { reason::describe(reason_code) };
    LocalAgreement {
        name: agreement.name.clone(),
        dependent_services: agreement.dependencies.iter().map(|one| (&one.service).into()).collect(),
        archived: agreement.is_archived(),
        current_agreement_id: agreement.id.clone(),
        consumer_id: agreement.agbot.clone(),
        agreement_creation_time: agreement.created_at,
        agreement_accepted_time: agreement.accepted_at.unwrap_or(0),
        agreement_finalized_time: agreement.finalized_at.unwrap_or(0),
        agreement_terminated_time: ended_at,
        agreement_execution_start_time: agreement.started_at.unwrap_or(0),
        agreement_protocol: "Basic".to_owned(),
        protocol_version: agreement.protocol_version,
        terminated_reason: reason_code,
        terminated_description: description.to_owned(),
        agreement_protocol_terminated_time: ended_at,
        workload_terminated_time: if agreement.is_stopped { ended_at } else { 0 },
        workload_to_run: (&agreement.workload).into(),
        agreement_timeout: agreement.timeout_secs,
        service_definition_id: agreement.service_id.clone(),
        failed_verification_attempts: agreement.verification.unanswered,
        last_verification_update_time: agreement.verification.sent_at,
        ..LocalAgreement::default()
    }
}

async fn list(State(api): State<Api>) -> Result<Json<LocalAgreements<LocalAgreement>>, Refusal> {
    let journal = api.journal().await?;
    let (mut active, mut archived): (Vec<_>, Vec<_>) =
        journal.state.agreements.values().partition(|agreement| agreement.is_live());
    active.sort_by_key(|agreement| agreement.created_at);
    archived.sort_by_key(|agreement| agreement.ending.map_or(0, |ending| ending.at));
    let records = |list: &[&Agreement]| list.iter().map(|agreement| record(agreement)).collect::<Vec<_>>();
    let agreements = ByAge { active: records(&active), archived: records(&archived) };
    Ok(Json(LocalAgreements { agreements }))
}

async fn cancel(State(api): State<Api>, Path(id): Path<String>) -> Result<StatusCode, Refusal> {
    let known = id.clone();
    let is_known = api.handle.with(move |journal| journal.state.agreements.contains_key(&known)).await?;
    if !is_known {
        return Err(Refusal::NotFound(format!("there is no agreement {id}")));
    }
    let reason = reason::NODE_USER_REQUESTED;
    api.handle.apply(Event::CancelRequested { agreement: Some(id), reason }).await?;
    Ok(StatusCode::OK)
}

async fn refuse_single() -> Refusal {
    Refusal::Input("agreements are read as a list".to_owned(), "agreement")
}
