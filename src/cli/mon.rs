//! `hzn mon`: a live tree of everything that runs in the organization (orchestration 2.8).

use clap::Args;
use serde_json::Value;

use crate::context::{Context, Exchange, UserOptions, Watch};
use crate::exchange::deployment::POLICIES;
use crate::exchange::orch::status;
use crate::exchange::resource::members_of;
use crate::exit::{Exit, Outcome};
use crate::output::{Table, View};

/// Options of `mon`.
#[derive(Debug, Args)]
pub struct MonArguments {
    #[command(flatten)]
    user: UserOptions,
    /// Show it once
    #[arg(long)]
    once: bool,
    /// Refresh every so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2, conflicts_with = "once")]
    every: u64,
}

/// Shows what runs of every deployment policy until interrupted.
///
/// # Errors
/// With status 5 when exchange or agbot do not respond.
pub async fn run(arguments: &MonArguments, context: &Context) -> Outcome {
    let exchange = context.exchange(&arguments.user, None)?;
    let watch = Watch { seconds: (!arguments.once).then_some(arguments.every) };
    context.show_watched(&watch, async || read(context, &exchange).await).await
}

async fn read(context: &Context, exchange: &Exchange) -> Outcome<View> {
    let policies = members_of(POLICIES.read(exchange, None).await?);
    let (mut documents, mut table) = (Vec::new(), Table::default());
    for policy in policies.keys() {
        let View { json, table: tree, .. } = match status::read(context, exchange, policy, None).await {
            Ok(view) => view,
            // It was deleted meanwhile.
            Err(error) if error.exit == Exit::NotFound => continue,
            Err(error) => return Err(error),
        };
        documents.push(json);
        table = Table { rows: [table.rows, tree.rows].concat(), ..tree };
    }
    Ok(View::new(Value::Array(documents), table))
}
