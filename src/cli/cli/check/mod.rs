//! `hzn deploycheck` and `hzn explain`: would this node, or each member of this HA group, get the service of a deployment
//! policy, and why not (agbot 5.5, agreement protocol 3.7).
//!
//! The rules are those of the hub; what they need is read from the exchange with the caller's own credentials.

mod arguments;
mod definitions;
pub mod explain;
mod node_input;
mod placement;
mod verdict;

pub use arguments::CheckArguments;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use self::definitions::{Definitions, PolicyInput};
use self::node_input::NodeInput;
use self::verdict::{Verdict, evaluate};
use crate::context::{Context, Exchange};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, print_note};
use crate::resource::ha_group;

/// Scope of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Policies, user input and secrets.
    All,
    /// Policies only.
    Policy,
    /// User input only.
    UserInput,
    /// Secrets only.
    SecretBinding,
}

/// The nodes that are checked.
struct Subjects {
    nodes: Vec<NodeInput>,
    /// The HA group whose members they are.
    group: Option<String>,
    /// True if several nodes were named, so that the result is a map.
    is_map: bool,
}

/// Runs the check.
///
/// # Errors
/// With status 1 for arguments that exclude each other, 7 when the check cannot be made.
pub async fn run(arguments: CheckArguments, context: &Context) -> Outcome {
    arguments.validate()?;
    let exchange = context.exchange(&arguments.user, None)?;
    let policy = PolicyInput::read(&arguments, context, &exchange).await?;
    let definitions = Definitions::read(&arguments, context, &exchange, &policy.policy).await?;
    let subjects = subjects(&arguments, context, &exchange).await?;
    let mut verdicts = Vec::new();
    // All nodes are checked before anything is shown, because a partial result could be mistaken for the whole.
    for node in &subjects.nodes {
        verdicts.push(evaluate(arguments.scope(), arguments.check_all, node, &policy, &definitions)?);
    }
    report_left_out(&subjects, &verdicts, &policy);
    let inputs = arguments.long.then(|| subjects.nodes.iter().map(|node| input_of(node, &policy)).collect());
    context.screen.show(&view(&subjects, &verdicts, inputs))?;
    if arguments.exit_code { require_compatible(&subjects, &verdicts) } else { Ok(()) }
}

/// Fails when a node would not get the service.
fn require_compatible(subjects: &Subjects, verdicts: &[Verdict]) -> Outcome {
    let checked = subjects.nodes.iter().zip(verdicts);
    let left_out = checked.filter(|(_, verdict)| !verdict.is_compatible).map(|(node, _)| node.id.as_str());
    let left_out: Vec<&str> = left_out.collect();
    if left_out.is_empty() {
        return Ok(());
    }
    Err(CliError::new(
        crate::exit::Exit::No,
        "not every checked node is compatible",
        format!("incompatible: {}", left_out.join(", ")),
        "see the reasons in the output, or with: hzn explain NODE POLICY",
    ))
}

/// Names the members that will not get the service.
fn report_left_out(subjects: &Subjects, verdicts: &[Verdict], policy: &PolicyInput) {
    let Some(group) = &subjects.group else { return };
    for (node, verdict) in subjects.nodes.iter().zip(verdicts).filter(|(_, verdict)| !verdict.is_compatible) {
        let reasons: Vec<&str> = verdict
            .reasons
            .values()
            .map(String::as_str)
            .filter(|reason| *reason != verdict::COMPATIBLE)
            .collect();
        let service = &policy.policy.service.name;
        print_note(format!("{} of HA group {group} will not get {service}: {}", node.id, reasons.join("; ")));
    }
}

fn view(subjects: &Subjects, verdicts: &[Verdict], inputs: Option<Vec<Value>>) -> View {
    let mut table =
        Table::new(&["node", "service", "compatible", "why not"]).keeping(&["compatible", "why not"]);
    let mut map = Map::new();
    for (position, (node, verdict)) in subjects.nodes.iter().zip(verdicts).enumerate() {
        for (service, reason) in &verdict.reasons {
            let is_good = reason == verdict::COMPATIBLE;
            let why = if is_good { String::new() } else { reason.clone() };
            table.push([
                node.id.clone(),
                service.clone(),
                if is_good { "yes" } else { "no" }.to_owned(),
                why,
            ]);
        }
        let mut shown = json!({"compatible": verdict.is_compatible, "reason": verdict.reasons});
        if let Some(input) = inputs.as_ref().and_then(|inputs| inputs.get(position)) {
            shown["input"] = input.clone();
        }
        map.insert(node.id.clone(), shown);
    }
    if !subjects.is_map {
        let only = map.into_iter().next().map(|(_, shown)| shown);
        return View::new(only.unwrap_or_default(), table);
    }
    if subjects.group.is_some() {
        let is_all = verdicts.iter().all(|verdict| verdict.is_compatible);
        map.insert("allMembersCompatible".to_owned(), Value::Bool(is_all));
    }
    View::new(Value::Object(map), table)
}

fn input_of(node: &NodeInput, policy: &PolicyInput) -> Value {
    json!({
        "node_id": node.id,
        "node_arch": node.arch,
        "node_type": node.node_type,
        "node_policy": node.policy,
        "node_user_input": node.user_input,
        "ha_group": node.ha_group,
        "business_policy_id": policy.id,
        "business_policy": policy.policy,
    })
}

/// Finds the nodes: those named, the members of a group, one from files, that of the credentials, or that of this machine.
async fn subjects(arguments: &CheckArguments, context: &Context, exchange: &Exchange) -> Outcome<Subjects> {
    let of_org = |name: &str| {
        let org = arguments.node_org.as_deref().unwrap_or(&exchange.org);
        let (org, id) = crate::context::split_name(name, org);
        format!("{org}/{id}")
    };
    if let Some(group) = &arguments.ha_group {
        return members_of(&of_org(group), arguments, exchange).await;
    }
    if arguments.is_from_files() {
        let node = NodeInput::from_files(arguments, context)?;
        return Ok(Subjects { nodes: vec![node], group: None, is_map: false });
    }
    let mut nodes = Vec::new();
    for id in &arguments.node_ids {
        nodes.push(NodeInput::from_exchange(exchange, &of_org(id)).await?.with(arguments));
    }
    if nodes.is_empty() {
        let node = match context.node_credentials(None, &exchange.org)? {
            Some(node) => NodeInput::from_exchange(exchange, &node.name()).await?,
            None => NodeInput::from_agent(&context.agent()?).await?,
        };
        nodes.push(node.with(arguments));
    }
    if !arguments.check_ha {
        return Ok(Subjects { is_map: nodes.len() > 1, nodes, group: None });
    }
    let [node] = nodes.as_slice() else {
        let why = "several nodes are named";
        return Err(CliError::input(
            "no HA group was checked",
            why,
            "name one node of the group, or the group with --ha-group",
        ));
    };
    let group = node.ha_group.as_deref().filter(|group| !group.is_empty()).ok_or_else(|| {
        let what = format!("no HA group was checked for node {}", node.id);
        CliError::input(what, "the node is in no HA group", "name a group with --ha-group")
    })?;
    let org = crate::context::split_name(&node.id, &exchange.org).0;
    members_of(&format!("{org}/{group}"), arguments, exchange).await
}

async fn members_of(group: &str, arguments: &CheckArguments, exchange: &Exchange) -> Outcome<Subjects> {
    let members = ha_group::members(exchange, group).await.map_err(|error| CliError {
        exit: if error.exit == crate::exit::Exit::NotFound { crate::exit::Exit::Input } else { error.exit },
        ..error
    })?;
    if members.is_empty() {
        let what = format!("HA group {group} was not checked");
        return Err(CliError::input(
            what,
            "it has no members that these credentials may see",
            "add members first",
        ));
    }
    let org = crate::context::split_name(group, &exchange.org).0;
    let mut nodes = Vec::new();
    for member in members {
        nodes.push(NodeInput::from_exchange(exchange, &format!("{org}/{member}")).await?.with(arguments));
    }
    Ok(Subjects { nodes, group: Some(group.to_owned()), is_map: true })
}

/// Reasons by service.
type Reasons = BTreeMap<String, String>;

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str) -> NodeInput {
        NodeInput { id: id.to_owned(), ..NodeInput::default() }
    }

    fn verdict(reason: &str) -> Verdict {
        let reasons = BTreeMap::from([("acme/cam_2.1.0_amd64".to_owned(), reason.to_owned())]);
        Verdict { is_compatible: reason == verdict::COMPATIBLE, reasons, report: None, unplaced: None }
    }

    #[test]
    fn incompatible_node_has_a_status_of_its_own() {
        let subjects = Subjects { nodes: vec![node("p/e3"), node("p/e4")], group: None, is_map: true };
        let exit = |second: &str| {
            let verdicts = [verdict("Compatible"), verdict(second)];
            require_compatible(&subjects, &verdicts).map_err(|error| (error.exit, error.why))
        };
        assert_eq!(exit("Compatible"), Ok(()));
        assert_eq!(exit("x"), Err((crate::exit::Exit::No, "incompatible: p/e4".to_owned())));
    }

    #[test]
    fn one_node_is_an_object_and_a_group_a_map_with_a_summary() {
        let one = Subjects { nodes: vec![node("p/e3")], group: None, is_map: false };
        let shown = view(&one, &[verdict("Compatible")], None);
        assert_eq!(shown.json, json!({"compatible": true, "reason": {"acme/cam_2.1.0_amd64": "Compatible"}}));
        let group =
            Subjects { nodes: vec![node("p/e3"), node("p/e4")], group: Some("p/pair".into()), is_map: true };
        let shown = view(&group, &[verdict("Compatible"), verdict("Policy Incompatible: x")], None);
        assert_eq!(shown.json["allMembersCompatible"], json!(false));
        assert_eq!(shown.json["p/e4"]["compatible"], json!(false));
        assert_eq!(shown.table.rows[1], ["p/e4", "acme/cam_2.1.0_amd64", "no", "Policy Incompatible: x"]);
    }
}
