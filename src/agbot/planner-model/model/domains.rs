//! The nodes and capacities of an organization by fault domain, for people: nothing here decides.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_domain::orchestration::capacity::Amounts;
use evenkeel_ids::NodeId;
use evenkeel_planner_record::facts::Availability;
use jiff::Timestamp;

use super::{CapacitySum, Model, Reach};

/// Nodes whose capacities are summed up: sums visit the tasks of each.
const MOST_SUMMED: usize = 5_000;

/// Numbers of a fault domain.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DomainCounts {
    /// Its nodes.
    pub nodes: u64,
    /// Those whose heartbeats arrive.
    pub up: u64,
    /// Those on which something may be placed: they are up, active and not frozen.
    pub open: u64,
    /// Live agreements.
    pub instances: u64,
    /// Those whose service is seen running.
    pub running: u64,
    /// The capacities that workloads use, of its nodes that are not down, by name.
    pub capacities: BTreeMap<String, CapacitySum>,
}

impl Model {
    /// Returns the numbers of an organization's innermost fault domains, of the nodes that are shown to a caller. Nodes without a domain are
    /// counted under an empty name.
    ///
    /// # Shape
    /// No capacities for an organization with very many nodes.
    #[must_use]
    pub fn domain_counts(
        &self,
        org: &str,
        is_shown: impl Fn(&NodeId) -> bool,
        now: Timestamp,
    ) -> BTreeMap<String, DomainCounts> {
        let names: BTreeSet<&String> = match self.set_of_org(org).len() {
            nodes if nodes > MOST_SUMMED as u64 => BTreeSet::new(),
            _ => self.limiting_loads().flat_map(Amounts::keys).collect(),
        };
        let mut counts: BTreeMap<String, DomainCounts> = BTreeMap::new();
        for (node, record) in self.nodes_of_org(org, None, None).filter(|(node, _)| is_shown(node)) {
            let domain = record.facts.fault_domain.as_deref().unwrap_or_default();
            let of_domain = counts.entry(domain.to_owned()).or_default();
            let reach = Reach::from(self.liveness(node, now));
            let is_up = reach == Reach::Up;
            let is_open =
                is_up && record.facts.availability == Availability::Active && !record.facts.is_frozen;
            let (instances, running) = self.counted_instances_on(node, now);
            of_domain.nodes += 1;
            of_domain.up += u64::from(is_up);
            of_domain.open += u64::from(is_open);
            of_domain.instances += u64::from(instances);
            of_domain.running += u64::from(running);
            for name in names.iter().filter(|_| reach != Reach::Down) {
                let Some(CapacitySum { used, usable }) = self.capacity_on(record, name) else { continue };
                let sum = of_domain.capacities.entry((*name).clone()).or_default();
                sum.used += used;
                sum.usable += usable;
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Event, group_fixture::running_group};

    #[test]
    fn nodes_are_counted_by_their_innermost_domain() {
        let (mut model, now) = running_group(&["a", "b", "c"]);
        for (name, domain) in [("a", Some("fd:/x/1")), ("b", Some("fd:/x/1")), ("c", None)] {
            let mut facts = model.node(&NodeId::new("o", name)).expect("a node").facts.clone();
            facts.fault_domain = domain.map(Into::into);
            facts.is_frozen = name == "b";
            model.apply(&Event::NodeChanged { node: Box::new(facts) }, now);
        }
        let counts = model.domain_counts("o", |_| true, now);
        let numbers = |one: &DomainCounts| (one.nodes, one.up, one.open, one.instances, one.running);
        assert_eq!(counts.keys().collect::<Vec<_>>(), ["", "fd:/x/1"]);
        assert_eq!(numbers(&counts["fd:/x/1"]), (2, 2, 1, 2, 2));
        assert_eq!(numbers(&counts[""]), (1, 1, 1, 1, 1));
        let shown = model.domain_counts("o", |node| node.name() == "a", now);
        assert_eq!(shown.values().map(|one| one.nodes).sum::<u64>(), 1);
        assert!(model.domain_counts("other", |_| true, now).is_empty());
    }
}
