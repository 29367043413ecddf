//! The tree as lines: groups with their members, workloads with their units and instances.

use std::collections::BTreeSet;

use evenkeel_wire::agbot::claim::Claim;
use evenkeel_wire::agbot::orchestration::WorkloadStatus;
use evenkeel_wire::agbot::upgrade::UpgradesResponse;
use evenkeel_wire::exchange::ha_group::HaGroupResponse;

use super::fleet::Overview;
use crate::exchange::orch::status::{self, BLANK};
use crate::output::counted;

/// Names of the columns.
pub const HEADER: [&str; 7] = ["what", "avail", "health", "state", "flags", "slots", "message"];

/// The object that a line shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An HA group.
    Group(String),
    /// A member of one.
    Member(String),
    /// A node in no HA group.
    Node(String),
    /// A deployment policy.
    Policy(String),
    /// A workload unit of a policy.
    Unit(String, String),
    /// The instance of a policy on a node.
    Instance(String, String),
}

impl Target {
    /// Depth in the tree.
    fn depth(&self) -> usize {
        match self {
            Self::Group(_) | Self::Node(_) | Self::Policy(_) => 0,
            Self::Member(_) | Self::Unit(..) => 1,
            Self::Instance(..) => 2,
        }
    }
}

/// Attention that a line needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    /// No problem, or nothing to report.
    Calm,
    /// Something is not as it should be.
    Warning,
    /// Something that is wanted does not run.
    Error,
}

/// A line of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// One text for each column.
    pub cells: [String; HEADER.len()],
    /// The object that the line shows.
    pub target: Target,
    /// Attention that the line needs.
    pub tone: Tone,
}

impl Line {
    /// Returns whether one of the texts contains the filter, ignoring case.
    pub fn holds(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.cells.iter().any(|cell| cell.to_lowercase().contains(&text))
    }

    fn is_named(&self, text: &str) -> bool {
        self.cells[0].to_lowercase().contains(&text.to_lowercase())
    }
}

/// Returns the lines that contain a text, and those below a line whose name contains it: the instances of a workload,
/// the members of a group.
pub fn holding<'l>(lines: &'l [Line], text: &str) -> Vec<&'l Line> {
    // The depth of the line above that is named so.
    let mut named: Option<usize> = None;
    let mut shown = Vec::new();
    for line in lines {
        let depth = line.target.depth();
        named = named.filter(|above| depth > *above);
        if named.is_some() || line.holds(text) {
            shown.push(line);
        }
        if named.is_none() && line.is_named(text) {
            named = Some(depth);
        }
    }
    shown
}

/// Returns the lines of what there is.
pub fn of(overview: &Overview) -> Vec<Line> {
    let mut lines = Vec::new();
    for (group, upgrades) in &overview.groups {
        add_group(overview, group, upgrades.as_ref(), &mut lines);
    }
    add_nodes(overview, &mut lines);
    for (_, status) in &overview.workloads {
        add_workload(overview, status, &mut lines);
    }
    lines
}

fn health_of<'o>(overview: &'o Overview, entity: &str, id: &str) -> &'o str {
    overview.health.get(&(entity.to_owned(), id.to_owned())).map_or("", String::as_str)
}

fn tone_of(avail: &str, health: &str) -> Tone {
    let of_avail = match avail {
        "down" | "stdby-down" => Tone::Error,
        "warn" => Tone::Warning,
        _ => Tone::Calm,
    };
    let of_health = match health {
        "Error" => Tone::Error,
        "Warning" => Tone::Warning,
        _ => Tone::Calm,
    };
    of_avail.max(of_health)
}

fn add_group(
    overview: &Overview,
    group: &HaGroupResponse,
    upgrades: Option<&UpgradesResponse>,
    lines: &mut Vec<Line>,
) {
    let id = format!("{}/{}", overview.org, group.name);
    let health = health_of(overview, "hagroup", &id).to_owned();
    let blocked = upgrades.and_then(|upgrades| upgrades.blocked.as_ref());
    let note = blocked.map(|blocked| format!("blocked: {}", blocked.rules.join(", "))).unwrap_or_default();
    let tone = if note.is_empty() { tone_of("", &health) } else { tone_of("warn", &health) };
    let count = group.members.len();
    let state = counted(count, "member");
    let what = format!("group{BLANK}{}", group.name);
    let cells = [what, String::new(), health, state, String::new(), String::new(), note];
    lines.push(Line { cells, target: Target::Group(group.name.clone()), tone });
    for (position, member) in group.members.iter().enumerate() {
        let branch = if position + 1 == count { "└" } else { "├" };
        let node = format!("{}/{member}", overview.org);
        let health = health_of(overview, "node", &node).to_owned();
        let claims =
            upgrades.into_iter().flat_map(|upgrades| upgrades.agent.iter().chain(&upgrades.workloads));
        let claims =
            claims.filter(|held| held.claim.node.name() == member).map(|held| claim_text(&held.claim));
        let waits = upgrades.into_iter().flat_map(|upgrades| &upgrades.waiting);
        let waits = waits.filter(|wait| wait.node.name() == member);
        let waits = waits.map(|wait| format!("{} waits: {}", wait.policy.name(), wait.reason));
        let notes = claims.chain(waits).collect();
        let what = format!("{branch}{BLANK}{member}");
        lines.push(node_line(overview, &node, what, health, notes, Target::Member(member.clone())));
    }
}

/// Adds the nodes that are in no HA group.
fn add_nodes(overview: &Overview, lines: &mut Vec<Line>) {
    let members: BTreeSet<String> = overview
        .groups
        .iter()
        .flat_map(|(group, _)| &group.members)
        .map(|member| format!("{}/{member}", overview.org))
        .collect();
    for node in overview.nodes.keys().filter(|node| !members.contains(*node)) {
        let name = node.split_once('/').map_or(node.as_str(), |(_, name)| name);
        let health = health_of(overview, "node", node).to_owned();
        let what = format!("node{BLANK}{name}");
        lines.push(node_line(overview, node, what, health, Vec::new(), Target::Node(name.to_owned())));
    }
}

/// Returns the line of a node: its state, why it is unavailable, further remarks, and its machine.
fn node_line(
    overview: &Overview,
    node: &str,
    what: String,
    health: String,
    notes: Vec<String>,
    target: Target,
) -> Line {
    let found = overview.nodes.get(node).cloned().unwrap_or_default();
    let machine = (!found.machine.is_empty()).then_some(found.machine);
    let note = found.absence.into_iter().chain(notes).chain(machine).collect::<Vec<_>>().join("; ");
    let flags = if found.is_frozen { "F" } else { "" };
    let tone = tone_of(if found.state == "down" { "warn" } else { "" }, &health);
    let cells = [what, String::new(), health, found.state, flags.to_owned(), String::new(), note];
    Line { cells, target, tone }
}

fn claim_text(claim: &Claim) -> String {
    let what = if claim.version.is_empty() { String::new() } else { format!(" to {}", claim.version) };
    let scope = claim.scope.policy().map_or("agent upgrade", |policy| policy.name());
    format!("{scope}{what}: {} since {}", claim.phase, claim.since)
}

fn add_workload(overview: &Overview, status: &WorkloadStatus, lines: &mut Vec<Line>) {
    let policy = &status.policy;
    let health = health_of(overview, "workload", policy);
    let mut targets = vec![(Target::Policy(policy.clone()), tone_of(&status.overall, health))];
    for part in &status.workload_units {
        let unit = Target::Unit(policy.clone(), part.workload_unit.clone());
        targets.push((unit, tone_of(&part.avail, "")));
        for instance in &part.instances {
            // An instance that is not wanted may be down without a remark.
            let is_wanted = instance.local_expect == "started" || !instance.slots.is_empty();
            let avail = if instance.avail == "down" && !is_wanted { "" } else { &instance.avail };
            let target = Target::Instance(policy.clone(), instance.node.clone());
            targets.push((target, tone_of(avail, "")));
        }
    }
    for (number, (row, (target, tone))) in status::tree(status).rows.into_iter().zip(targets).enumerate() {
        let health = if number == 0 { health.to_owned() } else { String::new() };
        let mut row = row.into_iter();
        let mut next = || row.next().unwrap_or_default();
        let (what, avail) = (next(), next());
        let mut cells = [what, avail, health, next(), next(), next(), next()];
        if let (0, Some(version)) = (number, &status.version) {
            // A narrow screen cuts the end.
            let (mode, state) = (&status.mode, cells[3].clone());
            cells[3] = state.replacen(&format!("{mode} {version}"), &format!("{version} {mode}"), 1);
        }
        if let Some(absence) = absence_of(overview, &target) {
            let note = &mut cells[HEADER.len() - 1];
            *note = if note.is_empty() { absence.to_owned() } else { format!("{absence}; {note}") };
        }
        lines.push(Line { cells, target, tone });
    }
}

/// Returns why the node of an instance is unavailable; none if it is available.
fn absence_of<'o>(overview: &'o Overview, target: &Target) -> Option<&'o str> {
    let Target::Instance(policy, node) = target else { return None };
    let org = policy.split('/').next().unwrap_or_default();
    let node = if node.contains('/') { node.clone() } else { format!("{org}/{node}") };
    overview.nodes.get(&node)?.absence.as_deref()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::mon::fleet::NodeSummary;

    fn overview() -> Overview {
        let group = json!({"name": "g1", "description": "", "members": ["n1", "n2"], "admin": false, "lastUpdated": ""});
        let upgrades = json!({"agent": null, "waiting": [], "workloads": [], "blocked": null});
        let status = json!({"policy": "o/cam", "mode": "failover", "overall": "warn", "units": [
            {"unit": "g1", "avail": "up", "target": 1, "up": 1, "placement": "optimal", "instances": [
                {"node": "n1", "avail": "up", "monitorState": "idle", "localExpect": "started", "flags": "L", "slots": [1]},
                {"node": "n2", "avail": "down", "monitorState": "idle", "localExpect": "none", "flags": "", "slots": []}]}]});
        let absence = "node down, last heartbeat 5m ago".to_owned();
        let health = [(("node".to_owned(), "o/n2".to_owned()), "Error".to_owned())];
        Overview {
            groups: vec![(serde_json::from_value(group).unwrap(), serde_json::from_value(upgrades).ok())],
            workloads: vec![(Value::Null, serde_json::from_value(status).unwrap())],
            health: health.into_iter().collect(),
            nodes: [
                (
                    "o/n1",
                    NodeSummary {
                        state: "up".to_owned(),
                        machine: "load 0.10".to_owned(),
                        ..NodeSummary::default()
                    },
                ),
                (
                    "o/n2",
                    NodeSummary {
                        state: "down".to_owned(),
                        absence: Some(absence),
                        ..NodeSummary::default()
                    },
                ),
                ("o/n3", NodeSummary { state: "up".to_owned(), is_frozen: true, ..NodeSummary::default() }),
            ]
            .map(|(node, found)| (node.to_owned(), found))
            .into(),
            org: "o".to_owned(),
        }
    }

    #[test]
    fn each_line_knows_what_it_is_about_and_how_bad_it_is() {
        let lines = of(&overview());
        let found: Vec<(&str, &Target, Tone)> =
            lines.iter().map(|line| (line.cells[0].as_str(), &line.target, line.tone)).collect();
        let (cam, part) = ("o/cam".to_owned(), "g1".to_owned());
        assert_eq!(found[0], ("group\u{a0}g1", &Target::Group(part.clone()), Tone::Calm));
        assert_eq!(found[2], ("└\u{a0}n2", &Target::Member("n2".to_owned()), Tone::Error));
        assert_eq!(found[3], ("node\u{a0}n3", &Target::Node("n3".to_owned()), Tone::Calm));
        assert_eq!(found[4], ("o/cam", &Target::Policy(cam.clone()), Tone::Warning));
        assert_eq!(found[5].1, &Target::Unit(cam.clone(), part));
        assert_eq!((found[6].1, found[6].2), (&Target::Instance(cam.clone(), "n1".to_owned()), Tone::Calm));
        assert_eq!((found[7].1, found[7].2), (&Target::Instance(cam, "n2".to_owned()), Tone::Calm));
        assert_eq!(lines.len(), 8);
        assert_eq!(lines[2].cells[2], "Error");
        let absent: Vec<bool> = lines.iter().map(|line| line.cells[6].contains("node down")).collect();
        assert_eq!(absent, [false, false, true, false, false, false, false, true]);
        let states: Vec<&str> = lines[1..4].iter().map(|line| line.cells[3].as_str()).collect();
        assert_eq!(states, ["up", "down", "up"]);
        assert_eq!((lines[1].cells[6].as_str(), lines[3].cells[4].as_str()), ("load 0.10", "F"));
    }

    #[test]
    fn filter_searches_every_column_and_keeps_what_is_below_a_name() {
        let lines = of(&overview());
        let shown = |text: &str| holding(&lines, text).len();
        assert_eq!((shown("N2"), shown("started"), shown("nothing"), shown("")), (2, 1, 0, 8));
        assert_eq!((shown("/cam"), shown("group"), shown("failover")), (4, 3, 1));
    }
}
