//! `hzn exchange audit`: the audit record of an organization.

use clap::Subcommand;
use evenkeel_client::ClientError;
use evenkeel_wire::exchange::audit::{
    AuditQuery, AuditRecord, AuditVerifyQuery, AuditVerifyResponse, ChainPlace, ChainWalk,
};
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
        /// Only records from this time on, RFC 3339
        #[arg(long, value_name = "INSTANT")]
        since: Option<String>,
        /// Only records before this time, RFC 3339
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
/// Returns the error of the command.
pub async fn run(command: AuditCommand, context: &Context, exchange: &Exchange) -> Outcome {
    match command {
        AuditCommand::List { all, oldest_first, after, limit, caller, resource, since, until } => {
            let query = AuditQuery {
                after: Some(after),
                caller,
                resource,
                since,
                until,
                newest_first: (!oldest_first).then_some(true),
                without_reports: (!oldest_first && !all).then_some(true),
                ..AuditQuery::default()
            };
            let records = list(exchange, query, limit).await?;
            let json: Vec<Value> = records.iter().map(|record| json!(record)).collect();
            let table = Table::of_list(&json, COLUMNS);
            context.screen.show(&View::new(Value::Array(json), table))
        }
        AuditCommand::Verify { known } => verify(context, exchange, known.as_deref()).await,
    }
}

async fn list(exchange: &Exchange, mut query: AuditQuery, limit: i64) -> Outcome<Vec<AuditRecord>> {
    let mut records = Vec::new();
    while (records.len() as i64) < limit {
        query.limit = Some(PAGE.min(limit - records.len() as i64));
        let page = exchange.server.client.audit_records(&exchange.org, &query).await;
        let page = page.map_err(|error| failed(exchange, "reading the audit record", error))?;
        records.extend(page.records);
        match page.next {
            None => break,
            Some(next) if query.newest_first == Some(true) => query.before = Some(next),
            Some(next) => query.after = Some(next),
        }
    }
    Ok(records)
}

fn failed(exchange: &Exchange, doing: &str, error: ClientError) -> CliError {
    match error {
        ClientError::Decode(why) => {
            CliError::new(Exit::Json, format!("{doing} failed"), why, "is this an Evenkeel hub?")
        }
        other => exchange.server.failed(doing, &other),
    }
}

/// Has the hub verify its chain, then verifies it here from the records themselves, as far as the caller may read them.
async fn verify(context: &Context, exchange: &Exchange, known: Option<&str>) -> Outcome {
    let known = known.map(parse_known).transpose()?;
    let mut after = known.as_ref().map(|(number, _)| *number);
    let mut checked = 0;
    loop {
        let query = AuditVerifyQuery { after, limit: None };
        let checked_by_hub = exchange.server.client.verify_audit_records(&exchange.org, &query).await;
        let part = checked_by_hub.map_err(|error| failed(exchange, "checking the audit record", error))?;
        if let Some((number, hash)) = known.as_ref().filter(|(number, _)| *number == part.begin.number)
            && part.begin.hash != *hash
        {
            return Err(altered(*number, "its hash is not the one that was recorded"));
        }
        if let Some(broken) = &part.broken {
            return Err(altered(broken.number, &broken.reason));
        }
        recompute(exchange, &part).await?;
        checked += part.checked;
        match part.next {
            Some(next) => after = Some(next),
            None => {
                let end = format!("{}:{}", part.end.number, part.end.hash);
                let json = json!({"intact": true, "checked": checked, "end": end});
                return context.screen.show(&View::of(json));
            }
        }
    }
}

/// Recomputes the hashes from the contents of the records. An administrator does not see records from before
/// the creation of the organization; for those the hub is trusted.
async fn recompute(exchange: &Exchange, part: &AuditVerifyResponse) -> Outcome {
    let mut walk = ChainWalk::after(part.begin.clone());
    while walk.place().number < part.end.number {
        let wanted = PAGE.min(part.end.number - walk.place().number);
        let query = AuditQuery { after: Some(walk.place().number), ..AuditQuery::default() };
        let records = list(exchange, query, wanted).await?;
        let Some(first) = records.first() else { break };
        if first.number > walk.place().number + 1 {
            if first.number > part.end.number {
                return Ok(());
            }
            let place = ChainPlace { number: first.number - 1, hash: first.previous.clone() };
            walk = ChainWalk::after(place);
        }
        for record in records.iter().filter(|record| record.number <= part.end.number) {
            walk.step(record).map_err(|broken| altered(broken.number, &broken.reason))?;
        }
    }
    walk.finish(&part.end).map_err(|broken| altered(broken.number, &broken.reason))
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
    fn known_records_have_a_number_and_a_hash() {
        assert_eq!(parse_known("12:ab").expect("good"), (12, "ab".to_owned()));
        assert!(parse_known("12").is_err() && parse_known("x:ab").is_err());
    }
}
