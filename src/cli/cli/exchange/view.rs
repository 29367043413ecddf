//! `hzn exchange view`: saved views, which are selections of nodes under a name.

use clap::{Args, Subcommand};
use evenkeel_wire::agbot::fleet::FleetNodesQuery;
use evenkeel_wire::agbot::saved_view::{PutSavedView, SavedView};
use serde_json::json;

use crate::context::{Context, Exchange};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View};

/// Commands for saved views.
#[derive(Debug, Subcommand)]
pub enum ViewCommand {
    /// Shows the saved views of the organization
    List,
    /// Saves a selection of nodes under a name, for everybody in the organization
    Save(ViewSave),
    /// Removes a saved view
    #[command(visible_alias = "delete")]
    Remove {
        /// View to remove
        name: String,
    },
}

/// A view to be saved.
#[derive(Debug, Args)]
pub struct ViewSave {
    /// Name of the view, up to 64 bytes
    name: String,
    /// Purpose of the view
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    #[command(flatten)]
    selection: NodeSelection,
}

/// Selection of nodes.
#[derive(Debug, Clone, Default, Args)]
pub struct NodeSelection {
    /// Nodes whose properties satisfy this constraint, such as 'site == "north"'
    #[arg(long, value_name = "CONSTRAINT")]
    pub filter: Option<String>,
    /// Nodes in this state
    #[arg(long, value_parser = ["up", "away", "down", "never-heard"])]
    pub state: Option<String>,
    /// Nodes with this availability
    #[arg(long, value_parser = ["active", "pause", "drain"])]
    pub availability: Option<String>,
    /// Members of this HA group
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
}

impl NodeSelection {
    /// Returns the query of the nodes.
    pub fn query(&self) -> FleetNodesQuery {
        let Self { filter, state, availability, group } = self.clone();
        FleetNodesQuery { state, availability, group, filter, ..FleetNodesQuery::default() }
    }

    /// Returns whether it selects all nodes.
    pub fn is_empty(&self) -> bool {
        let Self { filter, state, availability, group } = self;
        [filter, state, availability, group].into_iter().all(Option::is_none)
    }
}

impl From<&SavedView> for NodeSelection {
    fn from(view: &SavedView) -> Self {
        let PutSavedView { state, availability, group, filter, .. } = view.selection();
        Self { filter, state, availability, group }
    }
}

/// Runs a command for saved views.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: ViewCommand, context: &Context, exchange: &Exchange) -> Outcome {
    let agbot = context.agbot(exchange)?;
    let org = &exchange.org;
    match command {
        ViewCommand::List => {
            let doing = format!("reading the saved views of {org}");
            let views = agbot.call(&doing, agbot.client.saved_views(org)).await?;
            context.screen.show(&shown(&views))
        }
        ViewCommand::Save(ViewSave { name, description, selection }) => {
            let NodeSelection { filter, state, availability, group } = selection;
            let view = PutSavedView { description, state, availability, group, filter };
            let doing = format!("saving the view {name}");
            agbot.call(&doing, agbot.client.put_saved_view(org, &name, &view)).await?;
            agbot.report_done(&format!("view {name} saved"));
            Ok(())
        }
        ViewCommand::Remove { name } => {
            let doing = format!("removing the view {name}");
            match agbot.call(&doing, agbot.client.delete_saved_view(org, &name)).await? {
                true => agbot.report_done(&format!("view {name} removed")),
                false => return Err(missing(&name)),
            }
            Ok(())
        }
    }
}

/// Reads the selection of a saved view.
///
/// # Errors
/// With status 5 when there is none of this name.
pub async fn selection_of(name: &str, context: &Context, exchange: &Exchange) -> Outcome<NodeSelection> {
    let agbot = context.agbot(exchange)?;
    let doing = format!("reading the saved views of {}", exchange.org);
    let views = agbot.call(&doing, agbot.client.saved_views(&exchange.org)).await?;
    views.iter().find(|view| view.name == name).map(NodeSelection::from).ok_or_else(|| missing(name))
}

fn missing(name: &str) -> CliError {
    CliError::not_found("view", name, "hzn exchange view list")
}

fn shown(views: &[SavedView]) -> View {
    let header = ["name", "state", "availability", "group", "filter", "owner", "description"];
    let mut table = Table::new(&header).keeping(&["filter"]);
    for view in views {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        table.push([
            view.name.clone(),
            text(&view.state),
            text(&view.availability),
            text(&view.group),
            text(&view.filter),
            view.owner.clone(),
            text(&view.description),
        ]);
    }
    View::new(json!(views), table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_rows_and_select_nodes() {
        let view = SavedView {
            name: "north, down".into(),
            owner: "o/u".into(),
            state: Some("down".into()),
            filter: Some("site == \"north\"".into()),
            ..SavedView::default()
        };
        let selection = NodeSelection::from(&view);
        assert_eq!(selection.query().state.as_deref(), Some("down"));
        assert!(!selection.is_empty() && NodeSelection::default().is_empty());
        let shown = shown(&[view]);
        assert_eq!(shown.table.rows, [["north, down", "down", "", "", "site == \"north\"", "o/u", ""]]);
    }
}
