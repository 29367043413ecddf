//! The single entry of every decision.
//!
//! `decide` depends on the model, one event, the time and a seed, and on nothing else; the same input gives the same bytes.
//! The event only narrows the scope ([`focus`]); then each pair and each group rollout is planned by the same code that a
//! full pass uses. Source: design 4.1.

use evenkeel_agreement::{engine, messages, pair, rolling};
use evenkeel_health as health_checks;
use evenkeel_planner_model::{command::Decision, event::Event, focus, model::Model, pass::Pass};
use jiff::Timestamp;

/// Decides what to do after an event.
///
/// The caller applies the event to the model first ([`Model::apply`]) and notes the decision after ([`Model::note`]).
/// # Shape
/// Commands are in a fixed order and independent of each other. `seed` gives the ids of new agreements; it must differ
/// from call to call, and the same seed gives the same ids.
/// # Units
/// `now`: UTC, from the one clock that all agbots share.
pub fn decide(model: &Model, event: &Event, now: Timestamp, seed: u64) -> Decision {
    let mut pass = Pass::new(model, now, seed);
    if let Event::Message { message } = event {
        messages::handle(&mut pass, message);
        pass.close_message();
    }
    let focus = focus::of(model, event, now);
    pair::plan_all(&mut pass, &focus);
    rolling::group_rollout::plan_all(&mut pass, &focus);
    engine::plan_all(&mut pass, &focus);
    rolling::claim_expiry::plan_all(&mut pass, &focus);
    health_checks::plan_all(&mut pass, &focus);
    pass.rule_out(focus.ruled_out);
    pass.finish()
}

#[cfg(test)]
mod tests;
