//! Returns of instances to the nodes that they left during an upgrade.
//!
//! Where they were is kept by [`crate::unit_pass::snapshot`]. Source: orchestration D8 (a), D9.

use evenkeel_ids::NodeId;
use evenkeel_placement::place::Buffer;
use evenkeel_planner_record::{
    report::Blocked,
    settings::UpdateOrder,
    workload::{Cause, Change, Slot, Step, Task},
};

use super::slot::relocate_to;
use crate::{
    supervise,
    unit_pass::{
        UnitPass,
        snapshot::{can_take, is_in_upgrade, is_updating},
    },
};

/// Brings back what is away from its node, once that is upgraded.
///
/// An instance whose node cannot take it when the upgrade is over stays where it is: there is no third move.
pub(crate) fn plan(pass: &mut UnitPass<'_>) {
    let away = |slot: &Slot| {
        let task = pass.tasks(slot).wanted().next().filter(|task| task.is_live())?;
        Some((slot.clone(), task.clone(), task.origin.clone()?))
    };
    let displaced: Vec<(Slot, Task, NodeId)> = pass.all_slots().iter().filter_map(away).collect();
    if displaced.is_empty() {
        return;
    }
    let is_updating = is_updating(pass);
    let order = if is_updating { supervise::update::domain_order(pass) } else { None };
    for (slot, task, origin) in displaced {
        let row = pass.facts.table.find(&origin);
        let domain = row.and_then(|row| row.upgrade_domain.as_ref());
        let is_upgraded = !row.is_some_and(|row| row.is_in_upgrade)
            && (!is_updating || order.as_ref().is_some_and(|order| order.is_finished(domain)));
        // The replaced instance may still run, even on its origin.
        let is_alone = pass.tasks(&slot).iter().filter(|one| one.is_live()).count() == 1;
        let is_settled = is_alone && task.is_running();
        if is_upgraded && is_settled && can_take(pass, &task, &origin, Buffer::Open) {
            bring_back(pass, &slot, &task, origin);
        } else if is_in_upgrade(pass) || !is_settled {
            let step = step(pass, &slot, &task);
            pass.block(&step, Blocked::ReturnPending { origin });
        } else {
            let text = format!("the instance cannot return to {origin}; it stays");
            pass.emit("snapshot.dropped", Some(&slot), task.node.as_ref(), text);
            pass.forget_origin(&slot, &task.id);
        }
    }
}

fn bring_back(pass: &mut UnitPass<'_>, slot: &Slot, task: &Task, origin: NodeId) {
    if relocate_to(pass, slot, task, Cause::Return, Some(origin.clone())) {
        let from = task.node.as_ref().map(ToString::to_string).unwrap_or_default();
        pass.emit("snapshot.returned", Some(slot), Some(&origin), format!("from {from}, after the upgrade"));
    }
}

fn step(pass: &UnitPass<'_>, slot: &Slot, task: &Task) -> Step {
    let node = task.node.clone();
    let order = UpdateOrder::StopFirst;
    let change = node.map_or(Change::Replace { node: None, may_run: false, order }, |node| {
        Change::Relocate { node, order }
    });
    pass.step(slot, change, Cause::Return)
}
