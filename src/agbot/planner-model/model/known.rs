//! Names and values of the properties of nodes, for people who write a constraint: nothing here decides.

use super::{Model, NodeSet};

/// Values that are counted for one query: what it costs does not grow with the number of nodes beyond that of their sets.
const MOST_COUNTED: usize = 10_000;

/// Values of a name that are counted: those with more, such as serial numbers, are hardly selected by.
const MOST_VALUES: usize = 500;

/// A property that nodes have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownName {
    /// Its name.
    pub name: String,
    /// Nodes that have it, with one of the values that were counted.
    pub nodes: u64,
    /// Its most frequent values, each with the number of nodes that have it.
    pub values: Vec<(String, u64)>,
    /// True if it has more values.
    pub has_more: bool,
}

impl KnownName {
    /// Returns the operators that fit its values.
    #[must_use]
    pub fn operators(&self) -> &'static [&'static str] {
        let are_all = |is_such: fn(&str) -> bool| self.values.iter().all(|(value, _)| is_such(value));
        if are_all(|value| value.parse::<f64>().is_ok()) {
            &["==", "!=", "<", "<=", ">", ">="]
        } else if are_all(|value| matches!(value, "true" | "false")) {
            &["==", "!="]
        } else {
            &["==", "!=", "in"]
        }
    }
}

impl Model {
    /// Returns the properties of some nodes, those that most have first, and whether there are more. `values`: most values of each.
    ///
    /// # Shape
    /// At most `limit` properties. Names and values that none of the nodes has are left out, so that nothing follows from other nodes.
    #[must_use]
    pub fn known_properties(
        &self,
        nodes: &NodeSet,
        prefix: &str,
        (limit, values): (usize, usize),
    ) -> (Vec<KnownName>, bool) {
        let index = self.indexes().nodes();
        let mut names: Vec<_> =
            index.names().into_iter().filter(|(name, _)| name.starts_with(prefix)).collect();
        // Names with few values are those that people select by.
        names.sort_unstable_by_key(|(name, count)| (*count, *name));
        let (mut left, mut found) = (MOST_COUNTED, Vec::new());
        for (name, count) in names {
            let examined = count.min(MOST_VALUES).min(left);
            left -= examined;
            let mut known =
                KnownName { name: name.to_owned(), has_more: examined < count, ..KnownName::default() };
            for (value, with) in index.values_of(name).take(examined) {
                let count = nodes.count_in(&with);
                if count > 0 {
                    known.nodes += count;
                    known.values.push((value, count));
                }
            }
            if known.nodes == 0 {
                continue;
            }
            known.values.sort_unstable_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
            known.has_more |= known.values.len() > values;
            known.values.truncate(values);
            found.push(known);
        }
        found.sort_by(|one, other| (other.nodes, &one.name).cmp(&(one.nodes, &other.name)));
        let has_more = found.len() > limit;
        found.truncate(limit);
        (found, has_more)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_domain::policy::{ExternalPolicy, Property};
    use evenkeel_ids::NodeId;
    use evenkeel_planner_record::{
        facts::{NodeFacts, NodePolicyFacts},
        fixture::at,
        settings::PlannerSettings,
    };

    use super::*;
    use crate::event::Event;

    fn model() -> Model {
        let mut model = Model::new(PlannerSettings::default());
        for number in 0..10_u32 {
            let org = if number == 9 { "p" } else { "o" };
            let id = NodeId::new(org, &format!("n{number}"));
            model.apply(&Event::NodeChanged { node: Box::new(NodeFacts::new(id.clone())) }, at(0));
            let mut properties = vec![Property::new("site", if number < 6 { "north" } else { "south" })];
            if number < 3 {
                properties.push(Property::new("cpu", 4));
                properties.push(Property::new("gpu", number == 0));
            }
            if number == 9 {
                properties.push(Property::new("secret", "s"));
            }
            let policy =
                ExternalPolicy { properties: properties.into_iter().collect(), ..ExternalPolicy::default() };
            let policy = Some(Box::new(NodePolicyFacts { policy, ..NodePolicyFacts::default() }));
            model.apply(&Event::NodePolicyChanged { node: id, policy }, at(0));
        }
        model
    }

    #[test]
    fn properties_are_those_of_the_nodes_with_their_most_frequent_values() {
        let model = model();
        let of_org = model.set_of_org("o");
        let (found, has_more) = model.known_properties(&of_org, "", (10, 10));
        let names: Vec<_> = found.iter().map(|known| (known.name.as_str(), known.nodes)).collect();
        assert_eq!((names, has_more), (vec![("site", 9), ("cpu", 3), ("gpu", 3)], false));
        assert_eq!(found[0].values, [("north".to_owned(), 6), ("south".to_owned(), 3)]);
        assert_eq!(found[0].operators(), ["==", "!=", "in"]);
        assert_eq!(found[1].operators().len(), 6);
        assert_eq!(found[2].operators(), ["==", "!="]);
        assert!(model.known_properties(&NodeSet::default(), "", (10, 10)).0.is_empty());
    }

    #[test]
    fn names_and_values_are_bounded() {
        let model = model();
        let of_org = model.set_of_org("o");
        let (found, has_more) = model.known_properties(&of_org, "", (1, 1));
        assert_eq!((found.len(), found[0].values.len(), found[0].has_more, has_more), (1, 1, true, true));
        let (found, has_more) = model.known_properties(&of_org, "c", (1, 1));
        assert_eq!((found[0].name.as_str(), found[0].has_more, has_more), ("cpu", false, false));
    }

    #[test]
    fn names_with_very_many_values_are_counted_in_part() {
        let mut model = Model::new(PlannerSettings::default());
        for number in 0..=MOST_VALUES {
            let id = NodeId::new("o", &format!("n{number}"));
            model.apply(&Event::NodeChanged { node: Box::new(NodeFacts::new(id.clone())) }, at(0));
            let property = Property::new("serial", format!("s-{number}"));
            let policy =
                ExternalPolicy { properties: [property].into_iter().collect(), ..ExternalPolicy::default() };
            let policy = Some(Box::new(NodePolicyFacts { policy, ..NodePolicyFacts::default() }));
            model.apply(&Event::NodePolicyChanged { node: id, policy }, at(0));
        }
        let (found, _) = model.known_properties(&model.set_of_org("o"), "", (10, 10));
        assert_eq!((found[0].nodes, found[0].has_more), (MOST_VALUES as u64, true));
    }
}
