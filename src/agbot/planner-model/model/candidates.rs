//! Keeps the two indexes consistent with the model and queries them: nodes for a policy, policies for a node.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_domain::policy::constraint::Expression;
use evenkeel_ids::{NodeId, PolicyId, ServiceKey};
use evenkeel_placement::matching::Consumer;
use evenkeel_planner_record::node_record::NodeRecord;

use super::{Model, attributes::AttributeSets, index::NodeIndex, policy_index::PolicyIndex};

/// The indexes with their dense numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Indexes {
    nodes: NodeIndex,
    attributes: AttributeSets,
    /// Every node has a number, with or without a policy.
    numbers: BTreeMap<NodeId, u32>,
    node_ids: Vec<Option<NodeId>>,
    free_numbers: Vec<u32>,
    policies: PolicyIndex,
    entries: BTreeMap<PolicyId, Vec<u32>>,
    entry_policies: Vec<Option<PolicyId>>,
    free_entries: Vec<u32>,
}

/// Returns a free slot, or adds one.
fn allocate<T>(slots: &mut Vec<Option<T>>, free: &mut Vec<u32>, item: T) -> u32 {
    match free.pop() {
        Some(number) => {
            slots[number as usize] = Some(item);
            number
        }
        None => {
            slots.push(Some(item));
            u32::try_from(slots.len() - 1).expect("a model holds fewer than 2^32 nodes and policies")
        }
    }
}

impl Indexes {
    /// Returns the number of a node.
    pub(super) fn number(&self, node: &NodeId) -> Option<u32> {
        self.numbers.get(node).copied()
    }

    /// Returns the sets of nodes by the properties of their policies.
    pub(super) fn nodes(&self) -> &NodeIndex {
        &self.nodes
    }

    /// Returns the sets of nodes by what else is known of them.
    pub(super) fn attributes(&self) -> &AttributeSets {
        &self.attributes
    }

    fn enter_node(&mut self, record: &NodeRecord) {
        let id = &record.facts.id;
        let number = allocate(&mut self.node_ids, &mut self.free_numbers, id.clone());
        self.numbers.insert(id.clone(), number);
        self.put_node(record);
    }

    fn leave_node(&mut self, record: &NodeRecord) {
        self.take_node(record);
        if let Some(number) = self.numbers.remove(&record.facts.id) {
            self.node_ids[number as usize] = None;
            self.free_numbers.push(number);
        }
    }

    fn put_node(&mut self, record: &NodeRecord) {
        let Some(number) = self.number(&record.facts.id) else { return };
        self.attributes.insert(number, record);
        if let Some(properties) = record.properties() {
            self.nodes.insert(number, properties);
        }
    }

    fn take_node(&mut self, record: &NodeRecord) {
        let Some(number) = self.number(&record.facts.id) else { return };
        self.attributes.remove(number, record);
        if let Some(properties) = record.properties() {
            self.nodes.remove(number, properties);
        }
    }

    fn put_policy(&mut self, policy: &PolicyId, trees: impl Iterator<Item = Expression>) {
        for tree in trees {
            let entry = allocate(&mut self.entry_policies, &mut self.free_entries, policy.clone());
            self.policies.insert(entry, tree);
            self.entries.entry(policy.clone()).or_default().push(entry);
        }
    }

    fn take_policy(&mut self, policy: &PolicyId) {
        for entry in self.entries.remove(policy).unwrap_or_default() {
            self.policies.remove(entry);
            self.entry_policies[entry as usize] = None;
            self.free_entries.push(entry);
        }
    }
}

impl Model {
    /// Changes what the indexes know of a node: its properties, its group, and its attributes.
    pub(super) fn change_indexed_node(&mut self, node: &NodeId, change: impl FnOnce(&mut NodeRecord)) {
        if let Some(record) = self.nodes.get_mut(node) {
            self.indexes.take_node(record);
            change(record);
            self.indexes.put_node(record);
        }
    }

    pub(super) fn add_node(&mut self, record: NodeRecord) {
        let node = record.facts.id.clone();
        self.indexes.enter_node(&record);
        self.nodes.insert(node.clone(), record);
        self.follow_services(&node, &[]);
    }

    pub(super) fn remove_node(&mut self, node: &NodeId) {
        self.unheard.remove(node);
        let services = self.agreed_services(node);
        if let Some(number) = self.indexes.number(node) {
            self.indexes.attributes.replace_services(number, &services, &[]);
        }
        if let Some(record) = self.nodes.remove(node) {
            self.indexes.leave_node(&record);
        }
    }

    /// Returns the versions of services that a node has live agreements about, each once.
    pub(super) fn agreed_services(&self, node: &NodeId) -> Vec<(ServiceKey, String)> {
        let mut services: Vec<(ServiceKey, String)> =
            self.live_on(node).map(|one| (one.service_key.clone(), one.version.clone())).collect();
        services.sort();
        services.dedup();
        services
    }

    /// Follows a change of the agreements of a node; `before`: the services that it had agreements about.
    pub(super) fn follow_services(&mut self, node: &NodeId, before: &[(ServiceKey, String)]) {
        let after = self.agreed_services(node);
        if let Some(number) = self.indexes.number(node).filter(|_| before != after) {
            self.indexes.attributes.replace_services(number, before, &after);
        }
    }

    /// Indexes a policy again after its consumers were prepared or dropped.
    pub(super) fn index_policy(&mut self, policy: &PolicyId) {
        self.indexes.take_policy(policy);
        if self.policies.get(policy).is_some_and(|facts| facts.pattern.is_some()) {
            // Nodes are found by the pattern's name.
            return;
        }
        let trees = self.selecting_trees(policy);
        self.indexes.put_policy(policy, trees.into_iter());
    }

    /// Returns the constraints of which a node must satisfy one to be a candidate.
    ///
    /// A version without a usable definition has no constraints of a service. The policy's own ones then select the nodes whose reasons
    /// name what is missing.
    fn selecting_trees(&self, policy: &PolicyId) -> Vec<Expression> {
        let Some(facts) = self.policies.get(policy) else { return Vec::new() };
        let none = BTreeMap::new();
        let consumers = self.consumers.get(policy).unwrap_or(&none);
        // Architectures of one version mostly have the same constraints.
        let mut trees: Vec<Expression> = Vec::new();
        for tree in consumers.values().flatten().map(Consumer::tree) {
            if !trees.contains(&tree) {
                trees.push(tree);
            }
        }
        let is_usable =
            |version: &str| consumers.iter().any(|((one, _), consumer)| one == version && consumer.is_ok());
        if facts.versions.is_empty() || !facts.versions.iter().all(|entry| is_usable(&entry.version)) {
            trees.extend(facts.policy.constraints.parse_own().ok().filter(|tree| !trees.contains(tree)));
        }
        trees
    }

    /// Returns the policies whose constraints a node satisfies: a superset of those that select it.
    pub fn policies_for(&self, node: &NodeId) -> BTreeSet<PolicyId> {
        let serves =
            |id: &&PolicyId| self.policies.get(*id).is_some_and(|one| one.node_orgs.contains(node.org()));
        let Some(record) = self.nodes.get(node) else { return BTreeSet::new() };
        if let Some(pattern) = &record.facts.pattern {
            let ids = self.policies_by_pattern.get(pattern).into_iter().flatten();
            return ids.filter(serves).cloned().collect();
        }
        let Some(properties) = record.properties() else { return BTreeSet::new() };
        let indexes = &self.indexes;
        let found = indexes.policies.evaluate(properties).into_iter();
        let ids = found.filter_map(|entry| indexes.entry_policies[entry as usize].as_ref());
        ids.filter(serves).cloned().collect()
    }

    /// Returns the nodes that satisfy a policy's constraints: a superset of those it selects.
    pub fn nodes_for(&self, policy: &PolicyId) -> BTreeSet<NodeId> {
        let Some(facts) = self.policies.get(policy) else { return BTreeSet::new() };
        if facts.pattern.is_some() {
            let is_of_it = |node: &&NodeRecord| {
                node.facts.pattern == facts.pattern && facts.node_orgs.contains(node.facts.id.org())
            };
            return self.nodes.values().filter(is_of_it).map(|node| node.facts.id.clone()).collect();
        }
        let found = self.satisfying_one_of(policy);
        let ids = found.into_iter().filter_map(|number| self.indexes.node_ids[number as usize].as_ref());
        ids.filter(|node| facts.node_orgs.contains(node.org())).cloned().collect()
    }

    /// Returns the numbers of the nodes that satisfy a policy's constraints.
    pub(super) fn satisfying_one_of(&self, policy: &PolicyId) -> roaring::RoaringBitmap {
        let mut found = roaring::RoaringBitmap::new();
        for tree in self.selecting_trees(policy) {
            found |= self.indexes.nodes.evaluate(&tree);
        }
        found
    }

    /// Returns the numbers of the nodes whose properties satisfy a constraint.
    pub(super) fn satisfying(&self, tree: &Expression) -> roaring::RoaringBitmap {
        self.indexes.nodes.evaluate(tree)
    }

    /// Returns whether a node is among numbered ones.
    pub(super) fn is_among(&self, node: &NodeId, numbers: &roaring::RoaringBitmap) -> bool {
        self.indexes.number(node).is_some_and(|number| numbers.contains(number))
    }

    /// Returns the indexes.
    pub(super) fn indexes(&self) -> &Indexes {
        &self.indexes
    }
}
