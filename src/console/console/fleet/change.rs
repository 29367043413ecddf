//! The changes of all nodes of a selection.

use evenkeel_client::NodeChange;
use evenkeel_wire::agbot::fleet::FleetNode;
use evenkeel_wire::exchange::node_orchestration::Availability;
use evenkeel_wire::exchange::node_tag::NodeTag;

use crate::command_line::word;
use crate::failure::Failure;
use crate::form::Form;

/// A change that can be chosen for a selection.
#[derive(Debug)]
pub(crate) struct NodesChange {
    /// Its name in addresses and commands.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Its effect, in a sentence.
    pub(crate) about: &'static str,
    /// The change of each node; none for a tag, which the form names.
    of_node: Option<NodeChange>,
}

/// The changes in the order in which they are offered.
pub(crate) const CHANGES: &[NodesChange] = &[
    NodesChange {
        name: "drain",
        title: "Drain the nodes",
        about: "Services leave the nodes: in an HA group one member at a time and never the last running instance, otherwise at once. Nothing is \
                placed on them until they are active again.",
        of_node: Some(NodeChange::Availability(Availability::Drain)),
    },
    NodesChange {
        name: "pause",
        title: "Pause the nodes for maintenance",
        about: "Services keep running; nothing new is placed or updated on the nodes.",
        of_node: Some(NodeChange::Availability(Availability::Pause)),
    },
    NodesChange {
        name: "activate",
        title: "Activate the nodes",
        about: "Services are placed and updated on the nodes again.",
        of_node: Some(NodeChange::Availability(Availability::Active)),
    },
    NodesChange {
        name: "freeze",
        title: "Freeze the nodes",
        about: "What runs keeps running; nothing is started, stopped or moved there automatically.",
        of_node: Some(NodeChange::Freeze(true)),
    },
    NodesChange {
        name: "thaw",
        title: "Thaw the nodes",
        about: "Instances are started, stopped and moved there automatically again.",
        of_node: Some(NodeChange::Freeze(false)),
    },
    NodesChange {
        name: "tag",
        title: "Tag the nodes",
        about: "The property is set in the policy of each node. Instances stop where a deployment policy no longer selects the node.",
        of_node: None,
    },
];

/// A change with what it sets.
#[derive(Debug, Clone)]
pub(crate) struct ChosenChange {
    pub(crate) change: &'static NodesChange,
    /// The change of each node.
    pub(super) of_node: NodeChange,
    /// The tag as it was typed: name and value.
    pub(crate) typed: (String, String),
}

impl ChosenChange {
    /// Reads a change of a form.
    ///
    /// # Errors
    /// When there is none of its name, or the tag breaks a rule.
    pub(super) fn read(form: &Form) -> Result<Self, Failure> {
        let name = form.require("action")?;
        let change = CHANGES.iter().find(|change| change.name == name);
        let change = change.ok_or_else(|| Failure::Missing(format!("there is no action {name}")))?;
        let typed = (form.owned("name").unwrap_or_default(), form.owned("value").unwrap_or_default());
        let (of_node, typed) = match &change.of_node {
            Some(of_node) => (of_node.clone(), Default::default()),
            None => {
                let tag = NodeTag::typed(&typed.0, &typed.1);
                let tag = tag.map_err(|rule| Failure::Input(format!("the property: {rule}")))?;
                (NodeChange::Tag(tag), typed)
            }
        };
        Ok(Self { change, of_node, typed })
    }

    /// Returns what it changes, in words.
    pub(crate) fn words(&self) -> String {
        match &self.of_node {
            NodeChange::Tag(NodeTag { name, value: None }) => format!("remove the property {name}"),
            NodeChange::Tag(NodeTag { name, value: Some(value) }) => format!("{name} = {value}"),
            NodeChange::Availability(availability) => format!("availability {}", availability.word()),
            NodeChange::Freeze(true) => "frozen".to_owned(),
            NodeChange::Freeze(false) => "not frozen".to_owned(),
        }
    }

    /// Returns the property that it sets, if it sets one.
    pub(super) fn tag(&self) -> Option<&NodeTag> {
        match &self.of_node {
            NodeChange::Tag(tag) => Some(tag),
            NodeChange::Availability(_) | NodeChange::Freeze(_) => None,
        }
    }

    /// Returns the command that does the same for nodes that the rest of the line selects.
    pub(super) fn command(&self) -> String {
        let command = format!("hzn exchange node each {}", self.change.name);
        match self.tag() {
            Some(_) => format!("{command} {}", word(&format!("{}={}", self.typed.0, self.typed.1))),
            None => command,
        }
    }

    /// Returns whether a node is so already; none if that is not known from its state.
    pub(super) fn is_so(&self, node: &FleetNode) -> Option<bool> {
        match &self.of_node {
            NodeChange::Availability(availability) => Some(node.availability == availability.word()),
            NodeChange::Freeze(frozen) => Some(node.frozen == *frozen),
            NodeChange::Tag(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ChosenChange, Failure> {
        ChosenChange::read(&Form::parse(text.as_bytes()))
    }

    #[test]
    fn changes_have_names_of_their_own_and_commands() {
        for change in CHANGES {
            assert_eq!(CHANGES.iter().filter(|other| other.name == change.name).count(), 1);
            let chosen = read(&format!("action={}&name=site&value=a+b", change.name)).unwrap();
            let command = chosen.command();
            assert!(command.starts_with("hzn exchange node each "), "{command}");
            assert!(!chosen.words().is_empty());
        }
        let chosen = read("action=tag&name=site&value=it's").unwrap();
        assert_eq!(chosen.command(), r"hzn exchange node each tag 'site=it'\''s'");
        assert_eq!(chosen.words(), "site = \"it's\"");
        assert_eq!(read("action=tag&name=site").unwrap().words(), "remove the property site");
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(read("").unwrap_err().to_string(), "action must not be empty");
        assert_eq!(read("action=delete").unwrap_err().to_string(), "there is no action delete");
        let error = read("action=tag&name=%3Cimg%3E&value=x").unwrap_err().to_string();
        assert!(error.starts_with("the property: name must consist of"), "{error}");
    }

    #[test]
    fn nodes_that_are_so_already_are_known_by_their_state() {
        let node = FleetNode { availability: "drain".into(), frozen: true, ..FleetNode::default() };
        let is_so = |name: &str| read(&format!("action={name}&name=a&value=b")).unwrap().is_so(&node);
        assert_eq!(is_so("drain"), Some(true));
        assert_eq!(is_so("activate"), Some(false));
        assert_eq!(is_so("freeze"), Some(true));
        assert_eq!(is_so("tag"), None);
    }
}
