//! `hzn exchange agbot approvals | approve | withdraw`: which agbots have the rights of agbots, and what they serve that other agbots yield to.

use evenkeel_client::Path;
use evenkeel_wire::exchange::agbot_approval::{AgbotApprovalsResponse, MOST_APPROVALS, ServedConfirmation};
use serde_json::{Value, json};

use crate::context::Exchange;
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View};

const LIST_WITH: &str = "hzn exchange agbot approvals";

/// Shows the agbots of the caller's organization with their approvals, and what any agbot serves to its nodes.
pub(super) async fn view(exchange: &Exchange) -> Outcome<View> {
    let found = read(exchange).await?;
    let mut table =
        Table::new(&["agbot", "serves", "owner", "approved or confirmed by"]).keeping(&["agbot", "serves"]);
    let by = |who: &Option<String>, missing: &str| who.clone().unwrap_or_else(|| missing.to_owned());
    for one in &found.agbots {
        table.push([
            one.agbot.clone(),
            String::new(),
            one.owner.clone(),
            by(&one.approved_by, "not approved"),
        ]);
    }
    for one in &found.entries {
        let entry = format!("{} {}", one.kind, one.subject);
        table.push([one.agbot.clone(), entry, String::new(), by(&one.confirmed_by, "not confirmed")]);
    }
    let json = serde_json::to_value(&found).unwrap_or(Value::Null);
    Ok(View::new(json, table))
}

async fn read(exchange: &Exchange) -> Outcome<AgbotApprovalsResponse> {
    let mut all = AgbotApprovalsResponse::default();
    loop {
        let mut path = Path::org(&exchange.org, &["agbot-approvals"]);
        if let Some(last) = all.agbots.last() {
            let id = last.agbot.split_once('/').map_or(last.agbot.as_str(), |(_, id)| id);
            path = path.query("afterAgbot", id);
        }
        if let Some(last) = all.entries.last() {
            path = path.query("afterEntry", &format!("{}/{}/{}", last.agbot, last.kind, last.entry));
        }
        let read = exchange.server.client.get(path);
        let page: Option<AgbotApprovalsResponse> =
            exchange.server.call("reading the approvals of agbots", read).await?;
        let AgbotApprovalsResponse { agbots, entries } = page.unwrap_or_default();
        let most = usize::from(MOST_APPROVALS);
        let is_last = agbots.len() < most && entries.len() < most;
        all.agbots.extend(agbots);
        all.entries.extend(entries);
        if is_last {
            return Ok(all);
        }
    }
}

/// Approves an agbot, or withdraws that.
pub(super) async fn approve(exchange: &Exchange, agbot: &str, is_approved: bool) -> Outcome {
    let (org, id) = exchange.split(agbot);
    let client = &exchange.server.client;
    let path = Path::org(&org, &["agbots", &id, "approval"]);
    if is_approved {
        let doing = format!("approving agbot {org}/{id}");
        exchange.server.call(&doing, client.put(path, &json!({}))).await?;
        exchange.server.report_done(&format!("agbot {org}/{id} is approved: it has the rights of agbots"));
        return Ok(());
    }
    let doing = format!("withdrawing the approval of agbot {org}/{id}");
    if !exchange.server.call(&doing, client.delete(path)).await? {
        return Err(CliError::not_found("agbot", agbot, LIST_WITH));
    }
    exchange.server.report_done(&format!("agbot {org}/{id} has the rights of its owner only"));
    Ok(())
}

/// Confirms what an agbot serves to the nodes of the caller's organization, or withdraws that: one entry, or all of the agbot.
pub(super) async fn confirm(
    exchange: &Exchange,
    agbot: &str,
    entry: Option<&str>,
    is_confirmed: bool,
) -> Outcome {
    let (org, id) = exchange.split(agbot);
    let name = format!("{org}/{id}");
    let is_meant = |one: &ServedConfirmation| {
        one.agbot == name
            && match entry {
                Some(entry) => one.entry == entry,
                None => one.confirmed_by.is_some() != is_confirmed,
            }
    };
    let mut entries = read(exchange).await?.entries;
    entries.retain(is_meant);
    if entries.is_empty() {
        let what = entry.unwrap_or(agbot);
        return Err(CliError::not_found("entry of an agbot that would change", what, LIST_WITH));
    }
    for one in entries {
        let below = ["agbot-approvals", &org, &id, &one.kind, &one.entry];
        let path = Path::org(&exchange.org, &below);
        let client = &exchange.server.client;
        let doing = format!("changing the confirmation of entry {} of agbot {name}", one.entry);
        let done = if is_confirmed {
            exchange.server.call(&doing, client.put(path, &json!({}))).await?;
            "is confirmed: the hub's own agbot yields to this agbot"
        } else {
            exchange.server.call(&doing, client.delete(path)).await?;
            "is no longer confirmed: the hub's own agbot does not yield to this agbot"
        };
        exchange.server.report_done(&format!("{} {} of agbot {name} {done}", one.kind, one.subject));
    }
    Ok(())
}
