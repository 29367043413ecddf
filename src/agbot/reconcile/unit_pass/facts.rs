//! Facts about a workload unit.

use std::collections::BTreeMap;

use evenkeel_change::{DependencyFacts, GroupState};
use evenkeel_ids::{GroupId, NodeId, PolicyId, TaskId};
use evenkeel_placement::place::NodeTable;
use evenkeel_planner_record::{
    blocklist::BlocklistNews,
    departure::Departures,
    health::Entity,
    settings::UnitSettings,
    workload::{Part, ReportedHealth, Slots, UnitId, UpdateStatus, Workload},
};
use jiff::Timestamp;

use super::{HealthSurvey, RecoveryFacts};

/// Facts about a workload unit.
#[derive(Clone, Copy)]
pub struct UnitFacts<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// The workload unit.
    pub unit_id: &'a UnitId,
    /// Its nodes.
    pub table: &'a NodeTable,
    /// Its tasks, as they are stored.
    pub slots: &'a Slots,
    /// The slots with tasks that were seen in other states since.
    pub observed: &'a Slots,
    /// The HA groups of its nodes.
    pub groups: &'a BTreeMap<GroupId, GroupState>,
    /// The status of the workload's update.
    pub update: &'a UpdateStatus,
    /// Deleted nodes whose agents may still run what they ran.
    pub departures: &'a Departures,
    /// Its HA group, if that does not exist: what runs stays, and nothing new starts.
    pub gone_group: Option<&'a GroupId>,
    /// Number of workload units of the workload.
    pub part_count: usize,
    /// The slots of its other workload units that have nodes.
    pub other_units: &'a [(&'a Part, &'a Slots)],
    /// Parts that the update's status names and that the workload no longer has.
    pub gone_parts: &'a [Part],
    /// Nodes with tasks of this workload unit, which the policy no longer has, that another one of the policy takes over; sorted.
    pub taken_over: &'a [NodeId],
    /// Workloads that should share its nodes and have an instance that starts or stops on nodes like its own.
    pub unsettled_partners: &'a [PolicyId],
    /// True if a workload that must, or must not, share its nodes is being upgraded and may be away from its
    /// nodes for a while.
    pub are_partners_in_upgrade: bool,
    /// Changes of the blocklist that follow from its tasks.
    pub blocklist: &'a BlocklistNews,
    /// Its parents and children.
    pub dependencies: &'a dyn DependencyFacts,
    /// Errors of the workload that others than the engine reported since its update began, if it is in error
    /// for them.
    pub errors: &'a [ReportedError],
    /// Health of its tasks, as nodes reported it.
    pub health: &'a BTreeMap<TaskId, ReportedHealth>,
    /// Access to the known health of all of its tasks.
    pub survey: &'a dyn HealthSurvey,
    /// Context of the recoveries of its tasks.
    pub recovery: &'a RecoveryFacts,
    /// Until when what is known may be out of date after a start of the agbot.
    pub grace_until: Option<Timestamp>,
    /// Until when automatic starts wait for nodes that were not heard since.
    pub unheard_until: Option<Timestamp>,
    /// The compatibility versions of its agents, if they differ and that suspends automatic decisions.
    pub incompatible: &'a [i64],
    /// Times and limits.
    pub settings: UnitSettings,
}

/// An error that was reported about a workload, one of its units, or an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedError {
    /// The entity.
    pub entity: Entity,
    /// Source of the report.
    pub source: String,
    /// About what.
    pub property: String,
    /// Since when it is so.
    pub since: Timestamp,
}
