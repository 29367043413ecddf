//! `/nodemanagement`: agent upgrades.

use std::collections::BTreeMap;

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{get, put},
};
use evenkeel_wire::agent::management::{LocalManagementStatus, LocalUpgradeStatus, UpgradeInternals};

use super::{Api, Refusal};
use crate::step::management::{Job, Phase};

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/nodemanagement/status", get(list))
        .route("/nodemanagement/status/{name}", get(show))
        .route("/nodemanagement/status/{org}/{name}", get(show_in_org))
        .route("/nodemanagement/nextjob", get(next_job))
        .route("/nodemanagement/reset", put(reset_all))
        .route("/nodemanagement/reset/{name}", put(reset_one))
        .route("/nodemanagement/reset/{org}/{name}", put(reset_in_org))
}

/// Statuses by `org/policy`.
type Statuses = BTreeMap<String, LocalManagementStatus>;

fn status(job: &Job) -> LocalManagementStatus {
    LocalManagementStatus {
        agent_upgrade_policy_status: LocalUpgradeStatus {
            reported: job.status().agent_upgrade_policy_status,
            agent_upgrade_internal: UpgradeInternals {
                allow_downgrade: job.allows_downgrade,
                manifest: job.manifest.clone(),
                scheduled_unix_time: job.scheduled_at,
                download_attempts: job.downloads,
            },
        },
    }
}

async fn jobs(api: &Api, keeps: impl Fn(&str, &Job) -> bool) -> Result<Statuses, Refusal> {
    let journal = api.journal().await?;
    let org = journal.registration.map(|registration| registration.org).unwrap_or_default();
    let chosen = journal.jobs.iter().filter(|(name, job)| keeps(name, job));
    Ok(chosen.map(|(name, job)| (format!("{org}/{name}"), status(job))).collect())
}

async fn list(State(api): State<Api>) -> Result<Json<Statuses>, Refusal> {
    let all = jobs(&api, |_, _| true).await?;
    if all.is_empty() {
        return Err(Refusal::NotFound("no management policy concerns this node".to_owned()));
    }
    Ok(Json(all))
}

async fn show(State(api): State<Api>, Path(name): Path<String>) -> Result<Json<Statuses>, Refusal> {
    let found = jobs(&api, |job, _| job == name).await?;
    if found.is_empty() {
        return Err(Refusal::NotFound(format!("management policy {name} does not concern this node")));
    }
    Ok(Json(found))
}

async fn show_in_org(
    api: State<Api>,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<Statuses>, Refusal> {
    show(api, Path(name)).await
}

/// Returns the next job for an installer outside the agent: none, because the agent installs itself.
async fn next_job(State(api): State<Api>) -> Result<Json<Statuses>, Refusal> {
    let ready = jobs(&api, |_, job| job.phase == Phase::Downloaded).await?;
    Ok(Json(ready.into_iter().take(1).collect()))
}

async fn reset(api: &Api, name: Option<String>) -> Result<(StatusCode, String), Refusal> {
    let chosen = name.clone();
    let count = api
        .handle
        .with(move |journal| {
            let before = journal.jobs.len();
            journal.jobs.retain(|job, _| chosen.as_ref().is_some_and(|chosen| chosen != job));
            before - journal.jobs.len()
        })
        .await?;
    match name {
        Some(name) if count == 0 => {
            Err(Refusal::NotFound(format!("management policy {name} does not concern this node")))
        }
        _ => Ok((StatusCode::CREATED, format!("{count} management policies start again"))),
    }
}

async fn reset_all(State(api): State<Api>) -> Result<(StatusCode, String), Refusal> {
    reset(&api, None).await
}

async fn reset_one(
    State(api): State<Api>,
    Path(name): Path<String>,
) -> Result<(StatusCode, String), Refusal> {
    reset(&api, Some(name)).await
}

async fn reset_in_org(
    State(api): State<Api>,
    Path((_, name)): Path<(String, String)>,
) -> Result<(StatusCode, String), Refusal> {
    reset(&api, Some(name)).await
}
