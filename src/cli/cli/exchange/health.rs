//! `hzn exchange health`: health reports about the entities of the organization, and their evaluation (orchestration D1, 2.8).

use std::collections::BTreeMap;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use evenkeel_client::HealthSubject;
use evenkeel_wire::agbot::health::{
    ChildHealthState, HealthEvaluation, HealthQuery, HealthReport, UnhealthyEvaluation,
};
use evenkeel_wire::agbot::registration::HealthRegistryResponse;

use crate::context::{Context, Exchange, Watch};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View};
use crate::server::Server;

/// Children whose reasons are read; the worst come first.
const MOST_REASONS: usize = 20;

/// Reason why children are not `Ok`, by kind and id.
type Reasons = BTreeMap<(String, String), String>;

/// Commands for health.
#[derive(Debug, Subcommand)]
pub enum HealthCommand {
    /// Shows the health of a deployment policy, of one of its units or instances, of a node, of an HA group, or of the organization
    List {
        #[command(flatten)]
        subject: SubjectArguments,
        #[command(flatten)]
        rules: RuleArguments,
        #[command(flatten)]
        watch: Watch,
    },
    /// Shows which HA groups and deployment policies are checked by a health policy, by which agbot, and their recoveries
    Registry {
        #[command(flatten)]
        watch: Watch,
    },
    /// Reports about a deployment policy, one of its units or instances, a node, an HA group, or the organization
    Report {
        #[command(flatten)]
        subject: SubjectArguments,
        #[command(flatten)]
        report: ReportArguments,
    },
}

/// Subject of a report; the organization if no argument is given.
#[derive(Debug, Args)]
pub struct SubjectArguments {
    /// Deployment policy
    #[arg(value_name = "POLICY")]
    policy: Option<String>,
    /// Unit of the deployment policy: all, or the name of a group
    #[arg(long, value_name = "UNIT", requires = "policy", conflicts_with = "node")]
    unit: Option<String>,
    /// Node; with a deployment policy its instance there
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// HA group
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["policy", "node"])]
    group: Option<String>,
}

/// Rules of one evaluation.
#[derive(Debug, Args)]
pub struct RuleArguments {
    /// Count warnings as errors
    #[arg(long)]
    consider_warning_as_error: bool,
    /// Nodes that may be in error, in percent [default: that of the organization]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    max_percent_unhealthy_nodes: Option<u8>,
    /// Workloads that may be in error, in percent [default: that of the organization]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    max_percent_unhealthy_workloads: Option<u8>,
    /// Units of a workload that may be in error, in percent [default: that of the organization]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    max_percent_unhealthy_units: Option<u8>,
    /// Instances of a unit that may be in error, in percent [default: that of the organization]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    max_percent_unhealthy_instances: Option<u8>,
    /// Maximum number of children, up to 10000
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    limit: Option<u16>,
    /// Children to leave out at the beginning of the list, up to 1000000
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    offset: Option<u32>,
    /// List children of this kind only
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(["node", "hagroup", "workload", "unit", "instance"]))]
    kind: Option<String>,
}

/// A report.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// Source of the report, for instance watchdog
    #[arg(long, value_name = "SOURCE")]
    source: String,
    /// Property that the report concerns, for instance Deadlock
    #[arg(long, value_name = "PROPERTY")]
    property: String,
    /// State of the property
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(["Ok", "Warning", "Error"]))]
    state: String,
    /// Human-readable details
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Seconds until the report expires [default: it does not expire]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    ttl: Option<u64>,
    /// Remove the event when it expires; otherwise it then counts as an error
    #[arg(long, requires = "ttl")]
    remove_when_expired: bool,
    /// Sequence number of the report, greater than the previous one [default: assigned by the hub]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    sequence: Option<i64>,
}

/// Runs a command for health.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: HealthCommand, context: &Context, exchange: &Exchange) -> Outcome {
    match command {
        HealthCommand::List { subject, rules, watch } => {
            let (subject, query) = (subject.subject(exchange), rules.query());
            context.show_watched(&watch, async || read(context, exchange, &subject, &query).await).await
        }
        HealthCommand::Registry { watch } => {
            context.show_watched(&watch, async || registry(context, exchange).await).await
        }
        HealthCommand::Report { subject, report } => {
            let subject = subject.subject(exchange);
            let agbot = context.agbot(exchange)?;
            let doing = format!("reporting about {subject}");
            let sent = agbot.call(&doing, agbot.client.report_health(&subject, &report.body())).await?;
            sent.ok_or_else(|| missing(&subject))?;
            agbot.report_done(&format!("the health of {subject} is reported"));
            Ok(())
        }
    }
}

async fn registry(context: &Context, exchange: &Exchange) -> Outcome<View> {
    let agbot = context.agbot(exchange)?;
    let doing = format!("reading the health registry of organization {}", exchange.org);
    let found = agbot.call(&doing, agbot.client.health_registry_record(&exchange.org)).await?;
    let found = found.ok_or_else(|| {
        CliError::input(
            format!("{doing} failed"),
            "there is no such organization, or the agbot has no such registry",
            "check HZN_ORG_ID and HZN_AGBOT_URL",
        )
    })?;
    let typed: HealthRegistryResponse = agbot.read(&doing, &found)?;
    Ok(View::new(found.into_value(), registry_table(&typed)))
}

/// One line for each target, and one for each member with a current or past recovery.
fn registry_table(found: &HealthRegistryResponse) -> Table {
    let header = ["kind", "target", "state", "modes", "interval", "engine", "at", "message"];
    let mut table = Table::new(&header).keeping(&["target", "state"]);
    for one in &found.registrations {
        let state = match (one.enabled, &one.suspended_by) {
            (false, _) => "disabled".to_owned(),
            (true, Some(operation)) => format!("suspended by {operation}"),
            (true, None) => "enabled".to_owned(),
        };
        table.push([
            one.kind.clone(),
            one.target.clone(),
            state,
            one.detection_modes.join(","),
            format!("{} s", one.interval),
            one.engine.clone(),
            one.last_check_at.clone().unwrap_or_default(),
            String::new(),
        ]);
        for member in &one.recoveries {
            let empty = String::new;
            table.push([
                "member".to_owned(),
                format!("{} {}", one.target, member.node),
                member.state.clone(),
                empty(),
                empty(),
                empty(),
                member.ended_at.as_ref().unwrap_or(&member.since).clone(),
                member.message.as_ref().unwrap_or(&member.reason).clone(),
            ]);
        }
    }
    table
}

/// Reads the health of an entity.
///
/// # Errors
/// With status 8 when it does not exist, 5 when the agbot does not respond.
pub async fn read(
    context: &Context,
    exchange: &Exchange,
    subject: &HealthSubject,
    query: &HealthQuery,
) -> Outcome<View> {
    let agbot = context.agbot(exchange)?;
    let doing = format!("reading the health of {subject}");
    let found = agbot.call(&doing, agbot.client.health_record(subject, query)).await?;
    let found = found.ok_or_else(|| missing(subject))?;
    let typed: HealthEvaluation = agbot.read(&doing, &found)?;
    let mut reasons = Reasons::new();
    for child in typed.child_health_states.iter().filter(|child| is_unhealthy(child)).take(MOST_REASONS) {
        if let Some(reason) = reason_of_child(&agbot, child, query).await {
            reasons.insert((child.entity.clone(), child.id.clone()), reason);
        }
    }
    Ok(View::new(found.into_value(), table(&typed, &reasons)))
}

fn is_unhealthy(child: &ChildHealthState) -> bool {
    child.aggregated_health_state != "Ok"
}

/// Reads why a child is not `Ok`; none when that cannot be read, because the states can be shown without it.
async fn reason_of_child(agbot: &Server, child: &ChildHealthState, query: &HealthQuery) -> Option<String> {
    let subject = HealthSubject::of(&child.entity, &child.id)?;
    let found = agbot.client.health_record(&subject, query).await.ok()??;
    let found: HealthEvaluation = found.read().ok()?;
    Some(worst_reason(&found))
}

/// Returns the description of the worst event of an entity, or else the reasons of its state.
fn worst_reason(found: &HealthEvaluation) -> String {
    match found.worst_event() {
        Some(event) => event.in_words(),
        None => found.unhealthy_evaluations.iter().map(reason).collect::<Vec<String>>().join("; "),
    }
}

fn missing(subject: &HealthSubject) -> CliError {
    let list_with = match subject {
        HealthSubject::Org { .. } => "hzn exchange org list",
        HealthSubject::Node { .. } => "hzn exchange node list",
        HealthSubject::Group { .. } => "hzn exchange hagroup list",
        HealthSubject::Workload { .. } => "hzn exchange deployment listpolicy",
        HealthSubject::WorkloadUnit { .. } | HealthSubject::Instance { .. } => {
            "hzn exchange deployment orchestration status POLICY"
        }
    };
    CliError::not_found("the", &subject.to_string(), list_with)
}

impl SubjectArguments {
    fn subject(&self, exchange: &Exchange) -> HealthSubject {
        let split = |name: &String| exchange.split(name);
        match (&self.policy, &self.unit, &self.node, &self.group) {
            (Some(policy), Some(unit), ..) => {
                let (org, policy) = split(policy);
                HealthSubject::WorkloadUnit { org, policy, unit: unit.clone() }
            }
            (Some(policy), None, Some(node), _) => {
                let (org, policy) = split(policy);
                HealthSubject::Instance { org, policy, node: node.clone() }
            }
            (Some(policy), None, None, _) => {
                let (org, policy) = split(policy);
                HealthSubject::Workload { org, policy }
            }
            (None, _, Some(node), _) => {
                let (org, node) = split(node);
                HealthSubject::Node { org, node }
            }
            (None, _, None, Some(group)) => {
                let (org, group) = split(group);
                HealthSubject::Group { org, group }
            }
            (None, _, None, None) => HealthSubject::Org { org: exchange.org.clone() },
        }
    }
}

impl RuleArguments {
    fn query(&self) -> HealthQuery {
        HealthQuery {
            consider_warning_as_error: self.consider_warning_as_error.then_some(true),
            max_percent_unhealthy_nodes: self.max_percent_unhealthy_nodes,
            max_percent_unhealthy_workloads: self.max_percent_unhealthy_workloads,
            max_percent_unhealthy_units: self.max_percent_unhealthy_units,
            max_percent_unhealthy_instances: self.max_percent_unhealthy_instances,
            limit: self.limit,
            offset: self.offset,
            kind: self.kind.clone(),
        }
    }
}

impl ReportArguments {
    fn body(&self) -> HealthReport {
        HealthReport {
            source_id: self.source.clone(),
            property: self.property.clone(),
            health_state: self.state.clone(),
            sequence_number: self.sequence.map(|number| number.to_string()),
            ttl_seconds: self.ttl,
            remove_when_expired: self.remove_when_expired.then_some(true),
            description: self.description.clone(),
            sent_at: None,
        }
    }
}

/// One line for the entity, one for each of its events, one for each of its children, with the reasons of those that are not `Ok`.
fn table(found: &HealthEvaluation, reasons_of_children: &Reasons) -> Table {
    let mut table = Table::new(&["entity", "state", "why"]).keeping(&["state", "why"]);
    let reasons: Vec<String> = found.unhealthy_evaluations.iter().map(reason).collect();
    let name = |entity: &str, id: &str| format!("{entity} {id}");
    table.push([name(&found.entity, &found.id), found.aggregated_health_state.clone(), reasons.join("; ")]);
    for event in &found.health_events {
        let expired = if event.is_expired { " (expired)" } else { "" };
        let (source, property) = (&event.source_id, &event.property);
        table.push([
            format!("  {source}/{property}"),
            format!("{}{expired}", event.health_state),
            event.description.clone(),
        ]);
    }
    for child in &found.child_health_states {
        let entity = format!("  {}", name(&child.entity, &child.id));
        let why = reasons_of_children.get(&(child.entity.clone(), child.id.clone()));
        table.push([entity, child.aggregated_health_state.clone(), why.cloned().unwrap_or_default()]);
    }
    if let Some(count) = found.child_count {
        let text = format!("({} of {count} are listed)", found.child_health_states.len());
        table.push([text, String::new(), String::new()]);
    }
    table
}

fn reason(reason: &UnhealthyEvaluation) -> String {
    match reason {
        UnhealthyEvaluation::Event { source_id, property, health_state, .. } => {
            format!("{source_id} reports {property} as {health_state}")
        }
        UnhealthyEvaluation::Children { entity, unhealthy, total, .. } => {
            format!("{} of {total} {entity}s unhealthy", unhealthy.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn registry_is_shown_with_the_recoveries_of_members() {
        let found: HealthRegistryResponse = serde_json::from_value(serde_json::json!({"registrations": [
            {"kind": "group", "target": "o/g", "detectionModes": ["NODE_STATUS_POLLING"], "interval": 60,
             "enabled": true, "engine": "IBM/a/1", "lastCheckAt": "t1", "recoveries": [
                {"node": "n1", "state": "failed", "reason": "down", "since": "t0", "endedAt": "t2", "message": "no action helped"}]},
            {"kind": "workload", "target": "o/p", "detectionModes": [], "interval": 5, "enabled": false, "engine": "IBM/a/1"},
        ]}))
        .unwrap();
        let text = registry_table(&found).render(None);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["group", "o/g", "enabled", "NODE_STATUS_POLLING", "60", "s", "IBM/a/1", "t1"]);
        assert_eq!(lines[2], ["member", "o/g", "n1", "failed", "t2", "no", "action", "helped"]);
        assert_eq!(lines[3], ["workload", "o/p", "disabled", "5", "s", "IBM/a/1"]);
    }

    #[test]
    fn evaluation_is_shown_with_its_events_and_children() {
        let found: HealthEvaluation = serde_json::from_value(json!({
            "entity": "unit", "id": "o/cam/g1", "aggregatedHealthState": "Warning",
            "unhealthyEvaluations": [
                {"kind": "event", "sourceId": "dog", "property": "p", "healthState": "Warning", "considerWarningAsError": false},
                {"kind": "children", "entity": "instance", "unhealthy": ["o/cam@n1"], "total": 3, "maxPercent": 0}
            ],
            "childHealthStates": [{"entity": "instance", "id": "o/cam@n1", "aggregatedHealthState": "Error"}],
            "healthEvents": [{"sourceId": "dog", "property": "p", "healthState": "Warning", "isExpired": true, "description": "slow"}],
        }))
        .unwrap();
        let child = ("instance".to_owned(), "o/cam@n1".to_owned());
        let reasons = Reasons::from([(child, "no heartbeat for 40 s".to_owned())]);
        assert_eq!(
            table(&found, &reasons).rows,
            [
                ["unit o/cam/g1", "Warning", "dog reports p as Warning; 1 of 3 instances unhealthy"],
                ["  dog/p", "Warning (expired)", "slow"],
                ["  instance o/cam@n1", "Error", "no heartbeat for 40 s"],
            ]
        );
    }

    #[test]
    fn reason_of_a_child_is_that_of_its_worst_event_or_of_its_state() {
        let event = |state: &str| json!({"sourceId": "dog", "property": "p", "healthState": state, "description": "silent"});
        let worst = |state: &str| {
            let found = json!({"entity": "node", "id": "o/n", "healthEvents": [event(state)], "unhealthyEvaluations": [
                {"kind": "children", "entity": "instance", "unhealthy": ["o/cam@n1"], "total": 3, "maxPercent": 0}]});
            worst_reason(&serde_json::from_value(found).unwrap())
        };
        assert_eq!(worst("Error"), "silent");
        assert_eq!(worst("Ok"), "1 of 3 instances unhealthy");
    }
}
