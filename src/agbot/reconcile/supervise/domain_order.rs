//! The order of an update over upgrade domains: one domain after the other, as long as nothing is reported to be in error.
//!
//! Only configured upgrade domains are kept apart. Source: orchestration B11.4, D9.3, D10; engine 6.

use std::{collections::BTreeSet, sync::Arc};

use evenkeel_planner_record::{
    report::Blocked,
    settings::FailureAction,
    time::later,
    workload::{Slot, Task},
};
use jiff::Timestamp;

use super::{monitored, rules, set_aside, update::is_on_paused_node};
use crate::unit_pass::UnitPass;

/// Time beyond the monitoring during which a domain may be in error before the update fails.
const CLEARING_SECS: u64 = 30;

/// Returns the upgrade domain of the node on which a slot has its newest task.
pub(super) fn domain_of(pass: &UnitPass<'_>, slot: &Slot) -> Option<Arc<str>> {
    let tasks = pass.tasks(slot);
    let task = tasks.wanted().find(|task| task.node.is_some()).or_else(|| tasks.newest());
    let node = match slot {
        Slot::Node(node) => Some(node),
        Slot::Number(_) => task.and_then(|task| task.node.as_ref()),
    };
    pass.facts.table.find(node?)?.upgrade_domain.clone()
}

/// Domains that an update has reached.
pub(crate) struct DomainOrder {
    /// The first domain that is not finished.
    current: Option<Arc<str>>,
    /// Domains in which slots were replaced.
    begun: BTreeSet<Arc<str>>,
    /// When the last domain that was begun has been monitored.
    monitored_at: Option<Timestamp>,
}

impl DomainOrder {
    /// Returns what an update has reached; none when no node of the workload unit has an upgrade domain.
    ///
    /// `dirty`: slots that are still to be replaced. `in_work`: slots whose replacement has not finished.
    pub fn of(pass: &UnitPass<'_>, dirty: &[Slot], in_work: &BTreeSet<Slot>) -> Option<Self> {
        if !pass.facts.table.has_upgrade_domains() {
            return None;
        }
        let left: BTreeSet<&Slot> = dirty.iter().collect();
        let is_clean = |slot: &&Slot| !left.contains(slot);
        let all = pass.all_slots();
        let (mut open, mut begun, mut monitored_at) = (BTreeSet::new(), BTreeSet::new(), None);
        // No other domain waits for what is on a paused node.
        let is_paused = |slot: &&Slot| pass.tasks(slot).wanted().any(|task| is_on_paused_node(pass, task));
        let awaited = dirty.iter().filter(|slot| !is_paused(slot));
        open.extend(awaited.filter_map(|slot| domain_of(pass, slot)));
        for slot in all.iter().filter(is_clean) {
            let Some(task) = pass.tasks(slot).newest().filter(|task| is_of_update(pass, task)) else {
                continue;
            };
            let Some(domain) = domain_of(pass, slot) else { continue };
            let until = task.running_at.map(|at| pass.update_settings().monitored_until(at));
            if in_work.contains(slot) || until.is_some_and(|until| pass.now < until) {
                open.insert(domain.clone());
            }
            monitored_at = monitored_at.max(until);
            begun.insert(domain);
        }
        Some(Self { current: open.into_iter().next(), begun, monitored_at })
    }

    /// Returns whether an upgrade domain is finished; what is in none is finished last.
    pub fn is_finished(&self, domain: Option<&Arc<str>>) -> bool {
        self.current.as_ref().is_none_or(|current| domain.is_some_and(|domain| domain < current))
    }

    /// Returns why a slot is not replaced yet.
    pub fn objection(&self, pass: &mut UnitPass<'_>, slot: &Slot) -> Option<Blocked> {
        let domain = domain_of(pass, slot)?;
        let current = self.current.clone().unwrap_or_else(|| domain.clone());
        if current < domain {
            self.monitored_at.filter(|at| *at > pass.now).into_iter().for_each(|at| pass.wake(at));
            return Some(Blocked::DomainOrder { domain: domain.to_string(), earlier: current.to_string() });
        }
        let is_next = !self.begun.is_empty() && !self.begun.contains(&domain);
        let until = self.clearing_until(pass)?;
        let error = first_error(pass).filter(|_| is_next)?;
        pass.wake(until);
        Some(Blocked::Unhealthy { domain: domain.to_string(), error, until })
    }

    /// Returns until when an error may be cleared before the update fails.
    fn clearing_until(&self, pass: &UnitPass<'_>) -> Option<Timestamp> {
        let is_continued = pass.update_settings().failure_action == FailureAction::Continue;
        self.monitored_at.filter(|_| !is_continued).map(|at| later(at, CLEARING_SECS))
    }

    /// Returns the error that fails the update, because the next domain has waited long enough for its end.
    pub fn failure(&self, pass: &UnitPass<'_>, dirty: &[Slot]) -> Option<String> {
        let next = dirty.iter().filter_map(|slot| domain_of(pass, slot)).min()?;
        let is_next = !self.begun.is_empty() && !self.begun.contains(&next);
        let is_over = self.clearing_until(pass).is_some_and(|until| pass.now >= until);
        first_error(pass).filter(|_| is_next && is_over)
    }
}

fn is_of_update(pass: &UnitPass<'_>, task: &Task) -> bool {
    let is_new = pass.update.started_at.is_some_and(|at| task.created_at >= at);
    is_new && task.spec == pass.versions.current && task.is_wanted()
}

fn first_error(pass: &UnitPass<'_>) -> Option<String> {
    let error = pass.facts.errors.iter().find(|error| super::unhealthy::is_meant(pass, &error.entity))?;
    Some(super::unhealthy::message(error))
}

/// Returns dirty slots in their order: those with a node, of these what does not run and loses nothing, in a
/// rollback also what has failed by its health policy, then domain by domain.
pub(super) fn in_order(pass: &UnitPass<'_>, mut dirty: Vec<Slot>) -> Vec<Slot> {
    dirty.sort_by_cached_key(|slot| (domain_of(pass, slot), slot.clone()));
    let is_rollback = pass.update.is_rollback();
    let has_failed = |slot: &Slot| {
        is_rollback && pass.tasks(slot).wanted().any(|task| monitored::failure(pass, task).is_some())
    };
    let mut dirty = rules::in_order(dirty, |slot| pass.tasks(slot).is_running() && !has_failed(slot));
    dirty.sort_by_cached_key(|slot| set_aside::node_of(pass, slot).is_none());
    dirty
}
