//! `hzn exchange org`: organizations (exchange API 4.2).

use clap::Subcommand;
use http::Method;
use serde_json::{Map, Value, json};

use super::resource::{Kind, require_org};
use crate::context::{Context, Exchange, Watch};
use crate::exit::{CliError, Outcome};
use crate::output::note;

const ORGS: Kind = Kind {
    noun: "organization",
    path: &[],
    member: "orgs",
    list_with: "hzn exchange org list",
    columns: &[
        ("type", "orgType"),
        ("label", "label"),
        ("description", "description"),
        ("changed", "lastUpdated"),
    ],
};

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

/// What an organization is made of.
#[derive(Debug, clap::Args)]
pub struct OrgFields {
    /// Human-readable name
    #[arg(long)]
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
    /// By how much the pause grows, in seconds
    #[arg(long = "heartbeatadjust", value_name = "SECONDS")]
    heartbeat_adjust: Option<u32>,
    /// Most nodes, 0 for the exchange's limit
    #[arg(long = "max-nodes", value_name = "COUNT")]
    max_nodes: Option<u32>,
}

impl OrgFields {
    /// The attributes that are given, one per member.
    fn attributes(&self) -> Outcome<Map<String, Value>> {
        let mut attributes = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                attributes.insert(name.to_owned(), value);
            }
        };
        put("label", self.label.as_deref().map(Value::from));
        put("description", self.description.as_deref().map(Value::from));
        if !self.tags.is_empty() {
            put(
                "tags",
                Some(Value::Object(self.tags.iter().map(|tag| parse_tag(tag)).collect::<Outcome<_>>()?)),
            );
        }
        let beats = [self.heartbeat_min, self.heartbeat_max, self.heartbeat_adjust];
        if beats.iter().any(Option::is_some) {
            let [min, max, adjust] = beats.map(Option::unwrap_or_default);
            let intervals = json!({"minInterval": min, "maxInterval": max, "intervalAdjustment": adjust});
            put("heartbeatIntervals", Some(intervals));
        }
        put("limits", self.max_nodes.map(|count| json!({"maxNodes": count})));
        Ok(attributes)
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
/// Those of the command.
pub async fn run(command: OrgCommand, context: &Context, exchange: &Exchange) -> Outcome {
    match command {
        OrgCommand::List { org, long, watch } => {
            context.show_watched(&watch, async || list(exchange, org.as_deref(), long).await).await
        }
        OrgCommand::Create { org, fields } => {
            let mut body = fields.attributes()?;
            for member in ["label", "description"] {
                body.entry(member).or_insert_with(|| Value::from(org.as_str()));
            }
            let path = evenkeel_client::Path::org(&org, &[]);
            let doing = format!("creating organization {org}");
            let advice = format!("change it with: hzn exchange org update {org}");
            exchange.api.create(&doing, &path, &Value::Object(body), &advice).await?;
            exchange.api.report_done(&format!("organization {org} is created"));
            Ok(())
        }
        OrgCommand::Update { org, fields } => update(exchange, &org, fields.attributes()?).await,
        OrgCommand::Remove { org, force } => remove(exchange, &org, force).await,
    }
}

async fn list(exchange: &Exchange, org: Option<&str>, is_long: bool) -> Outcome<crate::output::View> {
    let path = match org {
        Some(org) => evenkeel_client::Path::org(org, &[]),
        None => evenkeel_client::Path::new(&["orgs"]),
    };
    let found = exchange.api.find("reading organizations", &path).await?;
    let map = match found.and_then(|mut found| found.get_mut(ORGS.member).map(Value::take)) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    match org {
        Some(org) if map.is_empty() => Err(ORGS.missing(org)),
        _ => Ok(ORGS.view(map, is_long || org.is_some())),
    }
}

async fn remove(exchange: &Exchange, org: &str, is_forced: bool) -> Outcome {
    let question = format!("Remove organization {org} with all its users, nodes, services and policies?");
    if exchange.api.is_dry_run {
        require_org(exchange, org).await?;
    }
    if !crate::confirm::confirm(&question, is_forced || exchange.api.is_dry_run)? {
        note("nothing was removed");
        return Ok(());
    }
    let path = evenkeel_client::Path::org(org, &[]);
    if !exchange.api.delete(&format!("removing organization {org}"), &path).await? {
        return Err(ORGS.missing(org));
    }
    exchange.api.report_done(&format!("organization {org} is removed"));
    Ok(())
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
    let path = evenkeel_client::Path::org(org, &[]);
    for (name, value) in attributes {
        let doing = format!("changing {name} of organization {org}");
        let answer = exchange
            .api
            .attempt(&doing, Method::PATCH, &path, Some(&json!({ name.as_str(): value })))
            .await?;
        match answer.status.as_u16() {
            404 => return Err(ORGS.missing(org)),
            _ if crate::api::is_success(answer.status) => {
                exchange.api.report_done(&format!("{name} of organization {org} is changed"))
            }
            _ => return Err(exchange.api.failed(&doing, &answer.unexpected())),
        }
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
