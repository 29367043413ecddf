//! Changes of HA groups: create, replace, add and remove members (agbot 5.4).

use evenkeel_client::{ClientError, Written};
use evenkeel_domain::orchestration::HaGroupOrchestration;
use evenkeel_wire::exchange::ha_group::PutHaGroup;
use evenkeel_wire::exchange::node::NodeResponse;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::ha_group::{GroupArguments, MemberArguments};
use super::node::read_node;
use super::orch::edit::apply_all;
use crate::confirm::confirm;
use crate::context::{Context, Exchange};
use crate::exit::{CliError, Outcome};
use crate::input::{read_shaped, typed};
use crate::output::print_note;
use crate::resource::ha_group::members;
use crate::resource::kinds::GROUPS;
use crate::shape::{HaGroupFile, require_members};
use crate::stops::{Write, show_stops};

/// A group as the user gives it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Group {
    name: String,
    description: Option<String>,
    members: Option<Vec<String>>,
    orchestration: Option<HaGroupOrchestration>,
    #[serde(skip)]
    is_from_file: bool,
}

impl Group {
    /// Takes the group from the arguments or from the file that they name.
    ///
    /// # Errors
    /// With status 1 when the name is missing, or no member of the group is given; 3 or 4 for an unusable
    /// file.
    pub fn read(arguments: &GroupArguments, context: &Context) -> Outcome<Self> {
        let refuse = |why: &str, advice: &str| CliError::input("the HA group was not changed", why, advice);
        let mut group = match &arguments.file {
            Some(file) => {
                let shaped = read_shaped::<HaGroupFile>(file, context)?;
                require_members("the HA group", &shaped)?;
                Self { is_from_file: true, ..typed(file, &shaped)? }
            }
            None => Self {
                description: arguments.description.clone(),
                members: (!arguments.nodes.is_empty()).then(|| arguments.nodes.clone()),
                ..Self::default()
            },
        };
        if let Some(name) = &arguments.name {
            group.name.clone_from(name);
        }
        if group.name.is_empty() {
            return Err(refuse("no name is given", "give the name of the group as the first argument"));
        }
        if !group.is_from_file && group.members.is_none() && group.description.is_none() {
            return Err(refuse(
                "neither members nor a file are given",
                "give --nodeId NODE for each member, or -f FILE",
            ));
        }
        if group.is_from_file && group.description.as_deref().is_none_or(str::is_empty) {
            return Err(refuse(
                "the file has no description",
                "describe the purpose of the group in the member description",
            ));
        }
        Ok(group)
    }

    /// Name of the group.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the write of its members; none when they do not change.
    pub fn write(&self, exchange: &Exchange) -> Option<Write> {
        let members = self.members.clone()?;
        Some(Write::members(exchange, &self.name, members))
    }

    fn body(&self, org: &str) -> PutHaGroup {
        let prefix = format!("{org}/");
        let bare = |member: &String| member.strip_prefix(&prefix).unwrap_or(member).to_owned();
        PutHaGroup {
            description: self.description.clone(),
            members: self.members.as_ref().map(|members| members.iter().map(bare).collect()),
            orchestration: self.orchestration.clone().map(Some),
        }
    }
}

/// Creates a group; `replaces`: true if an existing one is replaced.
///
/// # Errors
/// With status 8 for a node that does not exist, 1 for one that cannot be a member, 5 when the exchange refuses.
pub async fn create(group: &Group, exchange: &Exchange, replaces: bool) -> Outcome {
    let (org, id) = exchange.split(&group.name);
    for node in group.members.iter().flatten() {
        require_node(exchange, &org, node).await?;
    }
    let body = group.body(&org);
    let server = &exchange.server;
    let refused = |error: &ClientError| {
        let refused = server.failed(&format!("creating HA group {org}/{id}"), error);
        if error.status() != Some(409) {
            return refused;
        }
        refused.with_advice(format!(
            "list the groups with: hzn exchange hagroup list -l; change a group with: hzn exchange hagroup update {id}; \
             free a node with: hzn exchange hagroup member remove"
        ))
    };
    if !replaces {
        server.client.create_ha_group(&org, &id, &body).await.map_err(|error| refused(&error))?;
        server.report_done(&format!("HA group {org}/{id} is created"));
        return Ok(());
    }
    // The status means either that the group exists or that a member has another group; replacing
    // distinguishes the two.
    let written =
        server.client.create_or_replace_record(GROUPS.resource, (&org, &id), &body, StatusCode::CONFLICT);
    match written.await {
        Ok(Written::Created) => server.report_done(&format!("HA group {org}/{id} is created")),
        Ok(Written::Replaced) => server.report_done(&format!("HA group {org}/{id} is replaced")),
        Err(refusal) if refusal.attempt == Written::Replaced => {
            return Err(server.failed(&format!("replacing HA group {org}/{id}"), &refusal.error));
        }
        Err(refusal) if refusal.error.status() == Some(409) => {
            return Err(CliError { exit: crate::exit::Exit::Input, ..refused(&refusal.error) });
        }
        Err(refusal) => return Err(refused(&refusal.error)),
    }
    Ok(())
}

/// Replaces the given parts of a group.
///
/// # Errors
/// See [`create`]; with status 8 when the group does not exist.
pub async fn update(group: &Group, exchange: &Exchange) -> Outcome {
    let (org, id) = exchange.split(&group.name);
    for node in group.members.iter().flatten() {
        require_node(exchange, &org, node).await?;
    }
    let doing = format!("updating HA group {org}/{id}");
    match exchange.server.client.put_ha_group(&org, &id, &group.body(&org)).await {
        Ok(_) => {
            exchange.server.report_done(&format!("HA group {org}/{id} is updated"));
            Ok(())
        }
        Err(error) if error.is_not_found() => Err(GROUPS.missing(&group.name)),
        Err(error) => Err(exchange.server.failed(&doing, &error)),
    }
}

/// Changes members of the group's `orchestration`.
///
/// # Errors
/// With status 1 for a change that cannot be read or breaks a rule, 8 when the group does not exist.
pub async fn set(exchange: &Exchange, name: &str, changes: &[String]) -> Outcome {
    let (org, id) = exchange.split(name);
    let found = GROUPS.read_one(exchange, name).await?.into_value();
    let mut document = found.get("orchestration").cloned().unwrap_or_else(|| json!({}));
    if !apply_all(&mut document, changes)? {
        return Ok(());
    }
    let orchestration = HaGroupOrchestration::try_from(document).map_err(|error| {
        CliError::input(
            format!("HA group {org}/{id} was not changed"),
            error.to_string(),
            "the members are exclusiveDisruption, maxUnavailable, lockStaleSeconds and healthPolicy",
        )
    })?;
    let body = PutHaGroup { orchestration: Some(Some(orchestration)), ..PutHaGroup::default() };
    let doing = format!("changing HA group {org}/{id}");
    exchange.server.call(&doing, exchange.server.client.put_ha_group(&org, &id, &body)).await?;
    exchange.server.report_done(&format!("HA group {org}/{id} is changed"));
    Ok(())
}

/// Adds members; those that are in another group are named at the end.
///
/// # Errors
/// With status 8 when group or node do not exist, 1 when a node cannot be added.
pub async fn add_members(arguments: &MemberArguments, exchange: &Exchange) -> Outcome {
    let (org, id) = exchange.split(&arguments.name);
    let present = members(exchange, &arguments.name).await?;
    let mut taken = Vec::new();
    for node in &arguments.nodes {
        let record = require_node(exchange, &org, node).await?;
        let node = exchange.split(node).1;
        if present.contains(&node) {
            print_note(format!("node {node} is a member of HA group {org}/{id} already"));
            continue;
        }
        if let Some(other) = record.ha_group.filter(|group| !group.is_empty()) {
            taken.push(format!("{node} is in {other}"));
            continue;
        }
        let doing = format!("adding node {node} to HA group {org}/{id}");
        exchange.server.call(&doing, exchange.server.client.add_to_ha_group(&org, &id, &node)).await?;
        exchange.server.report_done(&format!("node {node} is in HA group {org}/{id}"));
    }
    if taken.is_empty() {
        return Ok(());
    }
    Err(CliError::input(
        format!("not all nodes were added to HA group {org}/{id}"),
        format!("a node is in one group at most: {}", taken.join("; ")),
        "take them out of their group first: hzn exchange hagroup member remove",
    ))
}

/// Removes members.
///
/// # Errors
/// With status 8 when the group does not exist.
pub async fn remove_members(arguments: &MemberArguments, context: &Context, exchange: &Exchange) -> Outcome {
    let (org, id) = exchange.split(&arguments.name);
    let present = members(exchange, &arguments.name).await?;
    let leaves = |member: &String| arguments.nodes.iter().any(|node| exchange.split(node).1 == *member);
    let left = present.iter().filter(|member| !leaves(member)).cloned();
    show_stops(context, exchange, &[Write::members(exchange, &arguments.name, left)]).await;
    let question = format!("Remove {} from HA group {org}/{id}?", arguments.nodes.join(", "));
    if !confirm(&question, arguments.force || exchange.server.is_dry_run)? {
        print_note("nothing was removed");
        return Ok(());
    }
    for node in &arguments.nodes {
        let node = exchange.split(node).1;
        if !present.contains(&node) {
            print_note(format!("node {node} is not a member of HA group {org}/{id}"));
            continue;
        }
        let doing = format!("removing node {node} from HA group {org}/{id}");
        exchange.server.call(&doing, exchange.server.client.remove_from_ha_group(&org, &id, &node)).await?;
        exchange.server.report_done(&format!("node {node} is no longer in HA group {org}/{id}"));
    }
    Ok(())
}

/// Reads a node that shall be a member.
/// Returns a node that may be in an HA group of an organization.
///
/// # Errors
/// With status 8 when it does not exist, 1 when it cannot be a member.
pub async fn require_node(exchange: &Exchange, org: &str, node: &str) -> Outcome<NodeResponse> {
    let (node_org, id) = crate::context::split_name(node, org);
    let refuse = |why: String, advice: &str| {
        CliError::input(format!("node {node} cannot be in an HA group of {org}"), why, advice)
    };
    if node_org != org {
        return Err(refuse(
            format!("it belongs to organization {node_org}"),
            "name nodes of the group's organization",
        ));
    }
    let record = read_node(exchange, &format!("{org}/{id}")).await?;
    if record.node_type.eq_ignore_ascii_case("cluster") {
        return Err(refuse(
            "it is a cluster, which keeps its services available by itself".to_owned(),
            "name devices only",
        ));
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::output::Screen;

    fn context() -> Context {
        let screen = Screen { format: None };
        Context { screen, ..Context::default() }
    }

    fn arguments(name: Option<&str>, nodes: &[&str], file: Option<&std::path::Path>) -> GroupArguments {
        GroupArguments {
            name: name.map(str::to_owned),
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
            description: None,
            file: file.map(std::path::Path::to_owned),
            force: crate::stops::ForceOfFile::default(),
            wait: crate::wait::Wait::default(),
        }
    }

    #[test]
    fn members_are_sent_without_their_organization_and_absent_parts_not_at_all() {
        let group =
            Group::read(&arguments(Some("g"), &["acme/n1", "n2"], None), &context()).expect("a group");
        assert_eq!(json!(group.body("acme")), json!({"members": ["n1", "n2"]}));
    }

    #[test]
    fn file_gives_name_and_members_and_the_argument_wins() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("g.json");
        std::fs::write(&file, r#"{"name":"in-file","description":"d","members":["n1"]}"#).expect("a file");
        let read = |name| Group::read(&arguments(name, &[], Some(&file)), &context()).expect("a group");
        assert_eq!(read(None).name, "in-file");
        assert_eq!(read(Some("mine")).name, "mine");
        assert_eq!(json!(read(None).body("o")), json!({"description": "d", "members": ["n1"]}));
    }

    #[test]
    fn what_is_missing_is_refused() {
        let exit =
            |arguments: GroupArguments| Group::read(&arguments, &context()).map_err(|error| error.exit);
        assert_eq!(exit(arguments(None, &["n1"], None)), Err(Exit::Input));
        assert_eq!(exit(arguments(Some("g"), &[], None)), Err(Exit::Input));
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("g.json");
        std::fs::write(&file, r#"{"name":"g","description":"","members":["n1"]}"#).expect("a file");
        assert_eq!(exit(arguments(None, &[], Some(&file))), Err(Exit::Input));
    }
}
