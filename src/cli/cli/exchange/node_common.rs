//! `hzn exchange node common`: what selected nodes have in common.

use clap::Args;
use evenkeel_wire::agbot::common::{CommonCauses, CommonCausesQuery};

use crate::context::{Context, Exchange};
use crate::exit::Outcome;
use crate::output::print_note;
use crate::rollout_detail::view_of_common;

/// Selection of nodes; without one, the nodes that are down.
#[derive(Debug, Args)]
pub struct NodeCommon {
    /// Nodes whose properties satisfy this constraint, such as 'site == "north"'
    #[arg(long, value_name = "CONSTRAINT")]
    filter: Option<String>,
    /// Nodes in this state
    #[arg(long, value_parser = ["up", "away", "down", "never-heard"])]
    state: Option<String>,
    /// Nodes with this availability
    #[arg(long, value_parser = ["active", "pause", "drain"])]
    availability: Option<String>,
    /// Members of this HA group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Maximum number of values, up to 50
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=50))]
    limit: Option<u16>,
}

/// Shows what selected nodes have in common.
///
/// # Errors
/// With status 3 when the constraint cannot be read, 5 when the agbot does not respond.
pub async fn run(selection: NodeCommon, context: &Context, exchange: &Exchange) -> Outcome {
    let NodeCommon { filter, state, availability, group, limit } = selection;
    let query = CommonCausesQuery { state, availability, group, filter, limit };
    let agbot = context.agbot(exchange)?;
    let doing = "asking the agbot what the nodes have in common";
    let record = agbot.call(doing, agbot.client.common_causes_record(&exchange.org, &query)).await?;
    let common: CommonCauses = agbot.read(doing, &record)?;
    print_note(format!(
        "{} of {} nodes are selected; {} values were examined, {} names with too many values were left out",
        common.failing, common.whole, common.examined, common.skipped
    ));
    context.screen.show(&view_of_common(record, &common))
}
