//! Assertion after every event of a fleet that an event or a watch leads to every decision that is left.

use evenkeel_agreement::engine::RECHECK_SECS;
use evenkeel_planner_model::{command::Action, event::Event};
use evenkeel_planner_record::time::later;

use super::fleet::Fleet;
use crate::decide::decide;

impl Fleet {
    /// Asserts that nothing waits for an event that may never come: what a decision about everything would change is reconciled soon, and
    /// what it would reconcile later is reconciled by then.
    pub(super) fn assert_nothing_missed(&self, event: &Event) {
        let fresh = decide(&self.model, &Event::FullReconcile, self.now, 0);
        let plans = fresh.commands.iter().filter_map(|command| match &command.action {
            Action::ApplyPlan { unit_id, .. } => Some((unit_id, later(self.now, RECHECK_SECS))),
            _ => None,
        });
        let watches = fresh.unit_watches.iter().map(|watch| (&watch.unit_id, watch.at));
        for (unit_id, by) in plans.chain(watches) {
            let mut known = self.model.engine.watches.iter();
            assert!(
                known.any(|(at, of, _)| *at <= by && of == unit_id),
                "nothing reconciles {unit_id:?} by {by} after {event:?}: {:#?}",
                self.model.engine.watches
            );
        }
    }
}
