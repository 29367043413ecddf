//! Values that some nodes have in common and others have not: those that are more frequent among them than among all.
//!
//! Each value has a set of nodes in an index, so that its counts are those of intersections. Names with very many values, such as serial
//! numbers, are left out, and the number of examined values is bounded: the cost does not grow with the number of nodes beyond that of the
//! sets. Only values of the compared nodes count, so that nothing follows from those of other organizations.

use std::{borrow::Cow, collections::BTreeSet};

use evenkeel_ids::{NodeId, PolicyId, ServiceKey};
use evenkeel_planner_record::association::{Association, Counts};
use jiff::Timestamp;
use roaring::RoaringBitmap;

use super::{FleetFilter, Model, attributes::Attribute};

/// Values of a name from which it distinguishes nodes rather than describing them.
const MOST_VALUES: usize = 500;
/// Values that are examined for one query.
const MOST_EXAMINED: usize = 4_000;
/// Values that are tested for whether any of the nodes has them.
const MOST_TESTS: usize = 100_000;

/// A set of nodes, as the indexes number them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeSet(RoaringBitmap);

impl NodeSet {
    /// Returns how many nodes it has.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Returns whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many of its nodes are in a set of an index.
    pub(super) fn count_in(&self, nodes: &RoaringBitmap) -> u64 {
        self.0.intersection_len(nodes)
    }

    /// Returns the nodes that are in both.
    pub fn and(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }

    /// Returns the nodes that are in one of both.
    pub fn or(&self, other: &Self) -> Self {
        Self(&self.0 | &other.0)
    }
}

/// A value that nodes have in common.
#[derive(Debug, Clone, PartialEq)]
pub struct CommonCause {
    /// Its kind.
    pub attribute: Attribute,
    /// Name of the property, or the service, `org/url`; empty for other kinds.
    pub name: String,
    /// The value.
    pub value: String,
    /// Its counts.
    pub counts: Counts,
    /// The result for them.
    pub association: Association,
    /// Number of values that chance alone would show so.
    pub by_chance: f64,
}

/// The values that nodes have in common.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CommonCauses {
    /// The nodes.
    pub failing: u64,
    /// All nodes with which they are compared.
    pub whole: u64,
    /// Values of these nodes that were examined.
    pub examined: u64,
    /// Names of which no value was, because these nodes have too many of them.
    pub skipped: u64,
    /// The values, the most strongly associated first.
    pub causes: Vec<CommonCause>,
}

/// The values of one name with their nodes.
struct Values<'i> {
    attribute: Attribute,
    name: String,
    count: usize,
    sets: Box<dyn Iterator<Item = (String, Cow<'i, RoaringBitmap>)> + 'i>,
}

/// A value with its counts.
type Candidate = (Attribute, String, String, Counts);

/// Search for values that failing nodes have in common.
struct Search<'s> {
    failing: &'s NodeSet,
    whole: &'s NodeSet,
    /// Values that may still be examined.
    left: usize,
    /// Values that may still be tested.
    tests: usize,
}

impl Search<'_> {
    /// Returns the values of a name that at least two failing nodes have, and how many values all nodes have; none when they are too many.
    ///
    /// Values that none of the nodes has count for nothing: they are those of other organizations.
    fn values_in(&mut self, list: Values<'_>) -> Option<(u64, Vec<Candidate>)> {
        let (mut examined, mut found) = (0, Vec::new());
        let limit = MOST_VALUES.min(self.left);
        for (value, nodes) in list.sets {
            self.tests = self.tests.checked_sub(1)?;
            if nodes.is_disjoint(&self.whole.0) {
                continue;
            }
            if examined == limit {
                return None;
            }
            examined += 1;
            let failing_with = nodes.intersection_len(&self.failing.0);
            if failing_with >= 2 {
                let whole_with = nodes.intersection_len(&self.whole.0);
                let (failing, whole) = (self.failing.len(), self.whole.len());
                let counts = Counts { failing_with, failing, whole_with, whole };
                found.push((list.attribute, list.name.clone(), value, counts));
            }
        }
        self.left -= examined;
        Some((examined as u64, found))
    }
}

impl Model {
    /// Returns the set of some nodes; those that the model does not know are left out.
    pub fn set_of_nodes<'n>(&self, nodes: impl IntoIterator<Item = &'n NodeId>) -> NodeSet {
        NodeSet(nodes.into_iter().filter_map(|node| self.indexes().number(node)).collect())
    }

    /// Returns the nodes of an organization.
    pub fn set_of_org(&self, org: &str) -> NodeSet {
        NodeSet(self.indexes().attributes().of_org(org))
    }

    /// Returns the nodes that satisfy the constraints of a policy.
    pub fn set_of_policy(&self, policy: &PolicyId) -> NodeSet {
        let Some(facts) = self.policies.get(policy) else { return NodeSet::default() };
        let of_orgs = facts.node_orgs.iter().map(|org| self.set_of_org(org.as_str()));
        let of_orgs = of_orgs.reduce(|all, one| all.or(&one)).unwrap_or_default();
        NodeSet(self.satisfying_one_of(policy)).and(&of_orgs)
    }

    /// Returns the nodes of an organization that are selected.
    pub fn set_of_fleet(&self, org: &str, filter: &FleetFilter, now: Timestamp) -> NodeSet {
        if filter.is_of_properties() {
            let found = filter.properties.as_ref().map(|tree| NodeSet(self.satisfying(tree)));
            return found.unwrap_or_default().and(&self.set_of_org(org));
        }
        let mut found = RoaringBitmap::new();
        self.each_selected(org, filter, now, |node| found.extend(self.indexes().number(node)));
        NodeSet(found)
    }

    /// Returns what `failing` nodes have in common that is less frequent among all of `whole`; at most `limit` values. `except`: a service
    /// whose versions are left out, because the nodes were chosen by it.
    pub fn common_causes(
        &self,
        failing: &NodeSet,
        whole: &NodeSet,
        except: Option<&ServiceKey>,
        limit: usize,
    ) -> CommonCauses {
        let whole = whole.or(failing);
        let mut found =
            CommonCauses { failing: failing.len(), whole: whole.len(), ..CommonCauses::default() };
        if failing.len() < 2 {
            return found;
        }
        let mut lists = self.lists_of_values(except);
        // Names with few values describe the most nodes with each.
        lists.sort_by(|one, other| {
            let key = |list: &Values<'_>| (list.count, list.attribute, list.name.clone());
            key(one).cmp(&key(other))
        });
        let mut search = Search { failing, whole: &whole, left: MOST_EXAMINED, tests: MOST_TESTS };
        let mut candidates = Vec::new();
        for list in lists {
            match search.values_in(list) {
                Some((examined, values)) => {
                    found.examined += examined;
                    candidates.extend(values);
                }
                None => found.skipped += 1,
            }
        }
        found.causes = ranked(candidates, found.examined);
        found.causes.truncate(limit);
        found
    }

    fn lists_of_values(&self, except: Option<&ServiceKey>) -> Vec<Values<'_>> {
        let indexes = self.indexes();
        let mut lists: Vec<Values<'_>> = Vec::new();
        for (name, count) in indexes.nodes().names() {
            let sets = Box::new(indexes.nodes().values_of(name));
            lists.push(Values { attribute: Attribute::Property, name: name.to_owned(), count, sets });
        }
        let is_meant = |name: &str| except.is_none_or(|service| service.as_str() != name);
        for (attribute, name, values) in indexes.attributes().lists().filter(|(_, name, _)| is_meant(name)) {
            let sets =
                Box::new(values.iter().map(|(value, nodes)| (value.to_string(), Cow::Borrowed(nodes))));
            lists.push(Values { attribute, name: name.to_owned(), count: values.len(), sets });
        }
        lists
    }
}

/// Returns the notable values, the strongest first. Of a property that states the same as another attribute, in the same words and counts,
/// only one is kept.
fn ranked(candidates: Vec<Candidate>, examined: u64) -> Vec<CommonCause> {
    let cause = |(attribute, name, value, counts): Candidate| {
        let association = counts.association();
        let by_chance = association.by_chance(examined);
        let is_notable = counts.is_notable(&association, examined);
        is_notable.then_some(CommonCause { attribute, name, value, counts, association, by_chance })
    };
    let mut causes: Vec<CommonCause> = candidates.into_iter().filter_map(cause).collect();
    causes.sort_by(|one, other| {
        let by_name =
            || (one.attribute, &one.name, &one.value).cmp(&(other.attribute, &other.name, &other.value));
        one.association.strongest_first(&other.association).then_with(by_name)
    });
    let mut seen = BTreeSet::new();
    causes.retain(|one| {
        let key = (one.counts.failing_with, one.counts.whole_with, one.value.clone());
        seen.insert(key)
    });
    causes
}

#[cfg(test)]
mod tests;
