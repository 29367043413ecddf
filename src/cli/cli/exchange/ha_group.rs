//! `hzn exchange hagroup`: HA groups, in the forms of the existing tool and of requirement 004 (agbot 5.4,
//! orchestration E2).

use std::path::PathBuf;

use clap::{Args, Subcommand};
use evenkeel_ids::PolicyId;
use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::claim::Claim;
use evenkeel_wire::agbot::upgrade::{HeldClaim, UpgradesResponse, WaitingMember};

use super::ha_group_edit as edit;
use super::ha_group_recover::{RecoverMembers, recover};
use super::orch::events::{self, ChosenEvents, Subject};
use super::revision::{self, RevisionCommand};
use crate::confirm::confirm;
use crate::context::{Context, Exchange, Watch};
use crate::exit::{CliError, Exit, Outcome};
use crate::input::template;
use crate::output::{Table, View};
use crate::resource::ha_group::members;
use crate::resource::kinds::{GROUPS, NODES, POLICIES};
use crate::resource::require_selectors;
use crate::resource::selection::ListSelection;
use crate::stops::{ForceOfFile, Write, confirm_stops, show_stops};
use crate::wait::{self, Wait};

/// Commands for HA groups.
#[derive(Debug, Subcommand)]
pub enum HaGroupCommand {
    /// Shows the HA groups of the organization, or one of them
    List {
        /// Group to show
        name: Option<String>,
        /// Show everything, not only names
        #[arg(short = 'l', long)]
        long: bool,
        #[command(flatten)]
        selection: ListSelection,
        #[command(flatten)]
        watch: Watch,
    },
    /// Creates an HA group; without a name, prints a template
    New(GroupArguments),
    /// Creates an HA group
    Create(GroupArguments),
    /// Creates or replaces an HA group
    Add(GroupArguments),
    /// Replaces the members of an HA group
    Update(GroupArguments),
    /// Changes how many members of an HA group may be disrupted at once, and its health policy
    Set {
        /// Group to change
        name: String,
        /// KEY=VALUE; the keys are exclusiveDisruption, maxUnavailable, lockStaleSeconds and those below healthPolicy
        #[arg(required = true, value_name = "CHANGE")]
        changes: Vec<String>,
    },
    /// Removes an HA group; its nodes and their services stay as they are
    #[command(visible_alias = "delete")]
    Remove {
        /// Group to remove
        name: String,
        /// Do not ask
        #[arg(short = 'f', long)]
        force: bool,
        #[command(flatten)]
        wait: Wait,
    },
    /// Members of an HA group
    #[command(subcommand)]
    Member(MemberCommand),
    /// Shows the members of an HA group that are being upgraded, and the reasons for which the others wait
    Upgrades {
        /// Group to show
        name: String,
        #[command(flatten)]
        watch: Watch,
    },
    /// Shows the events of an HA group in the order of their numbers
    Events {
        /// Group to show
        name: String,
        #[command(flatten)]
        chosen: ChosenEvents,
    },
    /// Recovers members of an HA group by its health policy
    Recover(RecoverMembers),
    /// Releases the claims on an HA group, for instance when a member that holds one is stuck
    Free {
        /// Name of the group
        name: String,
        /// Only claims of this member
        #[arg(long = "nodeId", visible_alias = "node-id", short = 'm', value_name = "NODE")]
        node: Option<String>,
        /// Only that of the rollout of this deployment policy
        #[arg(long, value_name = "POLICY")]
        policy: Option<String>,
        /// Do not ask
        #[arg(short = 'f', long)]
        force: bool,
    },
    #[command(flatten)]
    Revision(RevisionCommand),
}

/// A group: by its members, or from a file.
#[derive(Debug, Args)]
pub struct GroupArguments {
    /// Name of the group [default: the member name of the file]
    pub name: Option<String>,
    /// Node of the group; repeat for more
    #[arg(
        long = "nodeId",
        visible_alias = "node-id",
        short = 'm',
        value_name = "NODE",
        conflicts_with = "file"
    )]
    pub nodes: Vec<String>,
    /// Description of the group
    #[arg(short = 'd', long, conflicts_with = "file")]
    pub description: Option<String>,
    /// JSON or YAML file with name, description and members, - for standard input
    #[arg(short = 'f', long = "json-file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub force: ForceOfFile,
    #[command(flatten)]
    pub wait: Wait,
}

/// Commands for single members.
#[derive(Debug, Subcommand)]
pub enum MemberCommand {
    /// Adds nodes to an HA group; nothing on them is restarted
    Add(MemberArguments),
    /// Removes nodes from an HA group
    Remove(MemberArguments),
}

/// Nodes of a group.
#[derive(Debug, Args)]
pub struct MemberArguments {
    /// Name of the group
    pub name: String,
    /// Node; repeat for more
    #[arg(
        long = "nodeId",
        visible_alias = "node-id",
        alias = "node",
        short = 'm',
        value_name = "NODE",
        required = true
    )]
    pub nodes: Vec<String>,
    /// Do not ask
    #[arg(short = 'f', long)]
    pub force: bool,
    #[command(flatten)]
    pub wait: Wait,
}

impl HaGroupCommand {
    /// Returns whether only a template is requested.
    pub fn is_template(&self) -> bool {
        matches!(self, Self::New(new) if new.name.is_none() && new.nodes.is_empty() && new.file.is_none())
    }

    /// Prints the template.
    ///
    /// # Errors
    /// When nothing can be written.
    pub fn show_template(context: &Context) -> Outcome {
        let text = r#"{
  "name": "",                       /* name of the group */
  "description": "",                /* what it is for */
  "members": [                      /* ids of its nodes */
    "node1",
    "node2"
  ]
}"#;
        context.screen.show(&View::plain(text, template(text)))
    }
}

/// Runs a command for HA groups.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: HaGroupCommand, context: &Context, exchange: &Exchange) -> Outcome {
    match command {
        HaGroupCommand::Revision(command) => revision::run(command, &GROUPS, context, exchange).await,
        HaGroupCommand::List { name, long, selection, watch } => {
            context
                .show_watched(&watch, async || {
                    GROUPS.list_selected(exchange, name.as_deref(), long, &selection).await
                })
                .await
        }
        HaGroupCommand::New(group) | HaGroupCommand::Create(group) => {
            let wanted = edit::Group::read(&group, context)?;
            edit::create(&wanted, exchange, false).await?;
            wait::group::follow(&group.wait, context, exchange, wanted.name(), &[]).await
        }
        HaGroupCommand::Add(group) => {
            let wanted = edit::Group::read(&group, context)?;
            let before = members_now(exchange, wanted.name(), &group.wait).await?;
            let writes = wanted.write(exchange);
            if !confirm_stops(context, exchange, writes.as_slice(), group.force.confirmation()).await? {
                return Ok(());
            }
            edit::create(&wanted, exchange, true).await?;
            follow(&group.wait, context, exchange, (wanted.name(), before)).await
        }
        HaGroupCommand::Update(group) => {
            let wanted = edit::Group::read(&group, context)?;
            let before = members_now(exchange, wanted.name(), &group.wait).await?;
            let writes = wanted.write(exchange);
            if !confirm_stops(context, exchange, writes.as_slice(), group.force.confirmation()).await? {
                return Ok(());
            }
            edit::update(&wanted, exchange).await?;
            follow(&group.wait, context, exchange, (wanted.name(), before)).await
        }
        HaGroupCommand::Set { name, changes } => edit::set(exchange, &name, &changes).await,
        HaGroupCommand::Remove { name, force, wait } => {
            let before = members_now(exchange, &name, &wait).await?;
            show_stops(context, exchange, &[Write::group_removal(exchange, &name)]).await;
            GROUPS.remove(exchange, &name, force).await?;
            follow(&wait, context, exchange, (&name, before)).await
        }
        HaGroupCommand::Member(MemberCommand::Add(members)) => {
            edit::add_members(&members, exchange).await?;
            wait::group::follow(&members.wait, context, exchange, &members.name, &[]).await
        }
        HaGroupCommand::Member(MemberCommand::Remove(members)) => {
            edit::remove_members(&members, context, exchange).await?;
            wait::group::follow(&members.wait, context, exchange, &members.name, &members.nodes).await
        }
        HaGroupCommand::Events { name, chosen } => {
            events::run(context, exchange, Subject::Group(&name), &chosen).await
        }
        HaGroupCommand::Recover(wanted) => recover(context, exchange, &wanted).await,
        HaGroupCommand::Free { name, node, policy, force } => {
            if !confirm(&format!("free the claims of HA group {name}?"), force || context.is_dry_run)? {
                return Ok(());
            }
            free(context, exchange, &name, node.as_deref(), policy.as_deref()).await
        }
        HaGroupCommand::Upgrades { name, watch } => {
            context.show_watched(&watch, async || upgrades(context, exchange, &name).await).await
        }
    }
}

/// Returns the members before a change that the command waits for; none for a group that does not exist.
async fn members_now(exchange: &Exchange, name: &str, wait: &Wait) -> Outcome<Vec<String>> {
    if wait.limit.is_none() {
        return Ok(Vec::new());
    }
    match members(exchange, name).await {
        Err(error) if error.exit == Exit::NotFound => Ok(Vec::new()),
        found => found,
    }
}

/// Waits for a change that may have removed members.
async fn follow(
    wait: &Wait,
    context: &Context,
    exchange: &Exchange,
    (name, mut before): (&str, Vec<String>),
) -> Outcome {
    if wait.limit.is_some() {
        let now = members_now(exchange, name, wait).await?;
        before.retain(|member| !now.contains(member));
    }
    wait::group::follow(wait, context, exchange, name, &before).await
}

async fn upgrades(context: &Context, exchange: &Exchange, name: &str) -> Outcome<View> {
    let (org, id) = exchange.split(name);
    let agbot = context.agbot(exchange)?;
    let doing = format!("reading the upgrades of HA group {name}");
    let found = match agbot.client.upgrades_record(&org, &id).await {
        Err(error) if error.is_not_found() => return Err(GROUPS.missing(name)),
        found => found.map_err(|error| agbot.failed(&doing, &error))?,
    };
    let view = upgrades_view(&agbot.read(&doing, &found)?, found);
    if view.table.rows.is_empty() {
        // An older agbot knows no missing group.
        GROUPS.require(exchange, name).await?;
    }
    Ok(view)
}

async fn free(
    context: &Context,
    exchange: &Exchange,
    name: &str,
    node: Option<&str>,
    policy: Option<&str>,
) -> Outcome {
    let (org, id) = exchange.split(name);
    let bare = |name: &str| exchange.split(name).1;
    let agbot = context.agbot(exchange)?;
    let (of_node, of_policy) = (node.map(bare), policy.map(bare));
    let freed = agbot.client.free_claims(&org, &id, of_node.as_deref(), of_policy.as_deref());
    if agbot.call(&format!("freeing the claims of HA group {name}"), freed).await? {
        agbot.report_done(&format!("the claims of HA group {org}/{id} are free"));
        return Ok(());
    }
    GROUPS.require(exchange, name).await?;
    require_selectors(exchange, &[(&NODES, node), (&POLICIES, policy)]).await?;
    let list_with = format!("hzn exchange hagroup upgrades {name}");
    Err(CliError::not_found("claim of HA group", &format!("{org}/{id}"), &list_with))
}

fn upgrades_view(upgrades: &UpgradesResponse, found: RawJson) -> View {
    let mut table = Table::new(&["what", "policy", "node", "detail"]).keeping(&["node", "detail"]);
    let held = |claim: &Claim| {
        let since = if claim.phase_since.is_empty() { &claim.since } else { &claim.phase_since };
        format!("{} since {since}", claim.phase)
    };
    if let Some(HeldClaim { claim, nmp, .. }) = &upgrades.agent {
        let nmp = nmp.clone().unwrap_or_default();
        table.push(["agent".to_owned(), nmp, claim.node.to_string(), held(claim)]);
    }
    for HeldClaim { claim, policy, .. } in &upgrades.workloads {
        // Earlier agbots name the policy in the scope of the claim only.
        let policy = policy.as_ref().or(claim.scope.policy()).map(PolicyId::to_string).unwrap_or_default();
        table.push(["service".to_owned(), policy, claim.node.to_string(), held(claim)]);
    }
    for WaitingMember { policy, node, reason } in &upgrades.waiting {
        table.push(["waits".to_owned(), policy.to_string(), node.to_string(), reason.clone()]);
    }
    View::new(found.into_value(), table)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_and_waits_of_a_group_are_one_table() {
        let found = RawJson::from(json!({
            "agent": null,
            "workloads": [{"group": "o/g", "node": "o/n1", "scope": {"kind": "policy", "policy": "o/p"},
                           "purpose": {"purpose": "service-upgrade"}, "version": "2.0.0", "fencing": 1,
                           "phase": "starting", "since": "t", "phase_since": "u", "deadline": "v"}],
            "waiting": [{"policy": "o/p", "node": "o/n2", "reason": "n1 is first"}],
        }));
        let upgrades: UpgradesResponse = found.read().expect("upgrades");
        let rows = upgrades_view(&upgrades, found).table.rows;
        assert_eq!(rows[0], ["service", "o/p", "o/n1", "starting since u"]);
        assert_eq!(rows[1], ["waits", "o/p", "o/n2", "n1 is first"]);
    }

    #[test]
    fn every_documented_form_is_understood() {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(subcommand)]
            command: HaGroupCommand,
        }
        let parse =
            |line: &str| Line::try_parse_from(format!("x {line}").split(' ')).map(|line| line.command);
        for verb in ["create", "add", "new", "update"] {
            let command = parse(&format!("{verb} g1 --nodeId n1 --nodeId n2")).expect(verb);
            let (HaGroupCommand::Create(group)
            | HaGroupCommand::Add(group)
            | HaGroupCommand::New(group)
            | HaGroupCommand::Update(group)) = command
            else {
                panic!("{verb} is another command");
            };
            assert_eq!((group.name.as_deref(), group.nodes.len()), (Some("g1"), 2));
        }
        for line in
            ["delete g1", "remove g1 -f", "list", "list g1", "add -f g.json", "member add g1 -m n1", "new"]
        {
            assert!(parse(line).is_ok(), "{line}");
        }
        assert!(parse("add g1 -f g.json --nodeId n1").is_err(), "either members or a file");
        assert!(parse("new").expect("a template").is_template());
    }
}
