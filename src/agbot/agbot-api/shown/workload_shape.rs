//! Turns the status of workloads, tasks and events into bodies of the API; nodes that the caller may not read become `?`.
//!
//! Source: orchestration 1.5, D11, 2.6.

use evenkeel_agbot_store::event::NumberedEvent;
use evenkeel_domain::orchestration::Orchestration;
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_record::agreement::Agreement;
use evenkeel_planner_record::goal::Avail;
use evenkeel_planner_record::report::Explanation;
use evenkeel_planner_record::report::{Blocked, FrozenLevel};
use evenkeel_planner_record::workload::{Ending, Slot, Task, TaskState, UserAction, WorkloadRecord};
use evenkeel_planner_record::workload::{UpdateBlocked, UpdateStatus};
use evenkeel_status::status::{
    self, ExplainedConstraint, InstanceStatus, PartExplanation, PartStatus, Removal, Violation,
};
use evenkeel_wire::agbot::orchestration as wire;
use evenkeel_wire::agbot::rollout::WorkloadUpdate;
pub(crate) use evenkeel_wire::exchange::time::millisecond_time as time;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::SeenNodes;
use super::hidden;

/// A node that the caller may not read.
const HIDDEN: &str = "?";

/// View of a policy for one caller.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub(crate) policy: &'a PolicyId,
    /// The nodes that the caller may read.
    pub(crate) seen: &'a SeenNodes,
    /// The time.
    pub(crate) now: Timestamp,
}

impl Shape<'_> {
    /// The name of a node: bare in the policy's organization.
    pub(crate) fn node(&self, node: &NodeId) -> String {
        match () {
            () if !self.seen.shows(node) => HIDDEN.to_owned(),
            () if node.org() == self.policy.org() => node.name().to_owned(),
            () => node.to_string(),
        }
    }

    /// A slot: its number, or the name of its node.
    pub(crate) fn slot(&self, slot: &Slot) -> wire::SlotName {
        match slot {
            Slot::Number(number) => wire::SlotName::Number(*number),
            Slot::Node(node) => wire::SlotName::Node(self.node(node)),
        }
    }

    /// The status of a policy.
    pub(crate) fn status(&self, status: &status::WorkloadStatus) -> wire::WorkloadStatus {
        let record = status.record.as_ref();
        let action = record.and_then(|record| record.action.as_ref());
        let is_shown = |text: &&String| self.seen.is_all() || !text.starts_with(status::UPDATE_PAUSED);
        let warnings = status.warnings.iter().filter(is_shown).map(|text| self.warning(text));
        wire::WorkloadStatus {
            policy: self.policy.to_string(),
            mode: word(json!(status.mode)),
            orchestrate: word(json!(status.orchestrate)),
            spec_version: record.map(|record| record.versions.current.number),
            version: record.and_then(|record| version(record, record.versions.current.number)),
            rolled_back_from: record
                .and_then(|record| record.versions.rolled_back_from)
                .map(|version| version.number),
            effective: status.restored.as_ref().map(|document| json!(document)),
            avail: status.avail.word().to_owned(),
            overall: status.overall().word().to_owned(),
            placement: status.placement.word().to_owned(),
            frozen: status.frozen.word().to_owned(),
            global_expect: action.map(|action| self.expect(action)),
            action: action.map(|action| action.id.clone()),
            compat: if status.is_compatible { "ok" } else { "incompatible" }.to_owned(),
            update: self.update(&status.update, record.is_some()),
            warnings: warnings.collect(),
            workload_units: status.parts.iter().map(|part| self.part(part)).collect(),
        }
    }

    /// A warning without what nodes say of their instances, which the caller may not read.
    fn warning(&self, text: &str) -> String {
        match text.find(status::KEEP_EXITING) {
            Some(at) if !self.seen.is_all() => text[..at + status::KEEP_EXITING.len()].to_owned(),
            _ => text.to_owned(),
        }
    }

    /// The status of a policy that no agbot serves, or that this one has not read yet.
    pub(crate) fn unserved(&self, document: &Orchestration) -> wire::WorkloadStatus {
        let none = Avail::NotApplicable.word().to_owned();
        wire::WorkloadStatus {
            policy: self.policy.to_string(),
            mode: word(json!(document.mode)),
            orchestrate: word(json!(document.orchestrate)),
            avail: none.clone(),
            overall: none.clone(),
            placement: none.clone(),
            frozen: none,
            compat: "ok".to_owned(),
            update: self.update(&UpdateStatus::default(), false),
            warnings: vec!["the agbot does not serve the policy, or has not read it yet".to_owned()],
            ..wire::WorkloadStatus::default()
        }
    }

    /// Describes the remainder of a deleted policy, without nodes that the caller may not read.
    pub(crate) fn removal_text(&self, removal: Removal<'_>) -> String {
        let waits_for = removal.waits_for.filter(|_| self.seen.is_all());
        Removal { waits_for, ..removal }.to_string()
    }

    /// The status of a policy that was deleted while instances run.
    pub(crate) fn removal(&self, removal: Removal<'_>) -> wire::WorkloadStatus {
        let none = Avail::NotApplicable.word().to_owned();
        wire::WorkloadStatus {
            mode: none,
            global_expect: Some("deleted".to_owned()),
            warnings: vec![self.removal_text(removal)],
            ..self.unserved(&Orchestration::default())
        }
    }

    /// The state that an action leads to, without nodes that the caller may not read.
    fn expect(&self, action: &UserAction) -> String {
        let expect = action.expect();
        match expect.split_once('@') {
            Some((word, _)) if !self.seen.is_all() => word.to_owned(),
            _ => expect,
        }
    }

    fn part(&self, part: &PartStatus) -> wire::WorkloadUnit {
        wire::WorkloadUnit {
            workload_unit: part.id.name().to_owned(),
            avail: part.avail.word().to_owned(),
            target: part.target,
            up: part.up,
            placement: part.placement.word().to_owned(),
            natural_leaders: part.natural_leaders.iter().map(|node| self.node(node)).collect(),
            instance_count: part.instance_count,
            instances: part.instances.iter().map(|one| self.instance(one)).collect(),
            next: part.next,
        }
    }

    fn instance(&self, instance: &InstanceStatus) -> wire::Instance {
        let is_shown = self.seen.shows(&instance.node);
        wire::Instance {
            node: self.node(&instance.node),
            avail: instance.avail.word().to_owned(),
            monitor_state: instance.monitor.word().to_owned(),
            local_expect: instance.local_expect.to_owned(),
            flags: instance.flags.clone(),
            frozen: instance.is_frozen,
            pinned: instance.is_pinned,
            slots: instance.slots.iter().map(|slot| self.slot(slot)).collect(),
            task_id: instance.task.as_ref().map(ToString::to_string),
            agreement_id: instance.agreement.as_ref().filter(|_| is_shown).map(ToString::to_string),
            version: instance.version.clone().filter(|_| is_shown),
            violations: instance.violations.iter().filter(|_| is_shown).map(violation).collect(),
            since: instance.since.map(time),
            blocklisted: instance.blocklisted.as_ref().filter(|_| is_shown).map(ToString::to_string),
        }
    }

    /// Returns the progress of an update; `has_tasks`: true for that of a policy with tasks.
    pub(crate) fn update(&self, update: &UpdateStatus, has_tasks: bool) -> wire::UpdateProgress {
        let blocked = update.blocked.as_ref().filter(|blocked| blocked.is_shown(self.now));
        wire::UpdateProgress {
            state: update.state.word().to_owned(),
            started_at: update.started_at.map(time),
            completed_at: update.completed_at.map(time),
            // It names the node that failed.
            message: if self.seen.is_all() { update.message.clone() } else { String::new() },
            total: update.total(),
            done: update.done(),
            failed: update.failed(),
            set_aside: update.set_aside(),
            blocked: blocked.map(|blocked| self.blocked(blocked, has_tasks)),
        }
    }

    /// The update of a workload as one of the hub's rollouts.
    pub(crate) fn workload_update(&self, record: &WorkloadRecord) -> WorkloadUpdate {
        let update = self.update(&record.update, true);
        let mut text = format!("{}, {} of {} done", update.state, update.done, update.total);
        if update.failed > 0 {
            text.push_str(&format!(", {} failed", update.failed));
        }
        if update.set_aside > 0 {
            text.push_str(&format!(", {} without a node", update.set_aside));
        }
        if !update.message.is_empty() {
            text.push_str(&format!(": {}", update.message));
        }
        WorkloadUpdate {
            policy: record.policy.clone(),
            target: service_and_version(record, record.versions.current.number),
            rolled_back_from: record
                .versions
                .rolled_back_from
                .map(|version| service_and_version(record, version.number)),
            update,
            text,
        }
    }

    fn blocked(&self, update: &UpdateBlocked, has_tasks: bool) -> wire::UpdateBlocked {
        let shown = update.slots.iter().map(|(slot, blocked)| {
            let blocked = hidden::reason(blocked.clone(), self.seen);
            wire::BlockedSlot {
                slot: self.slot(slot),
                node: update.node_of(slot).map(|node| self.node(node)),
                reason: blocked.upgrade_rule().to_owned(),
                detail: blocked.to_string(),
            }
        });
        let mut slots: Vec<wire::BlockedSlot> = shown.collect();
        let mut rules: Vec<String> = slots.iter().map(|slot| slot.reason.clone()).collect();
        rules.sort();
        rules.dedup();
        let hinted = most_actionable(&rules).map(str::to_owned);
        let hint = hinted.as_deref().map(|rule| hint(rule, &slots, has_tasks)).unwrap_or_default();
        // What the hint is about comes first.
        slots.sort_by_key(|slot| Some(&slot.reason) != hinted.as_ref());
        wire::UpdateBlocked { since: time(update.since), slots, rules, hint }
    }

    /// A task; `record`: the row of its workload, `agreement`: that of the task.
    pub(crate) fn task(
        &self,
        task: &Task,
        record: Option<&WorkloadRecord>,
        agreement: Option<&Agreement>,
    ) -> wire::Task {
        let only = || only_version(record?, task.spec.number);
        let is_shown = task.bound_node().is_none_or(|node| self.seen.shows(node));
        let (err, exit_code) = match &task.state {
            TaskState::Ended(Ending::Failed { exit_code, error }) => (Some(error.clone()), *exit_code),
            TaskState::Ended(Ending::Rejected { error }) => (Some(error.clone()), None),
            TaskState::Ended(Ending::Complete) => (None, Some(0)),
            _ => (None, None),
        };
        wire::Task {
            task_id: task.id.to_string(),
            policy: self.policy.to_string(),
            workload_unit: task.unit_id.name().to_owned(),
            slot: self.slot(&task.slot),
            node: task.bound_node().map(|node| self.node(node)),
            spec_version: task.spec.number,
            version: agreement.map(|agreement| agreement.version.clone()).or_else(only),
            desired_state: word(json!(task.desired)),
            state: task.state.name().to_owned(),
            seq: task.seq,
            err: err.filter(|_| is_shown),
            exit_code: exit_code.filter(|_| is_shown),
            agreement_id: task.agreement.as_ref().filter(|_| is_shown).map(ToString::to_string),
            cause: json!(task.cause)["cause"].as_str().unwrap_or_default().to_owned(),
            created_at: time(task.created_at),
            start_at: time(task.start_at),
            at: time(task.state_at),
            running_at: task.running_at.map(time),
            ended_at: task.ended_at.map(time),
        }
    }

    /// An explanation; `node`: the only node that it is about.
    pub(crate) fn explanation(
        &self,
        part: &str,
        found: &PartExplanation,
        node: Option<&NodeId>,
    ) -> wire::PlacementExplanation {
        let sequence = found.sequence.iter().map(|stage| self.stage(stage)).collect();
        let about = node.map(|node| format!("{}: ", self.node(node))).unwrap_or_default();
        let cause = found.cause.map(|cause| word(json!(cause)));
        let of_pair = found.pair.clone().map(|pair| {
            let placement = hidden::placement(pair.placement, self.seen);
            Explanation { placement, ..pair }.text()
        });
        let summary = of_pair.unwrap_or_else(|| found.summary.clone());
        wire::PlacementExplanation {
            workload_unit: part.to_owned(),
            purpose: "start".to_owned(),
            spec_version: found.spec_version,
            evaluated_at: time(self.now),
            requested: found.requested,
            placed: found.placed,
            relaxed: found.relaxed.iter().map(|constraint| constraint.name().to_owned()).collect(),
            candidates: self.nodes(&found.candidates),
            candidate_count: found.candidate_count,
            sequence,
            chosen: self.nodes(&found.chosen),
            cause,
            summary: format!("{about}{summary}"),
        }
    }

    /// Returns the nodes that one constraint eliminated.
    pub(crate) fn stage(&self, stage: &ExplainedConstraint) -> wire::ExplainedConstraint {
        let truncated = |count: u64, listed: usize| Some(count).filter(|count| *count != listed as u64);
        let eliminated = stage.eliminated.iter().map(|one| {
            let reason = if self.seen.shows(&one.node) { one.reason.clone() } else { String::new() };
            wire::EliminatedNode { node: self.node(&one.node), reason }
        });
        wire::ExplainedConstraint {
            constraint: stage.constraint.name().to_owned(),
            eliminated: eliminated.collect(),
            remaining: self.nodes(&stage.remaining),
            eliminated_count: truncated(stage.eliminated_count, stage.eliminated.len()),
            remaining_count: truncated(stage.remaining_count, stage.remaining.len()),
        }
    }

    fn nodes(&self, nodes: &[NodeId]) -> Vec<String> {
        nodes.iter().map(|node| self.node(node)).collect()
    }

    /// An event, without nodes that the caller may not read.
    pub(crate) fn event(&self, row: NumberedEvent) -> wire::OrchestrationEvent {
        let NumberedEvent { seq, event } = row;
        let is_shown = match &event.node {
            Some(node) => self.seen.shows(node),
            None => self.seen.is_all(),
        };
        let mut data = match event.detail {
            Value::Object(members) => members,
            _ => serde_json::Map::new(),
        };
        let mut take = |name: &str| data.remove(name).filter(|value| !value.is_null());
        let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
        let part = text(take("workloadUnit"));
        let slot = text(take("slot")).map(|slot| self.slot(&Slot::from_text(&slot)));
        let (task, actor, reason) = (text(take("taskId")), text(take("actor")), text(take("text")));
        wire::OrchestrationEvent {
            seq,
            at: time(event.happened_at),
            kind: event.kind,
            policy: event.policy.map(|policy| policy.to_string()),
            workload_unit: part.or_else(|| event.ha_group.map(|group| group.name().to_owned())),
            slot,
            task_id: task,
            node: event.node.as_ref().map(|node| self.node(node)),
            reason: reason.filter(|_| is_shown),
            actor,
            data: if is_shown { Value::Object(data) } else { json!({}) },
        }
    }
}

/// Returns the service and version that a task spec runs.
fn service_and_version(record: &WorkloadRecord, number: u64) -> String {
    let service = record.spec(number).map(|spec| spec.service.to_string()).unwrap_or_default();
    let version = version(record, number).unwrap_or_else(|| format!("version {number}"));
    format!("{service} {version}")
}

/// The service version of a task without an agreement, if its task spec leaves no choice.
fn only_version(record: &WorkloadRecord, number: u64) -> Option<String> {
    match record.spec(number)?.versions.as_slice() {
        [only] => Some(only.version.clone()),
        _ => None,
    }
}

/// The service version that a version of a task spec prefers.
fn version(record: &WorkloadRecord, number: u64) -> Option<String> {
    evenkeel_planner_record::usage::best_version(&record.spec(number)?.versions)
        .map(|best| best.version.clone())
}

fn word(value: Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn violation(violation: &Violation) -> wire::Violation {
    wire::Violation {
        constraint: violation.constraint.name().to_owned(),
        expression: violation.expression.clone(),
        detail: violation.detail.clone(),
    }
}

/// Rules about which a user can do something, the most specific first; the others pass by themselves.
const ACTIONABLE: [&str; 7] =
    ["Frozen", "NodePaused", "Blocklist", "Capacity", "NoCandidate", "HAMinimum", "NodeDown"];

/// Returns the rule that a hint is given for: one about which a user can do something, if there is one.
pub(crate) fn most_actionable(rules: &[String]) -> Option<&str> {
    let actionable = ACTIONABLE.into_iter().find(|rule| rules.iter().any(|one| one == rule));
    actionable.or_else(|| rules.first().map(String::as_str))
}

/// Returns what to do about a rule by which `slots` are blocked; `has_tasks`: whether the policy has tasks, which actions of users change.
pub(crate) fn hint(rule: &str, slots: &[wire::BlockedSlot], has_tasks: bool) -> String {
    let text = match rule {
        "HAMinimum" if has_tasks => {
            "bring another member of the group back, set ha.offlinePeerPolicy to proceed, or continue without it with: hzn exchange deployment orchestration update POLICY resume --force"
        }
        "HAMinimum" => "bring another member of the group back",
        "HALock" => "wait for the claim to end, or free it with: hzn exchange hagroup free",
        "NoCandidate"
            if slots.iter().any(|slot| slot.reason == rule && slot.detail.contains("Blocklist ")) =>
        {
            "fix the cause of the failures on the node, then: hzn exchange blocklist clear"
        }
        "NoCandidate" => "make a node available that the constraints of the placement allow",
        "Capacity" => "make room on the node, raise its capacities, or write loads that fit",
        "NodePaused" => {
            let node = slots.iter().find(|slot| slot.reason == rule).map_or("NODE", node_argument);
            return format!(
                "set the node to active with: hzn exchange node orchestration set {node} --availability active"
            );
        }
        "NodeDown" => "bring the node back",
        "AgentPeer" => "bring the other member back, or fix the agent upgrade that failed on it",
        "Blocklist" => "fix the cause of the failures on the node, then: hzn exchange blocklist clear",
        "Frozen" => return thaw_hint(slots),
        _ => "",
    };
    text.to_owned()
}

/// Returns the hint for a drain that waits.
pub(crate) fn drain_hint(slot: &wire::BlockedSlot) -> String {
    format!(
        "make another node available for the instance, or stop it without one with: hzn exchange node orchestration set {} --availability drain --force",
        node_argument(slot)
    )
}

/// Names the command that thaws what is frozen: the node, the workload on it, or the workload.
fn thaw_hint(slots: &[wire::BlockedSlot]) -> String {
    let is_frozen = |slot: &&wire::BlockedSlot, level| {
        let frozen = Blocked::Frozen { level };
        slot.reason == frozen.upgrade_rule() && slot.detail == frozen.to_string()
    };
    let node_of = |level| slots.iter().find(|slot| is_frozen(slot, level)).map(node_argument);
    if let Some(node) = node_of(FrozenLevel::Node) {
        return format!("thaw it with: hzn exchange node orchestration thaw {node}");
    }
    match node_of(FrozenLevel::Instance) {
        Some(node) => {
            format!("thaw it with: hzn exchange deployment orchestration thaw POLICY --node {node}")
        }
        None => "thaw it with: hzn exchange deployment orchestration thaw POLICY".to_owned(),
    }
}

/// The node of a slot as the argument of a command.
fn node_argument(slot: &wire::BlockedSlot) -> &str {
    slot.node.as_deref().filter(|node| *node != HIDDEN).unwrap_or("NODE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_about_what_is_frozen_names_the_command_that_thaws_it() {
        let slot = |level, node: Option<&str>| {
            let frozen = Blocked::Frozen { level };
            wire::BlockedSlot {
                node: node.map(str::to_owned),
                reason: frozen.upgrade_rule().to_owned(),
                detail: frozen.to_string(),
                ..wire::BlockedSlot::default()
            }
        };
        let command = |level, node| {
            let text = hint("Frozen", &[slot(level, node)], true);
            text.strip_prefix("thaw it with: hzn exchange ").unwrap_or_default().to_owned()
        };
        assert_eq!(command(FrozenLevel::Node, Some("n1")), "node orchestration thaw n1");
        assert_eq!(command(FrozenLevel::Node, Some(HIDDEN)), "node orchestration thaw NODE");
        assert_eq!(
            command(FrozenLevel::Instance, Some("n1")),
            "deployment orchestration thaw POLICY --node n1"
        );
        assert_eq!(command(FrozenLevel::Workload, None), "deployment orchestration thaw POLICY");
    }
}
