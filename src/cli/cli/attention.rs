//! `hzn agbot attention`: problems that a person has to resolve, and who has acknowledged which.

use clap::Subcommand;
use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::attention::PutAcknowledgement;
use serde_json::Value;

use crate::context::{Context, Exchange};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View};

const COLUMNS: [(&str, &str); 6] = [
    ("id", "id"),
    ("problem", "kind"),
    ("object", "subject"),
    ("cause", "text"),
    ("who can resolve it", "role"),
    ("acknowledged", "acknowledged"),
];

/// Commands for problems.
#[derive(Debug, Subcommand)]
pub enum AttentionCommand {
    /// Shows what does not go on by itself, those first that an administrator can resolve; acknowledged ones last
    List,
    /// Acknowledges a problem: it moves to the end of the list until its cause changes, it is resolved, or 7 days have passed
    Acknowledge {
        /// Id of the problem
        id: String,
        /// Reason for others to read
        #[arg(long, value_name = "TEXT")]
        because: String,
    },
    /// Withdraws the acknowledgement of a problem
    Withdraw {
        /// Id of the problem
        id: String,
    },
}

/// Runs a command for problems.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: AttentionCommand, context: &Context, exchange: &Exchange) -> Outcome {
    let agbot = context.agbot(exchange)?;
    let org = &exchange.org;
    match command {
        AttentionCommand::List => {
            let doing = format!("asking the agbot for the problems of {org}");
            let found = agbot.call(&doing, agbot.client.attention_records(org)).await?;
            context.screen.show(&listed(found))
        }
        AttentionCommand::Acknowledge { id, because } => {
            let request = PutAcknowledgement { reason: because };
            let done = agbot.client.acknowledge(org, &id, &request).await.map_err(|error| {
                if error.is_not_found() {
                    return missing(&id);
                }
                agbot.failed(&format!("acknowledging the problem {id}"), &error)
            })?;
            agbot.report_done(&done.msg);
            Ok(())
        }
        AttentionCommand::Withdraw { id } => {
            let doing = format!("withdrawing the acknowledgement of {id}");
            match agbot.call(&doing, agbot.client.withdraw_acknowledgement(org, &id)).await? {
                true => agbot.report_done(&format!("the problem {id} is no longer acknowledged")),
                false => return Err(missing(&id)),
            }
            Ok(())
        }
    }
}

fn missing(id: &str) -> CliError {
    CliError::not_found("problem", id, "hzn agbot attention list")
}

fn listed(found: Vec<RawJson>) -> View {
    let entries: Vec<Value> = found.into_iter().map(RawJson::into_value).collect();
    let rows: Vec<Value> = entries
        .iter()
        .map(|entry| {
            let mut row = entry.clone();
            let by = |acknowledged: &Value| {
                let text = |name: &str| acknowledged[name].as_str().unwrap_or_default().to_owned();
                format!("{}: {}", text("by"), text("reason"))
            };
            row["acknowledged"] = entry.get("acknowledged").map(by).unwrap_or_default().into();
            row
        })
        .collect();
    let table = Table::of_list(&rows, &COLUMNS).keeping(&["problem", "cause"]);
    View::new(Value::Array(entries), table)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn acknowledged_problems_name_the_account_and_the_reason() {
        let entry = json!({
            "id": "1", "kind": "node-down", "subject": "o/n", "text": "no heartbeat", "role": "operator",
            "acknowledged": {"by": "o/u", "reason": "no power", "at": "t", "until": "u"},
        });
        let view = listed(vec![entry.clone().into()]);
        assert_eq!(view.table.rows, [["1", "node-down", "o/n", "no heartbeat", "operator", "o/u: no power"]]);
        assert_eq!(view.json, json!([entry]));
    }
}
