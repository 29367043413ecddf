//! Tasks that will never report again.
//!
//! Source: orchestration B9.3, B8 (deleted nodes).

use evenkeel_ids::TaskId;

use super::UnitPass;
use crate::{
    place::UnitNode,
    usage::later,
    workload::{Slot, Task},
};

/// Gives up the tasks of a slot whose node is deleted, or has been down for too long, and that are no longer wanted.
pub(super) fn give_up_orphans(pass: &mut UnitPass<'_>, slot: &Slot) {
    let open = |task: &&Task| !task.is_wanted() && !task.state.is_ended() && task.node.is_some();
    let found: Vec<Task> = pass.tasks(slot).iter().filter(open).cloned().collect();
    let mut lost: Vec<TaskId> = Vec::new();
    for task in found {
        match pass.node_of(&task).map(UnitNode::down_since) {
            None => lost.push(task.id),
            Some(None) => {}
            Some(Some(since)) => {
                let until = later(since, pass.facts.settings.orphan_after_secs);
                if pass.now >= until {
                    lost.push(task.id);
                } else {
                    pass.wake(until);
                }
            }
        }
    }
    for id in lost {
        pass.orphan(slot, &id);
    }
    // The slot of a node that was deleted goes with it.
    if let Slot::Node(node) = slot
        && pass.facts.table.find(node).is_none()
    {
        pass.remove_slot(slot);
    }
}
