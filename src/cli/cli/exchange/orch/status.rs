//! `orchestration status`: the runtime status of a deployment policy as a tree (orchestration 1.5, A9.4).

use evenkeel_wire::agbot::orchestration::{Instance, SlotName, StatusQuery, WorkloadStatus, WorkloadUnit};
use serde_json::Value;

use crate::context::{Context, Exchange};
use crate::exit::Outcome;
use crate::output::{Table, View};
use crate::update_text::update_text;

/// Instances in one request.
const PAGE: u16 = 1000;
/// Joins the parts of a branch with no-break spaces, so that a narrow terminal does not cut it.
pub const BLANK: &str = "\u{a0}";
/// Reads the status of a policy, with all of its instances.
///
/// # Errors
/// With status 8 when the policy or the workload unit does not exist, 5 when the agbot does not respond.
pub async fn read(context: &Context, exchange: &Exchange, policy: &str, part: Option<&str>) -> Outcome<View> {
    let (document, status) = read_status(context, exchange, policy, part).await?;
    Ok(View::new(document, tree(&status)))
}

/// Reads the status as it was sent and as a typed value; see [`read`].
///
/// # Errors
/// See [`read`].
pub async fn read_status(
    context: &Context,
    exchange: &Exchange,
    policy: &str,
    part: Option<&str>,
) -> Outcome<(Value, WorkloadStatus)> {
    let mut whole: Option<(Value, WorkloadStatus)> = None;
    let mut offset = 0;
    loop {
        let query = StatusQuery {
            workload_unit: part.map(str::to_owned),
            limit: Some(PAGE),
            offset: (offset > 0).then_some(offset),
        };
        let (found, status) = read_status_page(context, exchange, policy, &query).await?;
        let is_complete = status.workload_units.iter().all(|one| one.next.is_none());
        match &mut whole {
            None => whole = Some((found, status)),
            Some((document, first)) => extend(document, first, found, status),
        }
        if is_complete {
            break;
        }
        offset += u32::from(PAGE);
    }
    Ok(whole.unwrap_or_default())
}

/// Reads every workload unit, each with a page of its instances.
///
/// # Errors
/// See [`read`].
pub async fn read_status_page(
    context: &Context,
    exchange: &Exchange,
    policy: &str,
    query: &StatusQuery,
) -> Outcome<(Value, WorkloadStatus)> {
    let (org, name) = exchange.split(policy);
    let agbot = context.agbot(exchange)?;
    let doing = format!("reading the orchestration status of {org}/{name}");
    let found = agbot.client.orchestration_record(&org, &name, query);
    let Some(found) = agbot.call(&doing, found).await? else {
        return Err(super::missing_part(context, exchange, policy, query.workload_unit.as_deref()).await);
    };
    let status: WorkloadStatus = agbot.read(&doing, &found)?;
    Ok((found.into_value(), status))
}

/// Appends the instances of a later page.
fn extend(document: &mut Value, first: &mut WorkloadStatus, mut page: Value, status: WorkloadStatus) {
    for (position, more) in status.workload_units.into_iter().enumerate() {
        let Some(one) = first.workload_units.get_mut(position) else { continue };
        one.instances.extend(more.instances);
        let path = format!("/units/{position}");
        let added = page.pointer_mut(&format!("{path}/instances")).map(Value::take);
        let Some(object) = document.pointer_mut(&path) else { continue };
        if let (Some(all), Some(Value::Array(added))) =
            (object.get_mut("instances").and_then(Value::as_array_mut), added)
        {
            all.extend(added);
        }
        object["next"] = Value::Null;
    }
}

/// The status as a tree: the policy, its workload units, their instances.
pub fn tree(status: &WorkloadStatus) -> Table {
    let mut table = Table::new(&["policy", "avail", "state", "flags", "slots", "message"])
        .keeping(&["avail", "state", "message"]);
    // The progress of an update comes first, because a narrow screen cuts the end.
    let mut notes: Vec<String> = update_text(&status.update, &status.policy).into_iter().collect();
    notes.extend(expect_text(status));
    notes.extend(status.warnings.iter().cloned());
    let mode = match &status.version {
        Some(version) => format!("{} {version}", status.mode),
        None => status.mode.clone(),
    };
    table.push([
        status.policy.clone(),
        status.overall.clone(),
        joined(&[&mode, frozen_text(&status.frozen)]),
        String::new(),
        String::new(),
        notes.join("; "),
    ]);
    let last_part = status.workload_units.len().saturating_sub(1);
    for (position, part) in status.workload_units.iter().enumerate() {
        let is_last = position == last_part;
        table.push([
            format!("{}{BLANK}{}", if is_last { "└" } else { "├" }, part.workload_unit),
            part.avail.clone(),
            up_text(part),
            String::new(),
            String::new(),
            placement_text(&part.placement).to_owned(),
        ]);
        let indent = format!("{}{BLANK}", if is_last { BLANK } else { "│" });
        let last = part.instances.len().saturating_sub(1);
        for (position, instance) in part.instances.iter().enumerate() {
            let branch = if position == last { "└" } else { "├" };
            table.push([
                format!("{indent}{branch}{BLANK}{}", instance.node),
                instance.avail.clone(),
                state_text(instance),
                instance.flags.clone(),
                instance
                    .slots
                    .iter()
                    .filter(|slot| matches!(slot, SlotName::Number(_)))
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(","),
                notes_of(instance, status.version.as_deref()),
            ]);
        }
    }
    table
}

/// Returns the numbers of running and of desired instances, in words.
fn up_text(part: &WorkloadUnit) -> String {
    let WorkloadUnit { up, target, .. } = part;
    match (up, target) {
        (0, 0) => "none wanted".to_owned(),
        // Instances that are to stop, or that an update starts before it stops others.
        (up, target) if up > target => format!("{up} up, {target} wanted"),
        (up, target) => format!("{up} of {target} up"),
    }
}

/// The action of a user that is in progress.
fn expect_text(status: &WorkloadStatus) -> Option<String> {
    let (expect, action) = (status.global_expect.as_ref()?, status.action.as_ref()?);
    Some(format!("action {action} in progress: {expect}"))
}

fn notes_of(instance: &Instance, preferred: Option<&str>) -> String {
    let other = instance.version.as_deref().filter(|version| Some(*version) != preferred);
    let other = other.map(|version| format!("version {version}"));
    let details: Vec<&str> = instance.violations.iter().map(|one| one.detail.as_str()).collect();
    let violations = (!details.is_empty()).then(|| format!("constraints violation: {}", details.join("; ")));
    // The mark stays on the node, for an instance that returns there.
    let pinned = instance.pinned.then(|| "placed by a user".to_owned());
    let blocklisted = instance.blocklisted.clone();
    other.into_iter().chain(violations).chain(blocklisted).chain(pinned).collect::<Vec<_>>().join("; ")
}

fn state_text(instance: &Instance) -> String {
    match instance.local_expect.as_str() {
        "none" | "" => instance.monitor_state.clone(),
        expect => format!("{}, {expect}", instance.monitor_state),
    }
}

fn frozen_text(frozen: &str) -> &str {
    if matches!(frozen, "frozen" | "mixed") { frozen } else { "" }
}

fn placement_text(placement: &str) -> &str {
    if placement == "n/a" { "" } else { placement }
}

fn joined(texts: &[&str]) -> String {
    texts.iter().filter(|text| !text.is_empty()).copied().collect::<Vec<&str>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status() -> WorkloadStatus {
        let instance = |node: &str, avail: &str, state: &str, expect: &str, flags: &str| Instance {
            node: node.to_owned(),
            avail: avail.to_owned(),
            monitor_state: state.to_owned(),
            local_expect: expect.to_owned(),
            flags: flags.to_owned(),
            ..Instance::default()
        };
        let part = WorkloadUnit {
            workload_unit: "g1".to_owned(),
            avail: "up".to_owned(),
            target: 1,
            up: 1,
            placement: "optimal".to_owned(),
            instances: vec![
                instance("n1", "up", "idle", "started", "L"),
                instance("n2", "down", "start-failed", "none", "C"),
            ],
            ..WorkloadUnit::default()
        };
        WorkloadStatus {
            policy: "plant7/cam".to_owned(),
            mode: "failover".to_owned(),
            overall: "warn".to_owned(),
            warnings: vec!["incompatible versions".to_owned()],
            workload_units: vec![part],
            ..WorkloadStatus::default()
        }
    }

    #[test]
    fn tree_has_a_line_for_each_part_and_instance() {
        let text = tree(&status()).render(None);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert!(lines[0].starts_with("plant7/cam") && lines[0].ends_with("incompatible versions"), "{text}");
        assert!(lines[1].starts_with("└ g1") && lines[1].contains("1 of 1 up"), "{text}");
        assert!(lines[2].starts_with("  ├ n1") && lines[2].contains("idle, started  L"), "{text}");
        assert!(lines[3].starts_with("  └ n2") && lines[3].contains("start-failed"), "{text}");
        for width in 20..120 {
            let narrow = tree(&status()).render(Some(width));
            assert!(narrow.contains("n2") && narrow.contains("start-failed"), "{width}: {narrow}");
        }
    }

    #[test]
    fn surplus_instances_are_no_share_of_the_wanted_ones() {
        let unit = |up, target| WorkloadUnit { up, target, ..WorkloadUnit::default() };
        let texts = [(2, 3), (4, 3), (0, 0), (1, 0)].map(|(up, target)| up_text(&unit(up, target)));
        assert_eq!(texts, ["2 of 3 up", "4 up, 3 wanted", "none wanted", "1 up, 0 wanted"]);
    }

    #[test]
    fn pages_become_one_document() {
        let page = |node: &str| json!({"units": [{"unit": "all", "instances": [{"node": node}], "next": 1}]});
        let typed = |document: &Value| serde_json::from_value::<WorkloadStatus>(document.clone()).unwrap();
        let (mut document, second) = (page("n1"), page("n2"));
        let mut first = typed(&document);
        let status = typed(&second);
        extend(&mut document, &mut first, second, status);
        assert_eq!(document["units"][0]["instances"], json!([{"node": "n1"}, {"node": "n2"}]));
        assert_eq!(
            (first.workload_units[0].instances.len(), &document["units"][0]["next"]),
            (2, &Value::Null)
        );
    }
}
