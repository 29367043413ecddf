//! `hzn apply`: makes services, HA groups and policies of an organization match documents, and reports the
//! changes.

mod approval;
mod document;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use evenkeel_domain::orchestration::{HaGroupOrchestration, Orchestration};
use evenkeel_wire::exchange::shared::default_node_health;
use serde::Deserialize;
use serde_json::{Value, json};

use self::approval::Approval;
use self::document::{Document, DocumentKind};
use crate::context::{Context, Exchange, ReasonOption, UserOptions};
use crate::diff::{Change, SETTINGS, changes};
use crate::exchange::ha_group_edit::require_node;
use crate::exchange::publish;
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, warn};
use crate::plan::CheckToken;
use crate::resource::Kind;
use crate::resource::deployment::without;
use crate::resource::kinds::{GROUPS, NMPS, POLICIES, SERVICES};
use crate::shape::{check_service, complete_policy, require_constraints, require_members};
use crate::signer::{normalize_overrides, sign_policy};
use crate::stops::{ForceOfFile, Write, confirm_stops};
use crate::text_file::shown;
use crate::wait::update::RollbackReasons;
use crate::wait::{self, Wait};

/// Options of `apply`.
#[derive(Debug, Args)]
pub struct ApplyArguments {
    #[command(flatten)]
    user: UserOptions,
    #[command(flatten)]
    reason: ReasonOption,
    /// YAML or JSON file with documents, a directory of such files, - for standard input; a document has kind (service,
    /// hagroup, policy or nmp), name and spec, in the format that the command for that kind reads
    #[arg(short = 'f', long = "file", value_name = "FILE|DIR")]
    file: PathBuf,
    /// Remove resources of these kinds that have this label (an HA group: this description) and that no document names
    #[arg(long, value_name = "LABEL")]
    prune: Option<String>,
    /// Allow --prune to remove everything with the label when there are no documents
    #[arg(long, requires = "prune")]
    allow_empty: bool,
    /// Confirm that policies without constraints are meant for every node
    #[arg(long)]
    no_constraints: bool,
    #[command(flatten)]
    token: CheckToken,
    #[command(flatten)]
    force: ForceOfFile,
    #[command(flatten)]
    wait: Wait,
}

/// Action on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Create,
    Update,
    Keep,
    Remove,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Keep => "unchanged",
            Self::Remove => "remove",
        }
    }

    /// The word for a failure.
    fn doing(self) -> &'static str {
        match self {
            Self::Create => "creating",
            Self::Update => "updating",
            Self::Keep => "keeping",
            Self::Remove => "removing",
        }
    }
}

/// One resource with what is done to it.
struct Step {
    kind: DocumentKind,
    /// `org/name`.
    name: String,
    action: Action,
    changes: Vec<Change>,
    /// Desired contents.
    wanted: Value,
}

impl Step {
    /// The members of an HA group, if they change.
    fn members(&self) -> Option<Vec<String>> {
        let change = self.changes.iter().find(|change| change.path == "members")?;
        let members = change.to.as_array().into_iter().flatten();
        Some(members.filter_map(Value::as_str).map(str::to_owned).collect())
    }
}

/// Applies documents.
///
/// # Errors
/// With status 1, 3 or 4 for documents that cannot be used, 5 when the exchange refuses one, 11 to 13 with `--wait`, 14 when some wait for the
/// approval of a second person.
pub async fn run(arguments: &ApplyArguments, context: &Context) -> Outcome {
    let exchange = context.exchange(&arguments.user, None)?.with_reason(&arguments.reason)?;
    let documents = document::read(&arguments.file, context)?;
    check_pruning(arguments, documents.len())?;
    let mut steps = Vec::new();
    for document in documents {
        steps.push(plan(document, arguments, &exchange).await?);
    }
    if let Some(label) = &arguments.prune {
        let removed = surplus(label, &steps, &exchange).await?;
        steps.extend(removed);
    }
    check_token(&arguments.token, &steps, context, &exchange).await?;
    let reason = arguments.reason.text();
    let mut approvals = approval::find(&steps, &exchange).await?;
    approval::require_reason(&approvals, reason)?;
    let writes = writes(&steps, &approvals, context, &exchange)?;
    if !confirm_stops(context, &exchange, &writes, arguments.force.confirmation()).await? {
        return Ok(());
    }
    for (position, step) in steps.iter().enumerate() {
        match approvals.remove(&position) {
            None => carry_out(step, context, &exchange).await?,
            Some(found) => {
                let document = signed(step, context)?;
                let used = (context, &exchange);
                let reached = approval::carry_out((step, document), found, reason, used).await?;
                approvals.insert(position, reached);
            }
        }
    }
    context.screen.show(&view(&steps, &approvals))?;
    approval::require_approved(&approvals, &shown(&arguments.file))?;
    let changed = |step: &&Step| matches!(step.action, Action::Create | Action::Update);
    for step in steps.iter().filter(changed).filter(|step| step.kind == DocumentKind::Policy) {
        let reasons = RollbackReasons::default();
        let wanted = async || {
            let policy = wait::policy::WantedPolicy::read(&exchange, &step.name).await?;
            policy.progress(context, &exchange, &reasons).await
        };
        arguments.wait.follow(context, &format!("deployment policy {}", step.name), wanted).await?;
    }
    Ok(())
}

/// Rejects a removal that is probably unintended.
fn check_pruning(arguments: &ApplyArguments, documents: usize) -> Outcome {
    let ApplyArguments { prune, allow_empty, .. } = arguments;
    let refuse = |why: String, advice: &str| Err(CliError::input("nothing was applied", why, advice));
    if prune.as_deref().is_some_and(str::is_empty) {
        let why = "--prune has an empty label, and resources of others have none either".to_owned();
        return refuse(why, "give your documents a label of their own");
    }
    if documents > 0 {
        return Ok(());
    }
    let source = shown(&arguments.file);
    match prune {
        Some(label) if !allow_empty => refuse(
            format!("{source} holds no document, and --prune would remove everything with the label {label}"),
            "check the path, or give --allow-empty if that is intended",
        ),
        Some(_) => Ok(()),
        None => {
            warn(format!("{source} holds no document"));
            Ok(())
        }
    }
}

/// A token belongs to one plan, and a plan to one policy.
async fn check_token(token: &CheckToken, steps: &[Step], context: &Context, exchange: &Exchange) -> Outcome {
    if !token.is_given() {
        return Ok(());
    }
    let is_written = |step: &&Step| step.kind == DocumentKind::Policy && step.action != Action::Remove;
    let policies: Vec<&Step> = steps.iter().filter(is_written).collect();
    let [policy] = policies[..] else {
        return Err(CliError::input(
            "nothing was applied",
            format!(
                "--check-token is the token of one deployment policy, and the documents hold {}",
                policies.len()
            ),
            "apply the policy from a file of its own",
        ));
    };
    token.check(context, exchange, &policy.name, "hzn plan", async || signed(policy, context)).await
}

/// Returns the writes by which instances may stop; not those that wait for an approval.
fn writes(
    steps: &[Step],
    approvals: &BTreeMap<usize, Approval>,
    context: &Context,
    exchange: &Exchange,
) -> Outcome<Vec<Write>> {
    let mut found = Vec::new();
    let is_waiting = |position: &usize| approvals.get(position).is_some_and(Approval::is_waiting);
    for (_, step) in steps.iter().enumerate().filter(|(position, _)| !is_waiting(position)) {
        found.extend(match (step.kind, step.action) {
            (DocumentKind::Policy, Action::Update) => {
                Some(Write::policy(&step.name, &signed(step, context)?))
            }
            (DocumentKind::Policy, Action::Remove) => Some(Write::policy_removal(&step.name)),
            (DocumentKind::HaGroup, Action::Remove) => Some(Write::group_removal(exchange, &step.name)),
            (DocumentKind::HaGroup, Action::Update) => {
                step.members().map(|members| Write::members(exchange, &step.name, members))
            }
            _ => None,
        });
    }
    Ok(found)
}

fn kind_of(kind: DocumentKind) -> Kind {
    match kind {
        DocumentKind::Service => SERVICES,
        DocumentKind::HaGroup => GROUPS,
        DocumentKind::Policy => POLICIES,
        DocumentKind::Nmp => NMPS,
    }
}

/// Compares a document with what is stored.
async fn plan(document: Document, arguments: &ApplyArguments, exchange: &Exchange) -> Outcome<Step> {
    let kind = document.kind;
    let (name, mut wanted) = wanted(document, arguments, exchange)?;
    let stored = kind_of(kind).find(exchange, &name).await?;
    // A client that does not know these settings does not remove them; a document without them does.
    if let Some((_, stored)) = &stored
        && stored.as_value().get(SETTINGS).is_some_and(|settings| !settings.is_null())
        && wanted.get(SETTINGS).is_none()
    {
        wanted[SETTINGS] = Value::Null;
    }
    if kind == DocumentKind::HaGroup {
        complete_group(&mut wanted);
    }
    let changes = stored.as_ref().map(|(_, stored)| changes(stored.as_value(), &shown_as(kind, &wanted)));
    let changes = changes.unwrap_or_default();
    let action = match &stored {
        None => Action::Create,
        Some(_) if changes.is_empty() => Action::Keep,
        Some(_) => Action::Update,
    };
    if kind == DocumentKind::HaGroup {
        let stored = stored.as_ref().map(|(_, stored)| stored.as_value());
        require_new_members(&name, (stored, &wanted), exchange).await?;
    }
    Ok(Step { kind, name, action, changes, wanted })
}

/// Fails when a node to be added to a group does not exist: the exchange only responds that the caller may not change it.
async fn require_new_members(
    name: &str,
    (stored, wanted): (Option<&Value>, &Value),
    exchange: &Exchange,
) -> Outcome {
    let org = exchange.split(name).0;
    for node in new_members(stored, wanted) {
        require_node(exchange, &org, node).await?;
    }
    Ok(())
}

fn new_members<'a>(stored: Option<&Value>, wanted: &'a Value) -> impl Iterator<Item = &'a str> {
    let listed = stored.and_then(|stored| stored.get("members")?.as_array());
    let present: BTreeSet<String> =
        listed.into_iter().flatten().filter_map(|member| Some(member.as_str()?.to_owned())).collect();
    let members = wanted.get("members").and_then(Value::as_array).into_iter().flatten();
    members.filter_map(Value::as_str).filter(move |member| !present.contains(*member))
}

/// Fills in what a document leaves out, because a write without these members keeps their current values.
fn complete_group(wanted: &mut Value) {
    for (member, empty) in [("description", json!("")), ("members", json!([]))] {
        if wanted.get(member).is_none_or(Value::is_null) {
            wanted[member] = empty;
        }
    }
}

/// Returns the name and the specification of the resource that a document describes.
fn wanted(document: Document, arguments: &ApplyArguments, exchange: &Exchange) -> Outcome<(String, Value)> {
    let Document { kind, name, mut spec, directory } = document;
    let (org, id) = exchange.split(&name);
    let full = format!("{org}/{id}");
    match kind {
        DocumentKind::Service => {
            let service = publish::body_of(spec.document, &exchange.org, &directory)?;
            let id = publish::id_of(&service, &exchange.org);
            let service = Value::Object(service);
            check_service(&id, &service)?;
            return Ok((id, service));
        }
        DocumentKind::HaGroup => {
            require_members(&format!("HA group {full}"), &spec)?;
            without(&mut spec.document, &["name"]);
        }
        DocumentKind::Policy => {
            complete_policy(&name, &mut spec.document)?;
            require_constraints(&format!("deployment policy {full}"), &spec, arguments.no_constraints)?;
            // Signed when it is sent: each signature of the same text differs, and a new one is not a change.
            normalize_overrides(&mut spec.document);
        }
        DocumentKind::Nmp => {
            require_constraints(&format!("management policy {full}"), &spec, arguments.no_constraints)?;
        }
    }
    kind_of(kind).check(exchange, &name, &spec.document)?;
    Ok((full, spec.document))
}

/// Returns a document as the exchange shows it: with the defaults that it fills in.
fn shown_as(kind: DocumentKind, wanted: &Value) -> Value {
    let mut shown = wanted.clone();
    let label = shown.get("label").cloned().unwrap_or_default();
    let fill_in = |at: &mut Value, name: &str, default: Value| {
        if at.is_object() && at.get(name).is_none_or(Value::is_null) {
            at[name] = default;
        }
    };
    match kind {
        DocumentKind::Policy => {
            fill_in(&mut shown, "description", label);
            if let Some(service) = shown.get_mut("service") {
                fill_in(service, "nodeHealth", Value::Object(default_node_health()));
            }
        }
        DocumentKind::Nmp => {
            fill_in(&mut shown, "description", label);
            fill_in(&mut shown, "start", Value::from("now"));
        }
        DocumentKind::Service | DocumentKind::HaGroup => {}
    }
    let settings = shown.get(SETTINGS).filter(|settings| !settings.is_null()).cloned();
    let Some(settings) = settings else { return shown };
    if kind == DocumentKind::HaGroup {
        if let Ok(read) = serde_json::from_value::<HaGroupOrchestration>(settings) {
            shown[SETTINGS] = json!(read);
        }
    } else if let Ok(Orchestration { health_policy: Some(policy), .. }) = serde_json::from_value(settings) {
        shown[SETTINGS]["healthPolicy"] = json!(policy);
    }
    shown
}

/// Returns the resources with a label that no document names; those that others may refer to come last.
async fn surplus(label: &str, steps: &[Step], exchange: &Exchange) -> Outcome<Vec<Step>> {
    let named: BTreeSet<(DocumentKind, &str)> =
        steps.iter().map(|step| (step.kind, step.name.as_str())).collect();
    let mut found = Vec::new();
    for kind in DocumentKind::ALL.into_iter().rev() {
        for (name, document) in kind_of(kind).read(exchange, None).await? {
            let resource: Labeled = exchange.server.read(&format!("reading {name}"), &document)?;
            let has_label = resource.label_of(kind) == Some(label);
            // Lists also contain public resources of other organizations.
            let is_own = exchange.split(&name).0 == exchange.org;
            if has_label && is_own && !named.contains(&(kind, name.as_str())) {
                found.push(Step {
                    kind,
                    name,
                    action: Action::Remove,
                    changes: Vec::new(),
                    wanted: Value::Null,
                });
            }
        }
    }
    Ok(found)
}

/// Members by which surplus resources are found.
#[derive(Deserialize)]
struct Labeled {
    label: Option<String>,
    description: Option<String>,
}

impl Labeled {
    fn label_of(&self, kind: DocumentKind) -> Option<&str> {
        match kind {
            DocumentKind::HaGroup => self.description.as_deref(),
            DocumentKind::Service | DocumentKind::Policy | DocumentKind::Nmp => self.label.as_deref(),
        }
    }
}

async fn carry_out(step: &Step, context: &Context, exchange: &Exchange) -> Outcome {
    let (org, id) = exchange.split(&step.name);
    let kind = kind_of(step.kind);
    let doing = format!("{} {} {}", step.action.doing(), kind.noun, step.name);
    match step.action {
        Action::Keep => Ok(()),
        Action::Remove => {
            let removed = exchange.server.client.delete_record(kind.resource, &org, &id);
            exchange.server.call(&doing, removed).await.map(drop)
        }
        Action::Create | Action::Update if step.kind == DocumentKind::Service => {
            publish::publish_document(&step.wanted, context, exchange).await
        }
        Action::Create => kind.create(exchange, &step.name, &signed(step, context)?, &doing).await,
        Action::Update => kind.replace(exchange, &step.name, &signed(step, context)?, &doing).await,
    }
}

/// Returns the specification of a resource, with signatures.
fn signed(step: &Step, context: &Context) -> Outcome<Value> {
    let mut document = step.wanted.clone();
    if step.kind == DocumentKind::Policy {
        sign_policy(&mut document, context)?;
    }
    Ok(document)
}

fn view(steps: &[Step], approvals: &BTreeMap<usize, Approval>) -> View {
    let columns = ["kind", "name", "action", "approval", "changes"];
    let columns = columns.into_iter().filter(|column| *column != "approval" || !approvals.is_empty());
    let mut table = Table::new(&columns.collect::<Vec<_>>()).keeping(&["name", "action"]);
    let shown = steps.iter().enumerate().map(|(position, step)| {
        let approval = approvals.get(&position);
        let changes: Vec<String> = step.changes.iter().map(Change::text).collect();
        let mut row = vec![step.kind.word().to_owned(), step.name.clone(), step.action.word().to_owned()];
        if !approvals.is_empty() {
            row.push(approval.map(Approval::text).unwrap_or_default());
        }
        row.push(changes.join("; "));
        table.rows.push(row);
        let mut shown = json!({"kind": step.kind.word(), "name": step.name, "action": step.action.word(),
                               "changes": step.changes.iter().map(Change::json).collect::<Vec<Value>>()});
        if let Some(approval) = approval {
            shown["approval"] = approval.json();
        }
        shown
    });
    let json = Value::Array(shown.collect());
    View::new(json, table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_that_a_group_gains_are_looked_up() {
        let wanted = json!({"members": ["n1", "n2"]});
        let gained = |stored: Option<&Value>| new_members(stored, &wanted).collect::<Vec<&str>>();
        assert_eq!(gained(None), ["n1", "n2"]);
        assert_eq!(gained(Some(&json!({"members": ["n1"]}))), ["n2"]);
    }

    #[test]
    fn members_that_a_group_lacks_are_removed() {
        let mut wanted = json!({"description": null});
        complete_group(&mut wanted);
        assert_eq!(wanted, json!({"description": "", "members": []}));
        let stored = json!({"name": "g", "description": "", "members": ["n1"], "admin": true});
        let found: Vec<String> = changes(&stored, &wanted).iter().map(Change::text).collect();
        assert_eq!(found, ["members: [\"n1\"] -> []"]);
        let mut given = json!({"description": "d", "members": ["n1"]});
        complete_group(&mut given);
        assert_eq!(given, json!({"description": "d", "members": ["n1"]}));
    }
}
