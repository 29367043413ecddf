//! The room of a node: what its capacities leave for instances of a workload.
//!
//! Source: orchestration D7.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use evenkeel_domain::orchestration::capacity::Amounts;
use evenkeel_ids::{NodeId, TaskId};
use evenkeel_planner_record::workload::{DesiredState, SlotTasks, Task};
use roaring::RoaringBitmap;

/// Use of the buffer in the capacities of nodes by a decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Buffer {
    /// It is kept free.
    #[default]
    Kept,
    /// An upgrade, or the replacement of what a lost node ran, may use it.
    Open,
}

/// One capacity of a node, as to one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: Arc<str>,
    /// Amount that the tasks on the node use.
    pub used: f64,
    /// Amount that one instance of the current version uses.
    pub load: f64,
    /// Amount that the node has.
    pub capacity: f64,
    /// Amount that instances may use while the buffer is kept free.
    pub usable: f64,
}

impl Metric {
    fn limit(&self, buffer: Buffer) -> f64 {
        match buffer {
            Buffer::Kept => self.usable,
            Buffer::Open => self.capacity,
        }
    }
}

/// Room that the capacities of a node leave for instances of a workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeRoom {
    /// The capacities that a version of the workload uses.
    pub metrics: Vec<Metric>,
    /// The task that leaves first, if the tasks on the node use more than it has.
    pub surplus: Option<TaskId>,
}

impl NodeRoom {
    /// Returns how many more instances of the workload the node can run.
    pub fn instances(&self, buffer: Buffer) -> u32 {
        let fitting = self.metrics.iter().filter(|metric| metric.load > 0.0);
        let counts = fitting.map(|metric| ((metric.limit(buffer) - metric.used) / metric.load).floor());
        counts.fold(f64::from(u32::MAX), f64::min).max(0.0) as u32
    }

    /// Returns why no further instance fits, after some that are added.
    pub fn objection(&self, added: u32, buffer: Buffer) -> Option<String> {
        self.objection_to(|metric| metric.load, |metric| metric.load * f64::from(added), buffer)
    }

    /// Returns why an instance does not fit. `load`: what it uses of a capacity; `added`: what the decision has added of it.
    fn objection_to(
        &self,
        load: impl Fn(&Metric) -> f64,
        added: impl Fn(&Metric) -> f64,
        buffer: Buffer,
    ) -> Option<String> {
        let mut text = String::new();
        for metric in &self.metrics {
            let (load, used, limit) = (load(metric), metric.used + added(metric), metric.limit(buffer));
            if load > 0.0 && used + load > limit {
                let separator = if text.is_empty() { "" } else { ", " };
                let _ = write!(text, "{separator}{} {used}+{load} > {limit}", metric.name);
            }
        }
        (!text.is_empty()).then_some(text)
    }

    /// Returns what the node has too little of for an instance that takes the place of one that used less; `replaced`: what that one uses.
    pub fn shortage(&self, replaced: impl Fn(&str) -> f64) -> Option<String> {
        let mut short = self.metrics.iter().filter_map(|metric| {
            let left = metric.used - replaced(&metric.name);
            let is_over = metric.load > replaced(&metric.name) && left + metric.load > metric.capacity;
            is_over.then(|| format!("{} {} > {}", metric.name, left + metric.load, metric.capacity))
        });
        short.next()
    }

    /// Returns whether one more instance that uses such amounts fits. `added`: what the decision has added of a capacity.
    pub fn fits(&self, loads: &Amounts, added: impl Fn(&Metric) -> f64, buffer: Buffer) -> bool {
        self.metrics.iter().all(|metric| {
            let load = amount(loads, metric);
            load <= 0.0 || metric.used + added(metric) + load <= metric.limit(buffer)
        })
    }

    /// Returns how many instances of the current version use at least such amounts.
    pub fn instances_of(&self, amounts: &Amounts) -> u32 {
        let using = self.metrics.iter().filter(|metric| metric.load > 0.0);
        let counts = using.map(|metric| (amount(amounts, metric) / metric.load).ceil());
        counts.fold(0.0, f64::max) as u32
    }

    /// Returns what the node has too little of for what runs on it.
    pub fn overload(&self) -> Option<String> {
        let over = self.metrics.iter().filter(|metric| metric.load > 0.0 && metric.used > metric.capacity);
        let texts: Vec<String> =
            over.map(|metric| format!("{} {} > {}", metric.name, metric.used, metric.capacity)).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    /// Counts instances of the workload that came to the node, or left it.
    pub fn add(&mut self, count: i64) {
        for metric in &mut self.metrics {
            metric.used = (metric.used + metric.load * count as f64).max(0.0);
        }
    }
}

/// Nodes without room for an instance that uses other amounts than one of the current version.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FullNodes {
    /// The nodes.
    pub nodes: RoaringBitmap,
    /// Amounts that the instance uses.
    pub loads: Amounts,
    /// Amounts that the decision has added to nodes.
    pub added: BTreeMap<u32, Amounts>,
}

impl FullNodes {
    /// Returns whether a node has no room for the instance.
    pub fn is_full(&self, node: u32, room: &NodeRoom, buffer: Buffer) -> bool {
        !room.fits(&self.loads, |metric| self.added_to(node, metric), buffer)
    }

    /// Returns why a node has no room for the instance.
    pub fn objection(&self, node: u32, room: &NodeRoom, buffer: Buffer) -> Option<String> {
        room.objection_to(|metric| amount(&self.loads, metric), |metric| self.added_to(node, metric), buffer)
    }

    fn added_to(&self, node: u32, metric: &Metric) -> f64 {
        self.added.get(&node).map_or(0.0, |added| amount(added, metric))
    }
}

fn amount(of: &Amounts, metric: &Metric) -> f64 {
    of.get(&*metric.name).copied().unwrap_or_default()
}

/// Returns what the tasks of a slot use of a capacity of a node; `load`: what each of them uses.
///
/// A task counts until it has ended. One that starts after its predecessor on the node has stopped takes over what that one uses.
pub fn loading(tasks: &SlotTasks, node: &NodeId, load: impl Fn(&Task) -> f64) -> f64 {
    let there = || tasks.iter().filter(|task| !task.state.is_ended() && task.node.as_ref() == Some(node));
    let sum = |is_meant: fn(&Task) -> bool| there().filter(|task| is_meant(task)).map(&load).sum::<f64>();
    let stopping = sum(|task| !task.is_wanted());
    let waiting = sum(|task| task.desired == DesiredState::Ready);
    sum(|task| task.desired == DesiredState::Running) + stopping.max(waiting)
}

/// Returns how many instances the tasks of a slot are on a node, as to its capacities.
pub fn loading_tasks(tasks: &SlotTasks, node: &NodeId) -> u32 {
    loading(tasks, node, |_| 1.0) as u32
}

/// Instances that a decision adds to nodes beyond those that the table counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Added {
    /// Instances of the workload unit, or removed ones.
    pub instances: BTreeMap<u32, i64>,
    /// Instances that use capacities.
    pub loads: BTreeMap<u32, u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(used: f64, load: f64, capacity: f64) -> NodeRoom {
        let metric = Metric { name: "memoryMb".into(), used, load, capacity, usable: capacity * 0.75 };
        NodeRoom { metrics: vec![metric], surplus: None }
    }

    #[test]
    fn instance_of_another_version_fits_by_what_that_version_uses() {
        let mut room = room(50.0, 30.0, 100.0);
        room.metrics[0].usable = 90.0;
        let (memory, none) = (|amount| Amounts::from([("memoryMb".to_owned(), amount)]), Amounts::new());
        let fits = |amount, added: f64, buffer| room.fits(&memory(amount), |_| added, buffer);
        assert!(fits(40.0, 0.0, Buffer::Kept) && !fits(40.0, 1.0, Buffer::Kept));
        assert!(fits(50.0, 0.0, Buffer::Open) && !fits(51.0, 0.0, Buffer::Open));
        assert!(room.fits(&none, |_| 1000.0, Buffer::Kept), "it uses nothing that is limited");
        assert_eq!([0.0, 30.0, 31.0, 120.0].map(|amount| room.instances_of(&memory(amount))), [0, 1, 2, 4]);
        assert_eq!(room.instances_of(&none), 0);
    }

    #[test]
    fn objection_to_an_instance_of_another_version_names_what_that_one_uses() {
        let (room, amounts) =
            (room(50.0, 30.0, 100.0), |amount| Amounts::from([("memoryMb".to_owned(), amount)]));
        let full =
            FullNodes { loads: amounts(60.0), added: [(7, amounts(5.0))].into(), ..FullNodes::default() };
        assert!(full.is_full(7, &room, Buffer::Open));
        assert_eq!(full.objection(7, &room, Buffer::Open).unwrap(), "memoryMb 55+60 > 100");
        assert_eq!(full.objection(8, &room, Buffer::Kept).unwrap(), "memoryMb 50+60 > 75");
        assert_eq!(room.objection(0, Buffer::Open), None, "one of the current version fits");
    }

    #[test]
    fn room_is_less_while_the_buffer_is_kept() {
        let room = room(600.0, 150.0, 1000.0);
        assert_eq!((room.instances(Buffer::Kept), room.instances(Buffer::Open)), (1, 2));
        assert_eq!(room.objection(1, Buffer::Kept).unwrap(), "memoryMb 750+150 > 750");
        assert_eq!(room.objection(1, Buffer::Open), None);
    }

    #[test]
    fn room_is_what_is_left_of_the_scarcest_capacity() {
        assert_eq!(room(300.0, 256.0, 512.0).instances(Buffer::Open), 0);
        assert_eq!(room(0.0, 256.0, 512.0).instances(Buffer::Open), 2);
        assert_eq!(room(0.0, 0.0, 0.0).instances(Buffer::Open), u32::MAX);
        assert_eq!(room(600.0, 1.0, 512.0).instances(Buffer::Open), 0);
        let mut both = room(0.0, 1.0, 100.0);
        both.metrics.extend(room(0.0, 10.0, 25.0).metrics);
        assert_eq!(both.instances(Buffer::Open), 2);
        assert_eq!(NodeRoom::default().instances(Buffer::Open), u32::MAX);
    }

    #[test]
    fn objection_shows_the_sum_and_the_capacity() {
        assert_eq!(room(300.0, 256.0, 512.0).objection(0, Buffer::Open).unwrap(), "memoryMb 300+256 > 512");
        assert_eq!(room(0.0, 400.0, 800.0).objection(1, Buffer::Open), None);
        assert_eq!(room(0.0, 400.0, 800.0).objection(2, Buffer::Open).unwrap(), "memoryMb 800+400 > 800");
        assert_eq!(room(900.0, 400.0, 800.0).overload().unwrap(), "memoryMb 900 > 800");
    }
}
