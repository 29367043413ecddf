//! `hzn exchange audit`: the audit record of an organization.

use clap::Subcommand;
use evenkeel_client::Path;
use evenkeel_wire::exchange::audit::{AuditAnswer, AuditRecord, AuditVerifyAnswer, ChainWalk};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::context::{Context, Exchange};
use crate::exit::{CliError, Exit, Outcome};
use crate::output::{Table, View};

const COLUMNS: &[(&str, &str)] = &[
    ("number", "number"),
    ("time", "time"),
    ("caller", "caller"),
    ("from", "address"),
    ("operation", "operation"),
    ("resource", "resource"),
    ("status", "status"),
];
/// Records of one request.
const PAGE: i64 = 1_000;

/// Commands for the audit record.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Shows audit records, newest first, without reports of nodes about themselves
    List {
        /// Show also reports of nodes about themselves, such as their status
        #[arg(short = 'a', long = "all")]
        all: bool,
        /// Show the oldest records first; implies --all
        #[arg(long = "oldest-first")]
        oldest_first: bool,
        /// Only records with greater numbers
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        after: i64,
        /// Maximum number of records
        #[arg(long, value_name = "COUNT", default_value_t = 100)]
        limit: i64,
        /// Only records of this caller, as ORG/ID
        #[arg(long, value_name = "CALLER")]
        caller: Option<String>,
        /// Only resources whose path begins so, for instance /orgs/o/nodes/
        #[arg(long, value_name = "PATH")]
        resource: Option<String>,
        /// Only from this instant on, RFC 3339
        #[arg(long, value_name = "INSTANT")]
        since: Option<String>,
        /// Only before this instant, RFC 3339
        #[arg(long, value_name = "INSTANT")]
        until: Option<String>,
    },
    /// Checks that no record was altered, removed or inserted; ends with status 9 if one was
    Verify {
        /// A record stored earlier, as NUMBER:HASH, which must still exist and from which all later ones must follow
        #[arg(long, value_name = "NUMBER:HASH")]
        known: Option<String>,
    },
}

/// Runs a command for the audit record.
///
/// # Errors
/// Those of the command.
pub async fn run(command: AuditCommand, context: &Context, exchange: &Exchange) -> Outcome {
    match command {
        AuditCommand::List { all, oldest_first, after, limit, caller, resource, since, until } => {
            let mut filters =
                vec![("caller", caller), ("resource", resource), ("since", since), ("until", until)];
            if !oldest_first {
                filters.push(("newestFirst", Some("true".to_owned())));
                filters.push(("withoutReports", (!all).then(|| "true".to_owned())));
            }
            let records = list(exchange, after, limit, &filters).await?;
            let json: Vec<Value> = records.iter().map(|record| json!(record)).collect();
            let table = Table::of_list(&json, COLUMNS);
            context.screen.show(&View::new(Value::Array(json), table))
        }
        AuditCommand::Verify { known } => verify(context, exchange, known.as_deref()).await,
    }
}

async fn list(
    exchange: &Exchange,
    after: i64,
    limit: i64,
    filters: &[(&str, Option<String>)],
) -> Outcome<Vec<AuditRecord>> {
    let is_descending = filters.iter().any(|(name, _)| *name == "newestFirst");
    let mut records = Vec::new();
    let mut next = Some((after, None));
    while let Some((after, before)) = next.filter(|_| (records.len() as i64) < limit) {
        let wanted = PAGE.min(limit - records.len() as i64);
        let mut path = Path::org(&exchange.org, &["audit"])
            .query("after", &after.to_string())
            .query("limit", &wanted.to_string());
        if let Some(before) = before {
            path = path.query("before", &i64::to_string(&before));
        }
        for (name, value) in filters {
            if let Some(value) = value {
                path = path.query(name, value);
            }
        }
        let page: AuditAnswer = get(exchange, "reading the audit record", &path).await?;
        records.extend(page.records);
        next = page.next.map(|number| if is_descending { (after, Some(number)) } else { (number, None) });
    }
    Ok(records)
}

async fn get<T: DeserializeOwned>(exchange: &Exchange, doing: &str, path: &Path) -> Outcome<T> {
    let answer = exchange.api.get(doing, path).await?;
    serde_json::from_value(answer).map_err(|error| {
        CliError::new(Exit::Json, format!("{doing} failed"), error.to_string(), "is this an Evenkeel hub?")
    })
}

/// Lets the hub walk its chain, then walks it here from the records themselves, as far as they may be read.
async fn verify(context: &Context, exchange: &Exchange, known: Option<&str>) -> Outcome {
    let known = known.map(parse_known).transpose()?;
    let mut after = known.as_ref().map(|(number, _)| *number);
    let mut checked = 0;
    loop {
        let mut path = Path::org(&exchange.org, &["audit", "verify"]);
        if let Some(number) = after {
            path = path.query("after", &number.to_string());
        }
        let answer: AuditVerifyAnswer = get(exchange, "checking the audit record", &path).await?;
        if let Some((number, hash)) = known.as_ref().filter(|(number, _)| *number == answer.begin.number)
            && answer.begin.hash != *hash
        {
            return Err(altered(*number, "its hash is not the one that was noted"));
        }
        if let Some(broken) = &answer.broken {
            return Err(altered(broken.number, &broken.reason));
        }
        recompute(exchange, &answer).await?;
        checked += answer.checked;
        match answer.next {
            Some(next) => after = Some(next),
            None => {
                let end = format!("{}:{}", answer.end.number, answer.end.hash);
                let json = json!({"intact": true, "checked": checked, "end": end});
                return context.screen.show(&View::of(json));
            }
        }
    }
}

/// Computes the hashes anew from what the records say. An administrator does not see records from before the organization was made; of
/// those the hub's word is taken.
async fn recompute(exchange: &Exchange, answer: &AuditVerifyAnswer) -> Outcome {
    let mut walk = ChainWalk::after(answer.begin.clone());
    while walk.place().number < answer.end.number {
        let wanted = PAGE.min(answer.end.number - walk.place().number);
        let records = list(exchange, walk.place().number, wanted, &[]).await?;
        let Some(first) = records.first() else { break };
        if first.number > walk.place().number + 1 {
            if first.number > answer.end.number {
                return Ok(());
            }
            let place = evenkeel_wire::exchange::audit::ChainPlace {
                number: first.number - 1,
                hash: first.previous.clone(),
            };
            walk = ChainWalk::after(place);
        }
        for record in records.iter().filter(|record| record.number <= answer.end.number) {
            walk.step(record).map_err(|broken| altered(broken.number, &broken.reason))?;
        }
    }
    walk.finish(&answer.end).map_err(|broken| altered(broken.number, &broken.reason))
}

fn parse_known(text: &str) -> Outcome<(i64, String)> {
    let parts = text.split_once(':').and_then(|(number, hash)| Some((number.parse().ok()?, hash.to_owned())));
    parts.ok_or_else(|| {
        CliError::input(
            format!("{text} names no record"),
            "it is not of the form NUMBER:HASH",
            "give what an earlier check showed as its end",
        )
    })
}

fn altered(number: i64, reason: &str) -> CliError {
    CliError::new(
        Exit::SignatureInvalid,
        format!("the audit record was altered at record {number}"),
        reason.to_owned(),
        "compare with a backup, and find out who can write to the database",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noted_records_have_a_number_and_a_hash() {
        assert_eq!(parse_known("12:ab").expect("good"), (12, "ab".to_owned()));
        assert!(parse_known("12").is_err() && parse_known("x:ab").is_err());
    }
}
