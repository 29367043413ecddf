//! Selections of nodes: those that are ticked, or all that the filters of the list select.

use evenkeel_ids::NodeId;
use evenkeel_wire::agbot::fleet::{FleetNode, FleetNodesQuery};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::address::with_fields;
use crate::command_line::word;
use crate::failure::Failure;
use crate::form::Form;
use crate::layout::bare_name;
use crate::reads;
use crate::session::Reader;

/// Nodes that are changed at once: a page of the API.
pub(super) const MOST_NODES: u16 = 500;

/// Nodes that can be ticked: those of a page of the list, and some more.
const MOST_PICKED: usize = 200;

/// Requests at a time.
pub(super) const AT_ONCE: usize = 8;

/// The filters of the list of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Choice {
    pub(crate) state: Option<String>,
    pub(crate) availability: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) filter: Option<String>,
}

/// Returns the filters of a form.
pub(crate) fn choice_of(form: &Form) -> Choice {
    Choice {
        state: form.owned("state"),
        availability: form.owned("availability"),
        group: form.owned("group"),
        filter: form.owned("filter"),
    }
}

impl Choice {
    /// Returns the fields that are given.
    pub(crate) fn fields(&self) -> Vec<(&'static str, &str)> {
        let Self { state, availability, group, filter } = self;
        let fields = [("state", state), ("availability", availability), ("group", group), ("filter", filter)];
        fields.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }

    /// Returns whether it selects all nodes.
    pub(crate) fn is_all(&self) -> bool {
        self.fields().is_empty()
    }

    /// Returns the query of the list.
    pub(crate) fn query(&self) -> FleetNodesQuery {
        let Self { state, availability, group, filter } = self.clone();
        FleetNodesQuery { state, availability, group, filter, ..FleetNodesQuery::default() }
    }

    /// Returns the address of the list of its nodes, below the address of the organization.
    pub(crate) fn list(&self, base: &str) -> String {
        with_fields(&format!("{base}/nodes"), self.fields())
    }

    /// Returns the options of commands that select the same.
    pub(crate) fn options(&self) -> String {
        let options: Vec<String> =
            self.fields().into_iter().map(|(name, value)| format!("--{name} {}", word(value))).collect();
        options.join(" ")
    }
}

/// A selection of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Selection {
    /// The ticked nodes, by name.
    Picked(Vec<String>),
    /// All that the filters select.
    All(Choice),
}

impl Selection {
    /// Reads the selection of a form.
    ///
    /// # Errors
    /// When nothing or too much is selected.
    pub(super) fn read(form: &Form) -> Result<Self, Failure> {
        if form.get("scope") == Some("all") {
            return Ok(Self::All(choice_of(form)));
        }
        let mut names: Vec<String> = form.all("node").map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        match names.len() {
            0 => Err(Failure::Input("no node is ticked: tick some, or choose all that match".to_owned())),
            count if count > MOST_PICKED => {
                Err(Failure::Input(format!("{count} nodes are ticked, and at most {MOST_PICKED} may be")))
            }
            _ => Ok(Self::Picked(names)),
        }
    }

    /// Returns the fields of a form that select the same.
    pub(super) fn fields(&self) -> Vec<(&'static str, &str)> {
        match self {
            Self::Picked(names) => names.iter().map(|name| ("node", name.as_str())).collect(),
            Self::All(choice) => {
                let mut fields = choice.fields();
                fields.insert(0, ("scope", "all"));
                fields
            }
        }
    }

    /// Returns the options of commands that select the same.
    pub(super) fn options(&self) -> String {
        match self {
            Self::Picked(names) => {
                let options: Vec<String> =
                    names.iter().map(|name| format!("--node {}", word(name))).collect();
                options.join(" ")
            }
            Self::All(choice) => choice.options(),
        }
    }

    /// Returns the address of the list that shows what was selected.
    pub(super) fn list(&self, base: &str) -> String {
        match self {
            Self::All(choice) => choice.list(base),
            Self::Picked(_) => format!("{base}/nodes"),
        }
    }

    /// Returns the selected nodes, by name. `is_changed`: they were selected before a change of availability, which may no longer select
    /// them.
    ///
    /// # Errors
    /// When there are too many.
    pub(super) async fn nodes(
        &self,
        reader: &Reader,
        org: &str,
        is_changed: bool,
    ) -> Result<Vec<FleetNode>, Failure> {
        let mut nodes = match self {
            Self::Picked(names) => picked(reader, org, names).await?,
            Self::All(choice) => {
                let availability = choice.availability.clone().filter(|_| !is_changed);
                let choice = Choice { availability, ..choice.clone() };
                let query = FleetNodesQuery { limit: Some(MOST_NODES), count: Some(true), ..choice.query() };
                let found = reads::nodes(reader, org, &query).await?;
                if found.next.is_some() && !is_changed {
                    let count = found.count.unwrap_or_default();
                    let text = format!(
                        "{count} nodes match, and at most {MOST_NODES} are changed at once: narrow the selection"
                    );
                    return Err(Failure::Input(text));
                }
                found.nodes
            }
        };
        for node in &mut nodes {
            node.node = bare_name(org, &node.node).to_owned();
        }
        Ok(nodes)
    }
}

/// Reads nodes by name; those that the reader may not read are left out.
async fn picked(reader: &Reader, org: &str, names: &[String]) -> Result<Vec<FleetNode>, Failure> {
    let read = |name: String| async move {
        let query = FleetNodesQuery { node: Some(name), ..FleetNodesQuery::default() };
        Ok::<_, Failure>(reads::nodes(reader, org, &query).await?.nodes)
    };
    let reads: Vec<_> = names.iter().cloned().map(read).collect();
    let found: Vec<Vec<FleetNode>> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// Returns the id of a node by its name in the organization.
pub(super) fn id_of(org: &str, node: &FleetNode) -> NodeId {
    NodeId::new(org, &node.node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Selection, Failure> {
        Selection::read(&Form::parse(text.as_bytes()))
    }

    #[test]
    fn selection_is_ticked_or_filtered() {
        let picked = read("node=b&node=a&node=b&state=up").unwrap();
        assert_eq!(picked, Selection::Picked(vec!["a".into(), "b".into()]));
        assert_eq!(picked.options(), "--node a --node b");
        assert_eq!(picked.list("/base"), "/base/nodes");
        let all = read("scope=all&node=a&state=up&filter=site+%3D%3D+%22a%26b%22").unwrap();
        assert_eq!(all.options(), r#"--state up --filter 'site == "a&b"'"#);
        assert_eq!(all.fields()[0], ("scope", "all"));
        assert_eq!(all.list("/base"), "/base/nodes?state=up&filter=site%20%3D%3D%20%22a%26b%22");
        assert_eq!(read("scope=all").unwrap(), Selection::All(Choice::default()));
    }

    #[test]
    fn nothing_and_too_much_are_refused() {
        let error = read("scope=picked").unwrap_err().to_string();
        assert!(error.starts_with("no node is ticked"), "{error}");
        let many: Vec<String> = (0..=MOST_PICKED).map(|number| format!("node=n{number}")).collect();
        assert_eq!(
            read(&many.join("&")).unwrap_err().to_string(),
            "201 nodes are ticked, and at most 200 may be"
        );
    }
}
