//! `hzn exchange agbot`: agbots and what they serve (exchange API 4.5).

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::resource::{Kind, Part};
use crate::api::is_success;
use crate::context::{Context, Exchange, Watch};
use crate::exit::Outcome;
use crate::output::{Table, View, note};

/// Agbots.
pub const AGBOTS: Kind = Kind {
    noun: "agbot",
    path: &["agbots"],
    member: "agbots",
    list_with: "hzn exchange agbot list",
    columns: &[("name", "name"), ("owner", "owner"), ("last heartbeat", "lastHeartbeat")],
};

/// Commands for agbots. An agbot of another organization is named ORG/AGBOT.
#[derive(Debug, Subcommand)]
pub enum AgbotCommand {
    /// Shows the agbots that the caller may see, or one of them
    List {
        /// Agbot to show
        agbot: Option<String>,
        /// Show everything, not only names
        #[arg(short = 'l', long)]
        long: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Shows the deployment policies that an agbot serves
    #[command(name = "listdeploymentpol", visible_aliases = ["listpolicy", "listbusinesspol"])]
    ListPolicies {
        /// Agbot that serves them
        agbot: String,
    },
    /// Lets an agbot serve deployment policies
    #[command(name = "adddeploymentpol", visible_aliases = ["addpolicy", "addbusinesspol"])]
    AddPolicy {
        /// Agbot that is to serve them
        agbot: String,
        /// Organization of the policy
        policy_org: String,
        /// Policy, * for all [default: *]
        policy: Option<String>,
        /// Organization of the nodes [default: that of the policy]
        node_org: Option<String>,
    },
    /// Stops an agbot from serving deployment policies
    #[command(name = "removedeploymentpol", visible_aliases = ["removepolicy", "removebusinesspol"])]
    RemovePolicy {
        /// Agbot that serves them
        agbot: String,
        /// Organization of the policy
        policy_org: String,
        /// Policy, * for all [default: *]
        policy: Option<String>,
        /// Organization of the nodes [default: that of the policy]
        node_org: Option<String>,
    },
    /// Shows the patterns that an agbot serves
    #[command(name = "listpattern")]
    ListPatterns {
        /// Agbot that serves them
        agbot: String,
    },
    /// Lets an agbot serve a pattern
    #[command(name = "addpattern")]
    AddPattern {
        /// Agbot that is to serve it
        agbot: String,
        /// Organization of the pattern
        pattern_org: String,
        /// Pattern, * for all
        pattern: String,
        /// Organization of the nodes [default: that of the pattern]
        node_org: Option<String>,
    },
    /// Stops an agbot from serving a pattern
    #[command(name = "removepattern")]
    RemovePattern {
        /// Agbot that serves it
        agbot: String,
        /// Organization of the pattern
        pattern_org: String,
        /// Pattern, * for all
        pattern: String,
        /// Organization of the nodes [default: that of the pattern]
        node_org: Option<String>,
    },
}

/// What an agbot serves: policies or patterns.
struct Served {
    agbot: String,
    path: &'static str,
    member: &'static str,
    org_field: &'static str,
    name_field: &'static str,
}

impl Served {
    fn policies(agbot: String) -> Self {
        let (org_field, name_field) = ("businessPolOrgid", "businessPol");
        Self { agbot, path: "businesspols", member: "businessPols", org_field, name_field }
    }

    fn patterns(agbot: String) -> Self {
        Self { agbot, path: "patterns", member: "patterns", org_field: "patternOrgid", name_field: "pattern" }
    }

    fn path(&self, exchange: &Exchange) -> evenkeel_client::Path {
        let (org, id) = exchange.split(&self.agbot);
        AGBOTS.path_of(&org, Some(&id)).push(self.path)
    }

    async fn list(&self, context: &Context, exchange: &Exchange) -> Outcome {
        let path = self.path(exchange);
        let served = Part { kind: &AGBOTS, owner: &self.agbot, noun: self.path, path: &path };
        let found = served.find(exchange).await?;
        let map = match found.and_then(|mut found| found.get_mut(self.member).map(Value::take)) {
            Some(Value::Object(map)) => map,
            _ => serde_json::Map::new(),
        };
        let columns =
            [("organization", self.org_field), ("name", self.name_field), ("nodes of", "nodeOrgid")];
        let table = Table::of_map(&map, "id", &columns);
        context.screen.show(&View::new(Value::Object(map), table))
    }

    async fn add(&self, exchange: &Exchange, org: String, name: String, node_org: Option<String>) -> Outcome {
        let node_org = node_org.unwrap_or_else(|| org.clone());
        let body = json!({self.org_field: org, self.name_field: name, "nodeOrgid": node_org});
        let doing = format!("letting agbot {} serve {org}/{name}", self.agbot);
        let answer = exchange.api.attempt(&doing, Method::POST, &self.path(exchange), Some(&body)).await?;
        match answer.status.as_u16() {
            409 => note(format!("agbot {} served {org}/{name} already", self.agbot)),
            _ if is_success(answer.status) => {
                exchange.api.report_done(&format!("agbot {} serves {org}/{name}", self.agbot))
            }
            _ => return Err(exchange.api.failed(&doing, &answer.unexpected())),
        }
        Ok(())
    }

    async fn remove(
        &self,
        exchange: &Exchange,
        org: String,
        name: String,
        node_org: Option<String>,
    ) -> Outcome {
        let node_org = node_org.unwrap_or_else(|| org.clone());
        let path = self.path(exchange).push(&format!("{org}_{name}_{node_org}"));
        let doing = format!("ending that agbot {} serves {org}/{name}", self.agbot);
        if !exchange.api.delete(&doing, &path).await? {
            let list_with =
                format!("hzn exchange agbot list{} {}", self.path.trim_end_matches('s'), self.agbot);
            let list_with = list_with.replace("listbusinesspol", "listdeploymentpol");
            return Err(crate::exit::CliError::not_found(
                "served entry",
                &format!("{org}_{name}_{node_org}"),
                &list_with,
            ));
        }
        exchange.api.report_done(&format!("agbot {} serves {org}/{name} no longer", self.agbot));
        Ok(())
    }
}

/// Runs a command for agbots.
///
/// # Errors
/// Those of the command.
pub async fn run(command: AgbotCommand, context: &Context, exchange: &Exchange) -> Outcome {
    use AgbotCommand as C;
    let or_all = |name: Option<String>| name.unwrap_or_else(|| "*".to_owned());
    match command {
        C::List { agbot, long, watch } => {
            context.show_watched(&watch, async || AGBOTS.list(exchange, agbot.as_deref(), long).await).await
        }
        C::ListPolicies { agbot } => Served::policies(agbot).list(context, exchange).await,
        C::ListPatterns { agbot } => Served::patterns(agbot).list(context, exchange).await,
        C::AddPolicy { agbot, policy_org, policy, node_org } => {
            Served::policies(agbot).add(exchange, policy_org, or_all(policy), node_org).await
        }
        C::AddPattern { agbot, pattern_org, pattern, node_org } => {
            Served::patterns(agbot).add(exchange, pattern_org, pattern, node_org).await
        }
        C::RemovePolicy { agbot, policy_org, policy, node_org } => {
            Served::policies(agbot).remove(exchange, policy_org, or_all(policy), node_org).await
        }
        C::RemovePattern { agbot, pattern_org, pattern, node_org } => {
            Served::patterns(agbot).remove(exchange, pattern_org, pattern, node_org).await
        }
    }
}
