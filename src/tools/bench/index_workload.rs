//! Workloads of the index benchmarks, each with a naive implementation to compare.
//!
//! Pure: they build inputs and results; the command line measures time and memory around them. The fleets are generated
//! from a seed: 20 properties per node, some with few values, some numeric, one that differs on every node. Source: design 7 (a smart algorithm is
//! compared with a naive one).

use evenkeel_domain::policy::{ConstraintList, Property, PropertyList, constraint::Expression};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use evenkeel_planner_model::model::{index::NodeIndex, policy_index::PolicyIndex};

/// Properties with few values, and the number of values.
const CHOICES: [(&str, u32); 14] = [
    ("region", 8),
    ("country", 40),
    ("site", 2_000),
    ("line", 300),
    ("role", 12),
    ("tier", 4),
    ("vendor", 25),
    ("model", 120),
    ("owner", 500),
    ("network", 6),
    ("rack", 64),
    ("stage", 3),
    ("openhorizon.arch", 4),
    ("openhorizon.operatingSystem", 8),
];

/// Generates the 20 properties of one node.
pub fn node_properties(random: &mut impl Rng, number: u32) -> PropertyList {
    let chosen = CHOICES.iter().map(|(name, count)| {
        let value = random.random_range(0..*count);
        Property::new(*name, format!("{}-{value}", name.rsplit('.').next().unwrap_or(name)))
    });
    let mut properties: Vec<Property> = chosen.collect();
    properties.push(Property::new("openhorizon.cpu", random.random_range(1..=64)));
    properties.push(Property::new("openhorizon.memory", random.random_range(512..=262_144)));
    properties.push(Property::new("openhorizon.allowPrivileged", random.random_bool(0.2)));
    properties.push(Property::new("openhorizon.containerized", random.random_bool(0.5)));
    properties.push(Property::new(
        "firmware",
        format!("{}.{}.0", random.random_range(1..6), random.random_range(0..20)),
    ));
    properties.push(Property::new("openhorizon.hardwareId", format!("{number:016x}")));
    properties.into_iter().collect()
}

/// Generates the constraints of one policy: two to four terms of different kinds, joined as users join them.
pub fn policy_constraints(random: &mut impl Rng) -> ConstraintList {
    let pick = |random: &mut dyn rand::RngCore| {
        let (name, count) = CHOICES[(random.next_u32() as usize) % CHOICES.len()];
        let value = random.next_u32() % count;
        (name, format!("{}-{value}", name.rsplit('.').next().unwrap_or(name)))
    };
    let mut texts = Vec::new();
    let (name, value) = pick(random);
    texts.push(format!("{name} == {value}"));
    let (name, value) = pick(random);
    let (_, other) = pick(random);
    texts.push(format!("{name} in \"{value},{other}\""));
    if random.random_bool(0.5) {
        let memory = 1024 << random.random_range(0..7);
        texts.push(format!(
            "openhorizon.memory >= {memory} AND openhorizon.cpu > {}",
            random.random_range(1..8)
        ));
    }
    if random.random_bool(0.3) {
        let (name, value) = pick(random);
        let major = random.random_range(1..5);
        texts.push(format!("{name} == {value} OR firmware in [{major}.0.0,{}.0.0)", major + 1));
    }
    texts.into_iter().collect()
}

/// A fleet of nodes in the index.
pub struct Fleet {
    index: NodeIndex,
    policies: Vec<Expression>,
    seed: u64,
    nodes: u32,
}

impl Fleet {
    /// Generates the fleet and the policies to query it with.
    pub fn new(nodes: u32, policies: u32, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut index = NodeIndex::new();
        for number in 0..nodes {
            index.insert(number, &node_properties(&mut random, number));
        }
        let policies = (0..policies).filter_map(|_| policy_constraints(&mut random).parse().ok()).collect();
        Self { index, policies, seed, nodes }
    }

    /// Returns the number of policies.
    pub fn policy_count(&self) -> usize {
        self.policies.len()
    }

    /// Queries the index for the nodes that satisfy a policy; returns their number.
    pub fn query(&self, policy: usize) -> u64 {
        self.index.evaluate(&self.policies[policy % self.policies.len()]).len()
    }

    /// Evaluates a policy on every node of a sample, as the reference does; returns the number that satisfy it.
    ///
    /// # Shape
    /// `sample` comes from [`Fleet::sample`]; the whole fleet as property lists would not fit beside the index.
    pub fn scan(&self, policy: usize, sample: &[PropertyList]) -> u64 {
        let tree = &self.policies[policy % self.policies.len()];
        sample.iter().filter(|properties| tree.is_satisfied_by(properties)).count() as u64
    }

    /// Generates the first nodes of the fleet again, for the naive implementation.
    pub fn sample(&self, nodes: u32) -> Vec<PropertyList> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        (0..nodes.min(self.nodes)).map(|number| node_properties(&mut random, number)).collect()
    }

    /// Queries the index for the first nodes only, to compare with the naive implementation.
    pub fn query_among(&self, policy: usize, nodes: u32) -> u64 {
        let found = self.index.evaluate(&self.policies[policy % self.policies.len()]);
        found.range_cardinality(0..nodes)
    }
}

/// A set of policies in the index, with nodes to query it with.
pub struct PolicySet {
    index: PolicyIndex,
    trees: Vec<Expression>,
    nodes: Vec<PropertyList>,
}

impl PolicySet {
    /// Generates the policies and nodes.
    pub fn new(policies: u32, nodes: u32, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let trees: Vec<Expression> =
            (0..policies).filter_map(|_| policy_constraints(&mut random).parse().ok()).collect();
        let mut index = PolicyIndex::new();
        for (entry, tree) in (0_u32..).zip(&trees) {
            index.insert(entry, tree.clone());
        }
        let nodes = (0..nodes).map(|number| node_properties(&mut random, number)).collect();
        Self { index, trees, nodes }
    }

    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Queries the index for the policies that select a node; returns their number.
    pub fn query(&self, node: usize) -> usize {
        self.index.evaluate(&self.nodes[node % self.nodes.len()]).len()
    }

    /// Evaluates every policy in turn.
    pub fn scan(&self, node: usize) -> usize {
        let properties = &self.nodes[node % self.nodes.len()];
        self.trees.iter().filter(|tree| tree.is_satisfied_by(properties)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_and_naive_scan_agree_on_the_benchmark_fleet() {
        let fleet = Fleet::new(3_000, 60, 11);
        let sample = fleet.sample(3_000);
        assert_eq!(sample[0].len(), 20);
        let mut found = 0;
        for policy in 0..fleet.policy_count() {
            let naive = fleet.scan(policy, &sample);
            assert_eq!((fleet.query(policy), fleet.query_among(policy, 3_000)), (naive, naive));
            found += naive;
        }
        assert!(found > 0, "policies that select nothing measure nothing");
    }

    #[test]
    fn policy_index_and_naive_scan_agree_on_the_benchmark_policies() {
        let set = PolicySet::new(2_000, 40, 12);
        let mut found = 0;
        for node in 0..set.node_count() {
            assert_eq!(set.query(node), set.scan(node));
            found += set.query(node);
        }
        assert!(found > 0, "nodes that no policy selects measure nothing");
    }
}
