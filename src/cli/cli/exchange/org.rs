//! `hzn exchange org`: organizations (exchange API 4.2).

use clap::Subcommand;
use evenkeel_client::Records;
use evenkeel_wire::exchange::node::HeartbeatIntervals;
use evenkeel_wire::exchange::organization::{OrganizationLimits, PutOrganization};
use serde_json::{Map, Value, json};

use crate::context::{Context, Exchange, Watch};
use crate::exit::{CliError, Outcome};
use crate::output::View;
use crate::resource::kinds::ORGS;
use crate::resource::require_org;
use crate::shape;

/// Commands for organizations.
#[derive(Debug, Subcommand)]
pub enum OrgCommand {
    /// Shows the organizations that the caller may see, or one of them
    List {
        /// Organization to show
        org: Option<String>,
        /// Show everything, not only names
        #[arg(short = 'l', long)]
        long: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Creates an organization
    Create {
        /// Its id
        org: String,
        #[command(flatten)]
        fields: OrgFields,
    },
    /// Changes an organization
    Update {
        /// Its id
        org: String,
        #[command(flatten)]
        fields: OrgFields,
    },
    /// Removes an organization and everything in it
    #[command(visible_alias = "delete")]
    Remove {
        /// Its id
        org: String,
        /// Do not ask
        #[arg(short = 'f', long)]
        force: bool,
    },
}

/// Members of an organization.
#[derive(Debug, clap::Args)]
pub struct OrgFields {
    /// Human-readable name
    #[arg(short = 'l', long)]
    label: Option<String>,
    /// Description of the organization
    #[arg(short = 'd', long)]
    description: Option<String>,
    /// Tag as NAME=VALUE; repeat for more
    #[arg(short = 't', long = "tag", value_name = "NAME=VALUE")]
    tags: Vec<String>,
    /// Shortest pause between two polls of a node, in seconds
    #[arg(long = "heartbeatmin", value_name = "SECONDS")]
    heartbeat_min: Option<u32>,
    /// Longest pause between two polls of a node, in seconds
    #[arg(long = "heartbeatmax", value_name = "SECONDS")]
    heartbeat_max: Option<u32>,
    /// Increment of the pause, in seconds
    #[arg(long = "heartbeatadjust", value_name = "SECONDS")]
    heartbeat_adjust: Option<u32>,
    /// Maximum number of nodes, 0 for the exchange's limit
    #[arg(long = "max-nodes", value_name = "COUNT")]
    max_nodes: Option<u32>,
}

impl OrgFields {
    /// Returns a new organization with these attributes.
    fn body(&self, org: &str) -> Outcome<PutOrganization> {
        let or_org = |text: &Option<String>| text.clone().unwrap_or_else(|| org.to_owned());
        Ok(PutOrganization {
            org_type: None,
            label: or_org(&self.label),
            description: or_org(&self.description),
            tags: self.tags()?,
            limits: self.limits(),
            heartbeat_intervals: self.heartbeat_intervals(),
        })
    }

    /// Returns the given attributes, one per member.
    fn attributes(&self) -> Outcome<Map<String, Value>> {
        let given = [
            ("label", self.label.as_deref().map(Value::from)),
            ("description", self.description.as_deref().map(Value::from)),
            ("tags", self.tags()?.map(Value::Object)),
            ("heartbeatIntervals", self.heartbeat_intervals().map(|intervals| json!(intervals))),
            ("limits", self.limits().map(|limits| json!(limits))),
        ];
        Ok(given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
    }

    fn tags(&self) -> Outcome<Option<Map<String, Value>>> {
        if self.tags.is_empty() {
            return Ok(None);
        }
        self.tags.iter().map(|tag| parse_tag(tag)).collect::<Outcome<_>>().map(Some)
    }

    fn heartbeat_intervals(&self) -> Option<HeartbeatIntervals> {
        let given = [self.heartbeat_min, self.heartbeat_max, self.heartbeat_adjust];
        if given.iter().all(Option::is_none) {
            return None;
        }
        let [min_interval, max_interval, interval_adjustment] =
            given.map(|seconds| i64::from(seconds.unwrap_or_default()));
        Some(HeartbeatIntervals { min_interval, max_interval, interval_adjustment })
    }

    fn limits(&self) -> Option<OrganizationLimits> {
        self.max_nodes.map(|count| OrganizationLimits { max_nodes: i64::from(count) })
    }
}

fn parse_tag(tag: &str) -> Outcome<(String, Value)> {
    let (name, value) = tag.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
        CliError::input(
            format!("the tag {tag} cannot be used"),
            "it is not of the form NAME=VALUE",
            "correct it",
        )
    })?;
    Ok((name.to_owned(), Value::from(value)))
}

/// Runs a command for organizations.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: OrgCommand, context: &Context, exchange: &Exchange) -> Outcome {
    match command {
        OrgCommand::List { org, long, watch } => {
            context.show_watched(&watch, async || list(exchange, org.as_deref(), long).await).await
        }
        OrgCommand::Create { org, fields } => {
            shape::check_name("organization", &org)?;
            let body = fields.body(&org)?;
            let doing = format!("creating organization {org}");
            let advice = format!("change it with: hzn exchange org update {org}");
            let server = &exchange.server;
            server.create(&doing, &advice, server.client.create_org(&org, &body)).await?;
            server.report_done(&format!("organization {org} is created"));
            Ok(())
        }
        OrgCommand::Update { org, fields } => update(exchange, &org, fields.attributes()?).await,
        OrgCommand::Remove { org, force } => remove(exchange, &org, force).await,
    }
}

async fn list(exchange: &Exchange, org: Option<&str>, is_long: bool) -> Outcome<View> {
    let client = &exchange.server.client;
    let read = async {
        match org {
            Some(org) => {
                client.record(ORGS.resource, org, org).await.map(|found| found.into_iter().collect())
            }
            None => client.records(ORGS.resource, "").await.map(Option::unwrap_or_default),
        }
    };
    let found: Records = exchange.server.call("reading organizations", read).await?;
    match org {
        Some(org) if found.is_empty() => Err(ORGS.missing(org)),
        _ => Ok(ORGS.view(found, is_long || org.is_some())),
    }
}

async fn remove(exchange: &Exchange, org: &str, is_forced: bool) -> Outcome {
    let question = format!("Remove organization {org} with all its users, nodes, services and policies?");
    if exchange.server.is_dry_run {
        require_org(exchange, org).await?;
    }
    ORGS.remove_confirmed(exchange, org, (&question, is_forced)).await
}

/// One attribute per call: the exchange takes the first of several only.
async fn update(exchange: &Exchange, org: &str, attributes: Map<String, Value>) -> Outcome {
    if attributes.is_empty() {
        let what = format!("organization {org} was not changed");
        return Err(CliError::input(
            what,
            "no attribute is given",
            "give what to change, such as --description",
        ));
    }
    for (name, value) in attributes {
        ORGS.change_member(exchange, org, &name, &json!({ name.as_str(): value })).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_given_attributes_are_sent() {
        let fields = OrgFields {
            label: Some("L".into()),
            description: None,
            tags: vec!["a=b=c".into()],
            heartbeat_min: Some(5),
            heartbeat_max: None,
            heartbeat_adjust: None,
            max_nodes: Some(3),
        };
        let expected = json!({
            "label": "L", "tags": {"a": "b=c"},
            "heartbeatIntervals": {"minInterval": 5, "maxInterval": 0, "intervalAdjustment": 0},
            "limits": {"maxNodes": 3},
        });
        assert_eq!(fields.attributes().map(Value::Object), Ok(expected));
        assert!(parse_tag("novalue").is_err());
    }
}
