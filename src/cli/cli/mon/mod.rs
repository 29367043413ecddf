//! `hzn mon`: a live tree of everything that runs in the organization (orchestration 2.8).

mod bar;
mod columns;
mod fleet;
mod lines;
mod screen;
mod signal;

use std::io::IsTerminal as _;

use clap::Args;

use crate::context::{Context, UserOptions, Watch};
use crate::exit::Outcome;

/// Options of `mon`.
#[derive(Debug, Args)]
pub struct MonArguments {
    #[command(flatten)]
    user: UserOptions,
    /// Show it once
    #[arg(long)]
    once: bool,
    /// Refresh interval in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "once")]
    every: u64,
}

/// Shows groups and the instances of every deployment policy until interrupted: on a terminal as an interactive screen, else as text.
///
/// # Errors
/// With status 5 when exchange or agbot do not respond.
pub async fn run(arguments: &MonArguments, context: &Context) -> Outcome {
    let exchange = context.exchange(&arguments.user, None)?;
    let has_screen = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if has_screen && !arguments.once && context.screen.format.is_none() {
        return screen::run(context, &exchange, arguments.every).await;
    }
    let watch = Watch { seconds: (!arguments.once).then_some(arguments.every) };
    context.show_watched(&watch, async || Ok(fleet::read(context, &exchange).await?.view())).await
}
