//! Messages that contain terms and conditions.
//!
//! Source: agreement-protocol 2.3; agbot 2.2.

use evenkeel_planner_model::terms::{ProposalTerms, proposal_terms};
use evenkeel_planner_record::agreement::Agreement;
use evenkeel_wire::agreement::Body;
use evenkeel_wire::agreement::message::UPDATE_POLICY;

use crate::AgbotError;
use crate::context::{Context, EngineHandle};

fn built(engine: &EngineHandle, agreement: &Agreement) -> Result<ProposalTerms, AgbotError> {
    let model = engine.model();
    proposal_terms(&model, agreement).map_err(|blocked| AgbotError::Refused(blocked.to_string()))
}

/// Builds the proposal of an agreement.
pub(super) fn offer(context: &Context, agreement: &Agreement) -> Result<Body, AgbotError> {
    let terms = built(context, agreement)?;
    Ok(Body::Proposal {
        terms: terms.terms.to_text(),
        producer_policy: terms.producer_policy.to_text(),
        consumer_id: context.name(),
    })
}

/// Builds the update with new terms for a running agreement.
pub(super) fn update(engine: &EngineHandle, agreement: &Agreement) -> Result<Body, AgbotError> {
    let terms = built(engine, agreement)?;
    Ok(Body::Update {
        update_type: UPDATE_POLICY.to_owned(),
        metadata: Some(serde_json::from_str(&terms.terms.to_text())?),
    })
}
