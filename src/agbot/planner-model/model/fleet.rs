//! The nodes of an organization by state, page by page, and how many instances they have.
//!
//! Read by people only: nothing here decides.

use std::collections::BTreeMap;
use std::ops::Bound;

use evenkeel_domain::policy::constraint::Expression;
use evenkeel_ids::{AgreementId, GroupId, NodeId, PolicyId};
use evenkeel_planner_record::{facts::Availability, node_record::NodeRecord};
use jiff::Timestamp;
use roaring::RoaringBitmap;

use super::{Liveness, Model, Observed};

/// Reachability of the agent of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Its heartbeats arrive.
    Up,
    /// It announced an absence, or nothing could be heard of it for a while.
    Away,
    /// Its heartbeats are missing.
    Down,
    /// It never sent a heartbeat.
    NeverHeard,
}

impl Reach {
    /// The words that the API shows.
    pub const NAMES: [&'static str; 4] = ["up", "away", "down", "never-heard"];

    /// Returns the word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns the one with this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Up, Self::Away, Self::Down, Self::NeverHeard].into_iter().find(|one| one.word() == word)
    }
}

impl From<Liveness> for Reach {
    fn from(liveness: Liveness) -> Self {
        match liveness {
            Liveness::Alive => Self::Up,
            Liveness::Away { .. } | Liveness::Unheard { .. } => Self::Away,
            Liveness::Down { .. } => Self::Down,
            Liveness::NeverHeard => Self::NeverHeard,
        }
    }
}

/// Selection of nodes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetFilter {
    /// Only nodes that can be reached so.
    pub reach: Option<Reach>,
    /// Only nodes with this availability.
    pub availability: Option<Availability>,
    /// Only nodes whose policy satisfies this constraint. Nodes without a policy satisfy none.
    pub properties: Option<Expression>,
    /// Only members of this HA group, without its organization.
    pub group: Option<String>,
    /// Only this node.
    pub node: Option<NodeId>,
}

impl FleetFilter {
    /// Returns whether the constraint on properties is all that selects.
    pub(super) fn is_of_properties(&self) -> bool {
        let Self { reach, availability, properties, group, node } = self;
        properties.is_some() && (reach, availability, group, node) == (&None, &None, &None, &None)
    }

    /// Returns whether it selects every node.
    #[must_use]
    pub fn is_of_all(&self) -> bool {
        *self == Self::default()
    }
}

/// A node with the number of its instances.
#[derive(Debug, Clone)]
pub struct FleetRow<'m> {
    /// The node.
    pub record: &'m NodeRecord,
    /// Its liveness.
    pub liveness: Liveness,
    /// Live agreements.
    pub instances: u32,
    /// Those whose service is seen running.
    pub running: u32,
}

/// A page of nodes.
#[derive(Debug, Clone, Default)]
pub struct FleetPage<'m> {
    /// The nodes, by id.
    pub nodes: Vec<FleetRow<'m>>,
    /// The last of them if more follow.
    pub next: Option<NodeId>,
}

/// Numbers of nodes and instances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FleetCounts {
    /// Nodes by reach, in the order of [`Reach::NAMES`].
    pub by_reach: [u64; 4],
    /// Nodes that are being drained.
    pub draining: u64,
    /// Nodes on which nothing is placed or updated.
    pub paused: u64,
    /// Nodes that a user froze.
    pub frozen: u64,
    /// Live agreements.
    pub instances: u64,
    /// Those whose service is seen running.
    pub running: u64,
}

/// Numbers of HA groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FleetGroups {
    /// Every member is up.
    pub up: u64,
    /// Some members are up.
    pub degraded: u64,
    /// No member is up.
    pub down: u64,
    /// No member.
    pub empty: u64,
}

impl FleetCounts {
    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.by_reach.iter().sum()
    }
}

impl Model {
    /// Returns the nodes of an organization after the given one, by id; none begins with the first. `only`: the only one that is looked for.
    pub(super) fn nodes_of_org<'m>(
        &'m self,
        org: &'m str,
        after: Option<&NodeId>,
        only: Option<&NodeId>,
    ) -> impl Iterator<Item = (&'m NodeId, &'m NodeRecord)> + use<'m> {
        let start = match (after, only) {
            (Some(node), _) => Bound::Excluded(node.clone()),
            (None, Some(node)) => Bound::Included(node.clone()),
            (None, None) => Bound::Included(NodeId::new(org, "")),
        };
        let end = only.map_or(Bound::Unbounded, |node| Bound::Included(node.clone()));
        // A range that ends before its start is none.
        let is_over = after.zip(only).is_some_and(|(after, only)| after >= only);
        let found = (!is_over).then(|| self.nodes.range((start, end)));
        found.into_iter().flatten().take_while(move |(node, _)| node.org() == org)
    }

    /// Returns the nodes of an organization after the given one among which those of a filter are.
    fn candidates<'m>(
        &'m self,
        org: &'m str,
        filter: &FleetFilter,
        after: Option<&NodeId>,
    ) -> Box<dyn Iterator<Item = (&'m NodeId, &'m NodeRecord)> + 'm> {
        let group = filter.group.as_ref().and_then(|group| self.groups.get(&GroupId::new(org, group)));
        let Some(group) = group else { return Box::new(self.nodes_of_org(org, after, filter.node.as_ref())) };
        let start = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.clone()));
        let members = group.members.range((start, Bound::Unbounded));
        Box::new(members.filter_map(|member| self.nodes.get_key_value(member)))
    }

    /// Returns the nodes of an organization that are shown to a caller and selected, at most `limit` after the given one.
    #[must_use]
    pub fn fleet_page<'m>(
        &'m self,
        org: &'m str,
        filter: &FleetFilter,
        (after, limit): (Option<&NodeId>, usize),
        is_shown: impl Fn(&NodeId) -> bool,
        now: Timestamp,
    ) -> FleetPage<'m> {
        let selected = Selected::new(self, filter, now);
        let mut page = FleetPage::default();
        for (node, record) in self.candidates(org, filter, after).filter(|(node, _)| is_shown(node)) {
            let Some(liveness) = selected.liveness(node, record) else { continue };
            if page.nodes.len() == limit {
                page.next = page.nodes.last().map(|last| last.record.facts.id.clone());
                break;
            }
            let (instances, running) = self.counted_instances_on(node, now);
            page.nodes.push(FleetRow { record, liveness, instances, running });
        }
        page
    }

    /// Returns the number of nodes of an organization that are shown to a caller and selected.
    #[must_use]
    pub fn fleet_count(
        &self,
        org: &str,
        filter: &FleetFilter,
        is_shown: impl Fn(&NodeId) -> bool,
        now: Timestamp,
    ) -> u64 {
        let selected = Selected::new(self, filter, now);
        let shown = self.candidates(org, filter, None).filter(|(node, _)| is_shown(node));
        shown.filter(|(node, record)| selected.liveness(node, record).is_some()).count() as u64
    }

    /// Calls with each node of an organization that is selected.
    pub(super) fn each_selected(
        &self,
        org: &str,
        filter: &FleetFilter,
        now: Timestamp,
        mut call: impl FnMut(&NodeId),
    ) {
        let selected = Selected::new(self, filter, now);
        for (node, record) in self.candidates(org, filter, None) {
            if selected.liveness(node, record).is_some() {
                call(node);
            }
        }
    }

    /// Returns the numbers of nodes and instances of an organization, of those that are shown to a caller.
    #[must_use]
    pub fn fleet_counts(&self, org: &str, is_shown: impl Fn(&NodeId) -> bool, now: Timestamp) -> FleetCounts {
        let mut counts = FleetCounts::default();
        // Both are in the order of the nodes, so that none is looked up.
        let start = (NodeId::new(org, ""), PolicyId::from_text("/"), AgreementId::from_text(""));
        let mut live = self.live.range(start..).peekable();
        for (node, record) in self.nodes_of_org(org, None, None).filter(|(node, _)| is_shown(node)) {
            counts.by_reach[Reach::from(self.liveness_of(&record.facts, now)) as usize] += 1;
            counts.draining += u64::from(record.facts.availability == Availability::Drain);
            counts.paused += u64::from(record.facts.availability == Availability::Pause);
            counts.frozen += u64::from(record.facts.is_frozen);
            while live.next_if(|(other, ..)| other < node).is_some() {}
            while let Some((.., id)) = live.next_if(|(other, ..)| other == node) {
                let agreement = self.agreements.get(id);
                let runs = |one| self.observed_on(record, one, now) == Observed::Running;
                counts.instances += u64::from(agreement.is_some());
                counts.running += u64::from(agreement.is_some_and(runs));
            }
        }
        counts
    }

    /// Returns the numbers of an organization's HA groups by the reach of their members, of those that are shown to a caller.
    #[must_use]
    pub fn fleet_group_counts(
        &self,
        org: &str,
        is_shown: impl Fn(&NodeId) -> bool,
        now: Timestamp,
    ) -> FleetGroups {
        let mut counts = FleetGroups::default();
        for group in self.groups().filter(|group| group.id.org() == org) {
            let shown = group.members.iter().filter(|node| is_shown(node));
            let (mut all, mut up) = (0_u64, 0_u64);
            for node in shown {
                all += 1;
                up += u64::from(Reach::from(self.liveness(node, now)) == Reach::Up);
            }
            let counted = match up {
                _ if all == 0 => &mut counts.empty,
                0 => &mut counts.down,
                up if up < all => &mut counts.degraded,
                _ => &mut counts.up,
            };
            *counted += 1;
        }
        counts
    }

    /// Returns the numbers of the tasks of an organization's policies by the names of their states: the newest of each slot, and those that have not
    /// ended.
    #[must_use]
    pub fn fleet_task_counts(&self, org: &str) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for record in self.workloads().filter(|record| record.policy.org() == org) {
            for (_, unit) in self.workload_units_of(&record.policy) {
                for tasks in unit.slots.values() {
                    let counted = tasks.iter().enumerate();
                    for (_, task) in
                        counted.filter(|(position, task)| *position == 0 || !task.state.is_ended())
                    {
                        *counts.entry(task.state.name()).or_default() += 1;
                    }
                }
            }
        }
        counts
    }

    /// Returns whether instances of a policy may be missing: nothing of it runs, some of it does not, or not all of it has a node.
    #[must_use]
    pub fn may_miss_instances(&self, policy: &PolicyId, now: Timestamp) -> bool {
        let runs = |agreement| self.observed(agreement, now) == Observed::Running;
        let mut agreements = self.agreements_of(policy).peekable();
        let is_unplaced = || self.workload_units_of(policy).any(|(_, unit)| unit.unplaced.is_some());
        agreements.peek().is_none() || !agreements.all(runs) || is_unplaced()
    }

    /// Returns the number of live agreements of a node, and of those whose service is seen running.
    pub(super) fn counted_instances_on(&self, node: &NodeId, now: Timestamp) -> (u32, u32) {
        let live = self.live_on(node);
        live.fold((0, 0), |(instances, running), agreement| {
            let runs = self.observed(agreement, now) == Observed::Running;
            (instances + 1, running + u32::from(runs))
        })
    }
}

/// A selection with what the index says of it.
struct Selected<'s> {
    model: &'s Model,
    filter: &'s FleetFilter,
    /// Numbers of the nodes whose properties satisfy the constraint; none without a constraint.
    satisfying: Option<RoaringBitmap>,
    now: Timestamp,
}

impl<'s> Selected<'s> {
    fn new(model: &'s Model, filter: &'s FleetFilter, now: Timestamp) -> Self {
        let satisfying = filter.properties.as_ref().map(|tree| model.satisfying(tree));
        Self { model, filter, satisfying, now }
    }

    /// Returns the liveness of a node that is selected.
    fn liveness(&self, node: &NodeId, record: &NodeRecord) -> Option<Liveness> {
        let FleetFilter { reach, availability, group, node: only, .. } = self.filter;
        if availability.is_some_and(|one| one != record.facts.availability)
            || group.as_deref().is_some_and(|one| Some(one) != record.group())
            || only.as_ref().is_some_and(|one| one != node)
            || self.satisfying.as_ref().is_some_and(|found| !self.model.is_among(node, found))
        {
            return None;
        }
        let liveness = self.model.liveness_of(&record.facts, self.now);
        reach.is_none_or(|one| one == liveness.into()).then_some(liveness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group_fixture::running_group;

    fn ids(page: &FleetPage<'_>) -> Vec<String> {
        page.nodes.iter().map(|one| one.record.facts.id.name().to_owned()).collect()
    }

    #[test]
    fn pages_follow_each_other_and_hold_what_is_shown_and_selected() {
        let (model, now) = running_group(&["a", "b", "c", "d"]);
        let all = FleetFilter::default();
        let page = model.fleet_page("o", &all, (None, 2), |_| true, now);
        assert_eq!(
            (ids(&page), page.next.clone()),
            (vec!["a".into(), "b".into()], Some(NodeId::new("o", "b")))
        );
        let rest = model.fleet_page("o", &all, (page.next.as_ref(), 2), |_| true, now);
        assert_eq!((ids(&rest), rest.next), (vec!["c".into(), "d".into()], None));
        let shown = |node: &NodeId| node.name() != "b";
        assert_eq!(ids(&model.fleet_page("o", &all, (None, 9), shown, now)), ["a", "c", "d"]);
        assert!(model.fleet_page("other", &all, (None, 9), |_| true, now).nodes.is_empty());

        let of_group = FleetFilter { group: Some("g".into()), ..all.clone() };
        assert_eq!(model.fleet_count("o", &of_group, shown, now), 3);
        for (reach, count) in [(Reach::Up, 4), (Reach::Down, 0)] {
            let filter = FleetFilter { reach: Some(reach), ..all.clone() };
            assert_eq!(model.fleet_count("o", &filter, |_| true, now), count);
        }
        let only = FleetFilter { node: Some(NodeId::new("o", "b")), ..all.clone() };
        assert_eq!(ids(&model.fleet_page("o", &only, (None, 9), |_| true, now)), ["b"]);
        let after = NodeId::new("o", "b");
        assert!(model.fleet_page("o", &only, (Some(&after), 9), |_| true, now).nodes.is_empty());
        let draining = FleetFilter { availability: Some(Availability::Drain), ..all };
        assert_eq!(model.fleet_count("o", &draining, |_| true, now), 0);
    }

    #[test]
    fn counts_are_those_of_the_shown_nodes() {
        let (model, now) = running_group(&["a", "b", "c"]);
        let counts = model.fleet_counts("o", |node| node.name() != "a", now);
        assert_eq!((counts.nodes(), counts.instances, counts.running), (2, 2, 2));
        assert_eq!(counts.by_reach, [2, 0, 0, 0]);
    }

    #[test]
    fn groups_are_counted_by_the_reach_of_their_shown_members() {
        let (model, now) = running_group(&["a", "b"]);
        let up = FleetGroups { up: 1, ..FleetGroups::default() };
        assert_eq!(model.fleet_group_counts("o", |_| true, now), up);
        let empty = FleetGroups { empty: 1, ..FleetGroups::default() };
        assert_eq!(model.fleet_group_counts("o", |_| false, now), empty);
        assert_eq!(model.fleet_group_counts("other", |_| true, now), FleetGroups::default());
    }

    #[test]
    fn each_word_names_one_reach() {
        for word in Reach::NAMES {
            assert_eq!(Reach::from_word(word).map(Reach::word), Some(word));
        }
        assert_eq!(Reach::from_word("Up"), None);
    }
}
