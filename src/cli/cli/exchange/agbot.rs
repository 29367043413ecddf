//! `hzn exchange agbot`: agbots and what they serve (exchange API 4.5).

use clap::Subcommand;
use evenkeel_wire::exchange::agbot::{PostServedPattern, PostServedPolicy};
use evenkeel_wire::page::PageQuery;
use serde_json::Value;

use super::agbot_approval;
use crate::context::{Context, Exchange, Watch};
use crate::exit::{CliError, Outcome};
use crate::output::{Column, Table, View, print_note};
use crate::resource::kinds::AGBOTS;
use crate::resource::selection::ListSelection;
use crate::resource::{Part, members_of};

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
        selection: ListSelection,
        #[command(flatten)]
        watch: Watch,
    },
    /// Shows the approved agbots and the entries that any agbot serves to the nodes of the organization
    Approvals {
        #[command(flatten)]
        watch: Watch,
    },
    /// Approves an agbot, which gives it the rights of agbots; requires an administrator of its organization
    Approve {
        /// Agbot to approve
        agbot: String,
    },
    /// Withdraws the approval of an agbot, which leaves it the rights of its owner
    Withdraw {
        /// Agbot whose approval is withdrawn
        agbot: String,
    },
    /// Confirms entries that an agbot serves to the nodes of the organization, so that the hub's own agbot
    /// yields to it
    Confirm {
        /// Agbot that serves it
        agbot: String,
        /// Id of the entry, as `approvals` shows it with --output json [default: every entry that is not confirmed]
        entry: Option<String>,
    },
    /// Withdraws the confirmation of entries that an agbot serves
    Unconfirm {
        /// Agbot that serves it
        agbot: String,
        /// Id of the entry [default: every entry that is confirmed]
        entry: Option<String>,
    },
    /// Shows the deployment policies that an agbot serves
    #[command(name = "listdeploymentpol", visible_aliases = ["listpolicy", "listbusinesspol"])]
    ListPolicies {
        /// Agbot that serves them
        agbot: String,
        #[command(flatten)]
        selection: ListSelection,
    },
    /// Adds deployment policies to those that an agbot serves
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
        #[command(flatten)]
        selection: ListSelection,
    },
    /// Adds a pattern to those that an agbot serves
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

/// An entry of what an agbot serves: a deployment policy or a pattern.
struct ServedEntry {
    list: ServedList,
    org: String,
    name: String,
    node_org: String,
}

/// A list of what an agbot serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServedList {
    Policies,
    Patterns,
}

impl ServedList {
    /// Returns the noun in messages.
    fn noun(self) -> &'static str {
        match self {
            Self::Policies => "businesspols",
            Self::Patterns => "patterns",
        }
    }

    /// Returns the command that lists them.
    fn command(self) -> &'static str {
        match self {
            Self::Policies => "listdeploymentpol",
            Self::Patterns => "listpattern",
        }
    }

    fn columns(self) -> [Column<'static>; 3] {
        let (org, name) = match self {
            Self::Policies => ("businessPolOrgid", "businessPol"),
            Self::Patterns => ("patternOrgid", "pattern"),
        };
        [("organization", org), ("name", name), ("nodes of", "nodeOrgid")]
    }

    async fn show(
        self,
        (context, exchange): (&Context, &Exchange),
        agbot: &str,
        selection: &ListSelection,
    ) -> Outcome {
        let (org, id) = exchange.split(agbot);
        let client = &exchange.server.client;
        let entries = Part { kind: &AGBOTS, owner: agbot, noun: self.noun() };
        let page = async |query: &PageQuery| {
            let read = async {
                match self {
                    Self::Policies => client.served_policy_records(&org, &id, query).await,
                    Self::Patterns => client.served_pattern_records(&org, &id, query).await,
                }
            };
            Ok(entries.find(exchange, read).await?.unwrap_or_default())
        };
        if selection.is_count() {
            return context.screen.show(&selection.count(page).await?);
        }
        let map = members_of(selection.read(page).await?);
        let table = Table::of_map(&map, "id", &self.columns());
        context.screen.show(&View::new(Value::Object(map), table))
    }
}

impl ServedEntry {
    fn new(list: ServedList, org: String, name: String, node_org: Option<String>) -> Self {
        let node_org = node_org.unwrap_or_else(|| org.clone());
        Self { list, org, name, node_org }
    }

    fn policy(org: String, name: Option<String>, node_org: Option<String>) -> Self {
        Self::new(ServedList::Policies, org, name.unwrap_or_else(|| "*".to_owned()), node_org)
    }

    fn pattern(org: String, name: String, node_org: Option<String>) -> Self {
        Self::new(ServedList::Patterns, org, name, node_org)
    }

    async fn add(self, exchange: &Exchange, agbot: &str) -> Outcome {
        let (agbot_org, id) = exchange.split(agbot);
        let client = &exchange.server.client;
        let Self { list, org, name, node_org } = self;
        let node_orgid = Some(node_org);
        let added = match list {
            ServedList::Policies => {
                let (business_pol_orgid, business_pol) = (org.clone(), name.clone());
                let entry = PostServedPolicy { business_pol_orgid, business_pol, node_orgid };
                client.add_served_policy(&agbot_org, &id, &entry).await
            }
            ServedList::Patterns => {
                let (pattern_orgid, pattern) = (org.clone(), name.clone());
                let entry = PostServedPattern { pattern_orgid, pattern, node_orgid };
                client.add_served_pattern(&agbot_org, &id, &entry).await
            }
        };
        match added {
            Ok(_) => exchange.server.report_done(&format!("agbot {agbot} serves {org}/{name}")),
            Err(error) if error.is_conflict() => {
                print_note(format!("agbot {agbot} served {org}/{name} already"));
            }
            Err(error) => {
                let doing = format!("letting agbot {agbot} serve {org}/{name}");
                return Err(exchange.server.failed(&doing, &error));
            }
        }
        Ok(())
    }

    async fn remove(self, exchange: &Exchange, agbot: &str) -> Outcome {
        let (agbot_org, id) = exchange.split(agbot);
        let client = &exchange.server.client;
        let Self { list, org, name, node_org } = self;
        let entry = format!("{org}_{name}_{node_org}");
        let doing = format!("removing {org}/{name} from agbot {agbot}");
        let removed = async {
            match list {
                ServedList::Policies => client.delete_served_policy(&agbot_org, &id, &entry).await,
                ServedList::Patterns => client.delete_served_pattern(&agbot_org, &id, &entry).await,
            }
        };
        if !exchange.server.call(&doing, removed).await? {
            let list_with = format!("hzn exchange agbot {} {agbot}", list.command());
            return Err(CliError::not_found("served entry", &entry, &list_with));
        }
        exchange.server.report_done(&format!("agbot {agbot} no longer serves {org}/{name}"));
        Ok(())
    }
}

/// Runs a command for agbots.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: AgbotCommand, context: &Context, exchange: &Exchange) -> Outcome {
    use AgbotCommand as C;
    match command {
        C::List { agbot, long, selection, watch } => {
            context
                .show_watched(&watch, async || {
                    AGBOTS.list_selected(exchange, agbot.as_deref(), long, &selection).await
                })
                .await
        }
        C::Approvals { watch } => {
            context.show_watched(&watch, async || agbot_approval::view(exchange).await).await
        }
        C::Approve { agbot } => agbot_approval::approve(exchange, &agbot, true).await,
        C::Withdraw { agbot } => agbot_approval::approve(exchange, &agbot, false).await,
        C::Confirm { agbot, entry } => {
            agbot_approval::confirm(exchange, &agbot, entry.as_deref(), true).await
        }
        C::Unconfirm { agbot, entry } => {
            agbot_approval::confirm(exchange, &agbot, entry.as_deref(), false).await
        }
        C::ListPolicies { agbot, selection } => {
            ServedList::Policies.show((context, exchange), &agbot, &selection).await
        }
        C::ListPatterns { agbot, selection } => {
            ServedList::Patterns.show((context, exchange), &agbot, &selection).await
        }
        C::AddPolicy { agbot, policy_org, policy, node_org } => {
            ServedEntry::policy(policy_org, policy, node_org).add(exchange, &agbot).await
        }
        C::AddPattern { agbot, pattern_org, pattern, node_org } => {
            ServedEntry::pattern(pattern_org, pattern, node_org).add(exchange, &agbot).await
        }
        C::RemovePolicy { agbot, policy_org, policy, node_org } => {
            ServedEntry::policy(policy_org, policy, node_org).remove(exchange, &agbot).await
        }
        C::RemovePattern { agbot, pattern_org, pattern, node_org } => {
            ServedEntry::pattern(pattern_org, pattern, node_org).remove(exchange, &agbot).await
        }
    }
}
