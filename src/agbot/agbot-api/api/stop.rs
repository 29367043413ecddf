//! Actions of administrators on an instance whose stop its node does not confirm.
//!
//! Source: orchestration P1 (forced by the user); engine 6.

use axum::Json;
use evenkeel_agbot::{AgbotError, Context};
use evenkeel_agbot_store::agreement as table;
use evenkeel_agbot_store::event::{self as events, EventRow};
use evenkeel_api::Refusal;
use evenkeel_ids::AgreementId;
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::agreement::Agreement;
use evenkeel_store::retry;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::StatusCode;
use serde_json::json;

use super::done;
use super::path::AgreementPath;
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op};

/// Records that the instance of an agreement that is over does not run.
pub(super) async fn confirm_stop(
    op: Op<AgreementPath>,
    permission: Permission<right::OrgAdminister>,
) -> Result<Json<ApiResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: AgreementPath { org, agreement: id }, .. } = op;
    let message = match record(&context, &permission, &org, &id).await {
        Ok(Confirmed::Now(agreement)) => {
            context.send_events(vec![Event::AgreementRecorded { agreement }]).await;
            format!("the instance of agreement {id} counts as stopped")
        }
        Ok(Confirmed::Before) => format!("agreement {id} awaits no stop"),
        Ok(Confirmed::Alive) => {
            return Err(Refusal::new(StatusCode::CONFLICT, format!("agreement {id} has not ended")));
        }
        Ok(Confirmed::Unknown) => {
            let message = format!("organization {org} has no agreement {id}");
            return Err(Refusal::new(StatusCode::NOT_FOUND, message));
        }
        Err(error) => return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
    };
    Ok(Json(done(message)))
}

enum Confirmed {
    Now(Box<Agreement>),
    Before,
    Alive,
    Unknown,
}

async fn record(
    context: &Context,
    permission: &Permission<right::OrgAdminister>,
    org: &str,
    id: &str,
) -> Result<Confirmed, AgbotError> {
    // The database has no such character in its texts.
    if id.contains('\0') {
        return Ok(Confirmed::Unknown);
    }
    let id = AgreementId::from_text(id);
    retry("agreement.confirm_stop", || async {
        let mut tx = context.database.begin().await?;
        let Some(stored) = table::lock_agreement(&mut tx, &id).await? else { return Ok(Confirmed::Unknown) };
        let agreement: Agreement = serde_json::from_value(stored)?;
        if agreement.node.org() != org {
            return Ok(Confirmed::Unknown);
        }
        if agreement.is_live() {
            return Ok(Confirmed::Alive);
        }
        if agreement.is_single && !agreement.awaits_stop {
            return Ok(Confirmed::Before);
        }
        let stopped = agreement.confirm_stop().map_err(|error| AgbotError::Refused(error.to_string()))?;
        table::replace_record(&mut tx, &id, &serde_json::to_value(&stopped)?).await?;
        let row = EventRow {
            happened_at: context.now(),
            kind: "agreement.stop-confirmed".to_owned(),
            ha_group: None,
            node: Some(stopped.node.clone()),
            policy: Some(stopped.policy.clone()),
            detail: json!({"actor": permission.actor(), "agreement": id.as_str()}),
        };
        events::insert_event(&mut tx, &row).await?;
        tx.commit().await?;
        Ok::<Confirmed, AgbotError>(Confirmed::Now(Box::new(stopped)))
    })
    .await
}
