//! `hzn exchange blocklist`: nodes on which a service version is blocked because it keeps failing there (orchestration 2.8, D4).

use clap::{Args, Subcommand};
use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::blocklist::BlocklistQuery;
use serde_json::Value;

use crate::context::{Context, Exchange, Watch};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, print_note};
use crate::resource::kinds::NODES;
use crate::resource::require_selectors;

const COLUMNS: [(&str, &str); 7] = [
    ("node", "node"),
    ("service", "service"),
    ("version", "version"),
    ("failures", "failures"),
    ("blocks", "blocks"),
    ("until", "until"),
    ("last failure", "lastFailure"),
];

/// Commands for the node blocklist.
#[derive(Debug, Subcommand)]
pub enum BlocklistCommand {
    /// Shows the nodes on which a service is blocked because it keeps failing there
    List {
        #[command(flatten)]
        of: Chosen,
        #[command(flatten)]
        watch: Watch,
    },
    /// Unblocks services on nodes on which they kept failing
    Clear(Chosen),
}

/// Selection of entries.
#[derive(Debug, Args)]
pub struct Chosen {
    /// Only entries of this node
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only entries of this service, as ORG/URL
    #[arg(long, value_name = "SERVICE")]
    service: Option<String>,
}

/// Runs a command for the node blocklist.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: BlocklistCommand, context: &Context, exchange: &Exchange) -> Outcome {
    match command {
        BlocklistCommand::List { of, watch } => {
            context.show_watched(&watch, async || list(context, exchange, &of).await).await
        }
        BlocklistCommand::Clear(of) => clear(context, exchange, &of).await,
    }
}

impl Chosen {
    /// The organization of the request, and its selection.
    fn query(&self, exchange: &Exchange) -> Outcome<(String, BlocklistQuery)> {
        if let Some(service) = self.service.as_deref().filter(|service| service.trim().is_empty()) {
            return Err(CliError::input(
                format!("'{service}' names no service"),
                "--service must not be empty",
                "give --service ORG/URL, as hzn exchange blocklist list shows it",
            ));
        }
        let (org, node) = match &self.node {
            Some(node) => {
                let (org, node) = exchange.split(node);
                (org, Some(node))
            }
            None => (exchange.org.clone(), None),
        };
        Ok((org, BlocklistQuery { node, service: self.service.clone() }))
    }

    async fn missing(&self, exchange: &Exchange) -> CliError {
        let required = require_selectors(exchange, &[(&NODES, self.node.as_deref())]).await;
        required.err().unwrap_or_else(|| {
            CliError::not_found("node", self.node.as_deref().unwrap_or_default(), "hzn exchange node list")
        })
    }
}

async fn list(context: &Context, exchange: &Exchange, of: &Chosen) -> Outcome<View> {
    let (org, query) = of.query(exchange)?;
    let agbot = context.agbot(exchange)?;
    let doing = format!("reading the node blocklist of {org}");
    match agbot.call(&doing, agbot.client.blocklist_records(&org, &query)).await? {
        Some(found) => Ok(view(found)),
        None => Err(of.missing(exchange).await),
    }
}

async fn clear(context: &Context, exchange: &Exchange, of: &Chosen) -> Outcome {
    let (org, query) = of.query(exchange)?;
    let agbot = context.agbot(exchange)?;
    let doing = format!("clearing the node blocklist of {org}");
    let Some(cleared) = agbot.call(&doing, agbot.client.clear_blocklist(&org, &query)).await? else {
        return Err(of.missing(exchange).await);
    };
    if cleared.is_empty() {
        print_note("no node was blocked; failures that were counted are forgotten");
    }
    context.screen.show(&view(cleared))
}

fn view(records: Vec<RawJson>) -> View {
    let entries: Vec<Value> = records.into_iter().map(RawJson::into_value).collect();
    let table = Table::of_list(&entries, &COLUMNS).keeping(&["service", "until"]);
    View::new(Value::Array(entries), table)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_are_rows_with_their_end_and_last_failure() {
        let entry = json!({
            "node": "n1", "service": "o/cam", "version": "1.0.0", "failures": 5, "blocks": 1,
            "since": "s", "until": "u", "lastFailure": "exit code 1",
        });
        let view = view(vec![entry.clone().into()]);
        assert_eq!(view.table.rows, [["n1", "o/cam", "1.0.0", "5", "1", "u", "exit code 1"]]);
        assert_eq!(view.json, json!([entry]));
    }
}
