//! `hzn exchange … revisions` and `… undo`: who changed a document, when and why, and writing an earlier state of it again.
//!
//! One implementation for all kinds of documents. A document is restored by the write that its kind has, with its checks, its plan of stops
//! and its questions.

use clap::{Args, Subcommand};
use evenkeel_client::DocumentPath;
use evenkeel_wire::exchange::revision::{Revision, RevisionQuery, RevisionResponse, RevisionsQuery};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{node_part, orch_settings, publish, service};
use crate::context::{Context, Exchange};
use crate::diff::{Change, changes};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, print_note};
use crate::resource::Kind;
use crate::resource::kinds::{GROUPS, NODES, SERVICES};
use crate::stops::{ForceOfFile, Write, confirm_stops};

const COLUMNS: &[(&str, &str)] = &[
    ("revision", "revision"),
    ("time", "time"),
    ("author", "author"),
    ("operation", "operation"),
    ("reason", "reason"),
];
/// Revisions of one request, at most.
const PAGE: i64 = 100;

/// Revisions of a document with a name.
#[derive(Debug, Subcommand)]
pub enum RevisionCommand {
    /// Shows the revisions, newest first, one of them, or the changes between two
    Revisions {
        /// Name of the document
        name: String,
        #[command(flatten)]
        chosen: ChosenRevisions,
    },
    /// Writes the document of an earlier revision again, with the checks and questions of every write
    Undo {
        /// Name of the document
        name: String,
        #[command(flatten)]
        undo: UndoTarget,
    },
}

/// Revisions of the policy of a node or of a service.
#[derive(Debug, Subcommand)]
pub enum PolicyRevisionCommand {
    /// Shows the revisions of the policy, newest first, one of them, or the changes between two
    Policyrevisions {
        /// Owner of the policy
        name: String,
        #[command(flatten)]
        chosen: ChosenRevisions,
    },
    /// Writes the policy of an earlier revision again, with the checks and questions of every write
    Undopolicy {
        /// Owner of the policy
        name: String,
        #[command(flatten)]
        undo: UndoTarget,
    },
}

/// Selection of revisions.
#[derive(Debug, Args)]
pub struct ChosenRevisions {
    /// Maximum number of revisions
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..))]
    limit: i64,
    /// Show the document of this revision
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    show: Option<i64>,
    /// Show the changes from one revision to another
    #[arg(
        long, num_args = 2, value_names = ["FROM", "TO"], conflicts_with = "show",
        value_parser = clap::value_parser!(i64).range(1..)
    )]
    diff: Vec<i64>,
}

/// The revision to write again.
#[derive(Debug, Args)]
pub struct UndoTarget {
    /// Number of the revision whose document is written
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    to: i64,
    #[command(flatten)]
    force: ForceOfFile,
}

/// A document with revisions, as the commands name it.
#[derive(Debug, Clone)]
pub enum Revised<'a> {
    /// A resource by its name.
    Resource(&'a Kind, &'a str),
    /// The policy of a service.
    ServicePolicy(&'a str),
    /// The policy of a node.
    NodePolicy(&'a str),
    /// The orchestration settings of a node.
    NodeSettings(&'a str),
    /// The settings of the organization.
    OrgSettings,
}

/// Runs a command for the revisions of a resource.
///
/// # Errors
/// Those of [`show`] and [`undo`].
pub async fn run(command: RevisionCommand, kind: &Kind, context: &Context, exchange: &Exchange) -> Outcome {
    match command {
        RevisionCommand::Revisions { name, chosen } => {
            show(Revised::Resource(kind, &name), &chosen, context, exchange).await
        }
        RevisionCommand::Undo { name, undo: wanted } => {
            kind.check_name(&name)?;
            undo(Revised::Resource(kind, &name), &wanted, context, exchange).await
        }
    }
}

/// Owner of a policy that is a document of its own.
#[derive(Debug, Clone, Copy)]
pub enum PolicyOwner {
    /// A node.
    Node,
    /// A service.
    Service,
}

impl PolicyOwner {
    fn policy(self, name: &str) -> Revised<'_> {
        match self {
            Self::Node => Revised::NodePolicy(name),
            Self::Service => Revised::ServicePolicy(name),
        }
    }
}

/// Runs a command for the revisions of a policy.
///
/// # Errors
/// Those of [`show`] and [`undo`].
pub async fn run_for_policy(
    command: PolicyRevisionCommand,
    owner: PolicyOwner,
    context: &Context,
    exchange: &Exchange,
) -> Outcome {
    match command {
        PolicyRevisionCommand::Policyrevisions { name, chosen } => {
            show(owner.policy(&name), &chosen, context, exchange).await
        }
        PolicyRevisionCommand::Undopolicy { name, undo: wanted } => {
            undo(owner.policy(&name), &wanted, context, exchange).await
        }
    }
}

/// Shows revisions, one with its document, or the changes between two.
///
/// # Errors
/// With status 8 when the document or a revision does not exist.
pub async fn show(
    revised: Revised<'_>,
    chosen: &ChosenRevisions,
    context: &Context,
    exchange: &Exchange,
) -> Outcome {
    let view = match (chosen.show, &chosen.diff[..]) {
        (Some(number), _) => View::of(json!(revised.read(exchange, number, None).await?)),
        (None, [from, to]) => {
            let (before, after) =
                (revised.read(exchange, *from, None).await?, revised.read(exchange, *to, Some(*from)).await?);
            compared(&before, &after)
        }
        (None, _) => {
            let found: Vec<Value> =
                revised.list(exchange, chosen.limit).await?.iter().map(|one| json!(one)).collect();
            let table = Table::of_list(&found, COLUMNS);
            View::new(Value::Array(found), table)
        }
    };
    context.screen.show(&view)
}

/// Writes the document of an earlier revision again.
///
/// # Errors
/// With status 1 for the revision of a removal, and when somebody else has written the document meanwhile; 8 when it or the revision does not exist;
/// those of the write.
pub async fn undo(
    revised: Revised<'_>,
    wanted: &UndoTarget,
    context: &Context,
    exchange: &Exchange,
) -> Outcome {
    let what = revised.what(exchange);
    let newest = revised.newest(exchange).await?;
    let found = revised.read(exchange, wanted.to, None).await?;
    if found.document.is_null() {
        return Err(CliError::input(
            format!("{what} was not written"),
            format!("revision {} is the removal of it", wanted.to),
            "choose the revision before it",
        ));
    }
    print_note(format!(
        "{what} is at revision {}; this writes revision {} again",
        newest.revision, wanted.to
    ));
    let writes = revised.writes(exchange, &found.document).await?;
    if !confirm_stops(context, exchange, &writes, wanted.force.confirmation()).await? {
        return Ok(());
    }
    let now = revised.newest(exchange).await?;
    if now.revision != newest.revision {
        return Err(CliError::input(
            format!("{what} was not written"),
            format!("{} has written revision {} meanwhile", now.author, now.revision),
            "read that revision, and try again",
        ));
    }
    revised.write(context, exchange, found.document).await
}

impl Revised<'_> {
    fn document(&self, exchange: &Exchange) -> DocumentPath {
        match self {
            Self::Resource(kind, name) => {
                let (org, id) = exchange.split(name);
                DocumentPath::Record(kind.resource, org, id)
            }
            Self::ServicePolicy(service) => {
                let (org, id) = exchange.split(service);
                DocumentPath::ServicePolicy(org, id)
            }
            Self::NodePolicy(node) => DocumentPath::NodePolicy(exchange.node_id(node)),
            Self::NodeSettings(node) => DocumentPath::NodeSettings(exchange.node_id(node)),
            Self::OrgSettings => DocumentPath::OrgSettings(exchange.org.clone()),
        }
    }

    fn what(&self, exchange: &Exchange) -> String {
        let named = |name: &str| {
            let (org, id) = exchange.split(name);
            format!("{org}/{id}")
        };
        match self {
            Self::Resource(kind, name) => format!("{} {}", kind.noun, named(name)),
            Self::ServicePolicy(service) => format!("the policy of service {}", named(service)),
            Self::NodePolicy(node) => format!("the policy of node {}", named(node)),
            Self::NodeSettings(node) => format!("the orchestration settings of node {}", named(node)),
            Self::OrgSettings => format!("the settings of organization {}", exchange.org),
        }
    }

    fn missing(&self, exchange: &Exchange) -> CliError {
        match self {
            Self::Resource(kind, name) => kind.missing(name),
            Self::ServicePolicy(service) => SERVICES.missing(service),
            Self::NodePolicy(node) | Self::NodeSettings(node) => NODES.missing(node),
            Self::OrgSettings => CliError::not_found("organization", &exchange.org, "hzn exchange org list"),
        }
    }

    /// Lists the newest revisions, page by page.
    async fn list(&self, exchange: &Exchange, limit: i64) -> Outcome<Vec<Revision>> {
        let doing = format!("reading the revisions of {}", self.what(exchange));
        let document = self.document(exchange);
        let mut found = Vec::new();
        let mut after = None;
        while (found.len() as i64) < limit {
            let query = RevisionsQuery { after, limit: Some(PAGE.min(limit - found.len() as i64)) };
            let page = exchange.server.client.revisions(&document, &query);
            let page = exchange.server.call(&doing, page).await?.ok_or_else(|| self.missing(exchange))?;
            found.extend(page.revisions);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(found)
    }

    /// Returns the newest revision.
    async fn newest(&self, exchange: &Exchange) -> Outcome<Revision> {
        let what = self.what(exchange);
        self.list(exchange, 1).await?.pop().ok_or_else(|| {
            CliError::input(
                format!("{what} was not written"),
                "it has no revisions: nobody has changed it since the hub keeps them",
                "write it with the command that replaces it",
            )
        })
    }

    async fn read(&self, exchange: &Exchange, number: i64, from: Option<i64>) -> Outcome<RevisionResponse> {
        let what = self.what(exchange);
        let document = self.document(exchange);
        let query = RevisionQuery { from };
        let found = exchange.server.client.revision(&document, number, &query);
        let found = exchange.server.call(&format!("reading revision {number} of {what}"), found).await?;
        found.ok_or_else(|| {
            CliError::not_found("revision", &format!("{number} of {what}"), "the subcommand `revisions`")
        })
    }

    /// Returns the writes by which instances may stop.
    async fn writes(&self, exchange: &Exchange, document: &Value) -> Outcome<Vec<Write>> {
        Ok(match self {
            Self::Resource(kind, name) if kind.resource == GROUPS.resource => {
                let members = document["members"].as_array().into_iter().flatten();
                let members: Vec<String> = members.filter_map(Value::as_str).map(str::to_owned).collect();
                vec![Write::members(exchange, name, members)]
            }
            Self::Resource(kind, name) if kind.resource == evenkeel_client::Resource::DeploymentPolicy => {
                vec![Write::policy(name, document)]
            }
            Self::NodePolicy(node) => vec![Write::node_policy(&exchange.node_id(node), Some(document))],
            Self::OrgSettings => {
                vec![Write::settings(exchange, &orch_settings::changed(exchange, document).await?)]
            }
            Self::Resource(..) | Self::ServicePolicy(_) | Self::NodeSettings(_) => Vec::new(),
        })
    }

    /// Writes a document as the command for its kind does.
    async fn write(&self, context: &Context, exchange: &Exchange, document: Value) -> Outcome {
        match self {
            Self::Resource(kind, name) if kind.resource == SERVICES.resource => {
                publish::store(exchange, name, &document, true).await.map(drop)
            }
            Self::Resource(kind, name) => {
                let exists = if kind.resource == GROUPS.resource {
                    StatusCode::CONFLICT
                } else {
                    StatusCode::FORBIDDEN
                };
                kind.put(exchange, name, &document, exists).await
            }
            Self::ServicePolicy(service) => service::put_policy(exchange, service, document).await,
            Self::NodePolicy(node) => node_part::put_policy(exchange, node, document).await,
            Self::NodeSettings(_) => self.put(exchange, &document).await,
            Self::OrgSettings => {
                let is_confirmed = orch_settings::confirm_change(
                    &orch_settings::changed(exchange, &document).await?,
                    context.is_dry_run,
                )?;
                if is_confirmed { self.put(exchange, &document).await } else { Ok(()) }
            }
        }
    }

    async fn put(&self, exchange: &Exchange, document: &Value) -> Outcome {
        let what = self.what(exchange);
        let (server, target) = (&exchange.server, self.document(exchange));
        server.call(&format!("writing {what}"), server.client.put_document(&target, document)).await?;
        server.report_done(&format!("{what} is written"));
        Ok(())
    }
}

fn compared(before: &RevisionResponse, after: &RevisionResponse) -> View {
    let empty = |document: &Value| match document {
        Value::Null => Value::Object(Map::new()),
        document => document.clone(),
    };
    let found = changes(&empty(&before.document), &empty(&after.document));
    let mut table = Table::new(&["member", "before", "after"]).keeping(&["before", "after"]);
    for Change { path, from, to } in &found {
        table.push([path.clone(), from.to_string(), to.to_string()]);
    }
    let json = json!({
        "from": before.about, "to": after.about,
        "changes": found.iter().map(Change::json).collect::<Vec<Value>>(), "patch": after.patch,
    });
    View::new(json, table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(number: i64, document: Value) -> RevisionResponse {
        let about = Revision {
            revision: number,
            time: "t".to_owned(),
            author: "o/u".to_owned(),
            reason: String::new(),
            operation: "update".to_owned(),
            bytes: 1,
        };
        RevisionResponse { about, document, patch: None }
    }

    #[test]
    fn changed_members_of_two_revisions_are_rows() {
        let (one, two) = (
            revision(1, json!({"label": "a", "service": {"name": "s"}})),
            revision(2, json!({"label": "b", "service": {"name": "s"}})),
        );
        let view = compared(&one, &two);
        assert_eq!(view.table.rows, [["label", "\"a\"", "\"b\""]]);
        assert_eq!(view.json["to"]["revision"], 2);
        let removed = compared(&two, &revision(3, Value::Null));
        assert_eq!(removed.table.rows.len(), 2, "{:?}", removed.table.rows);
    }
}
