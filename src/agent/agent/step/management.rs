//! Agent upgrades by management policies: the next action for each (agreement protocol 6).

use std::collections::BTreeMap;

use evenkeel_domain::{
    policy::{ConstraintList, NodePolicy},
    version::Version,
};
use evenkeel_ids::NmpId;
use evenkeel_wire::exchange::management_policy::{AgentUpgradePolicy, ManagementPolicyResponse};
use evenkeel_wire::exchange::node_part::{PutManagementStatus, PutUpgradeStatus, UpgradedVersions};
use serde::{Deserialize, Serialize};

use super::NodeFacts;

/// Attempts to fetch the files of an upgrade.
pub const MOST_DOWNLOADS: u32 = 4;

/// The phase of an upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Phase {
    /// Matched, scheduled for later.
    #[default]
    Waiting,
    /// The files are being fetched.
    Downloading,
    /// Ready, but the HA group's permission is needed.
    AwaitingGroup,
    /// Ready to install.
    Downloaded,
    /// Being installed.
    Initiated,
    /// Installed.
    Successful,
    /// Nothing was needed.
    NoAction,
    /// The files could not be fetched.
    DownloadFailed,
    /// The manifest is unusable.
    PrecheckFailed,
    /// The installation failed.
    Failed,
    /// The new program did not start; the old one continues.
    RolledBack,
}

impl Phase {
    /// Returns the spelling on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Downloading => "download started",
            Self::AwaitingGroup => "ha node waiting",
            Self::Downloaded => "downloaded",
            Self::Initiated => "initiated",
            Self::Successful => "successful",
            Self::NoAction => "no action required",
            Self::DownloadFailed => "download failed",
            Self::PrecheckFailed => "precheck failed",
            Self::Failed => "failed",
            Self::RolledBack => "rollback successful",
        }
    }

    fn is_busy(self) -> bool {
        matches!(self, Self::Downloading | Self::AwaitingGroup | Self::Downloaded | Self::Initiated)
    }
}

/// The state of one management policy on the node. Times are seconds since 1970 UTC, 0 means never.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Its phase.
    pub phase: Phase,
    /// Scheduled start.
    pub scheduled_at: u64,
    /// Start of the installation.
    pub started_at: u64,
    /// End of the job.
    pub ended_at: u64,
    /// Target version.
    pub version: String,
    /// The error.
    pub error: String,
    /// Attempts to fetch.
    pub downloads: u32,
    /// Manifest of the policy.
    pub manifest: String,
    /// True if an older version may be installed.
    pub allows_downgrade: bool,
    /// The policy's last change, so that a changed policy starts over.
    pub policy_updated: String,
    /// True if the exchange has recorded this state.
    pub is_reported: bool,
}

impl Job {
    /// Moves to a phase, which has to be reported.
    pub fn enter(&mut self, phase: Phase, now: u64) {
        self.phase = phase;
        self.is_reported = false;
        match phase {
            Phase::Initiated if self.started_at == 0 => self.started_at = now,
            Phase::Successful | Phase::Failed | Phase::RolledBack => self.ended_at = now,
            _ => {}
        }
    }

    /// Returns the status document of this job.
    pub fn status(&self) -> PutManagementStatus {
        let software_version = self.version.clone();
        PutManagementStatus {
            agent_upgrade_policy_status: PutUpgradeStatus {
                scheduled_time: instant(self.scheduled_at),
                start_time: Some(instant(self.started_at)),
                end_time: Some(instant(self.ended_at)),
                upgraded_versions: Some(UpgradedVersions { software_version, ..UpgradedVersions::default() }),
                status: Some(self.phase.word().to_owned()),
                error_message: Some(self.error.clone()),
            },
        }
    }
}

/// An action for a management policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManagementCommand {
    /// Report a job's phase to the exchange.
    Report(String),
    /// Remove a status whose policy is gone or no longer matches.
    Withdraw(String),
    /// Fetch the files.
    Download(String),
    /// Request the group's permission.
    RequestPermission {
        /// Job.
        job: String,
        /// Group of the node.
        group: String,
    },
    /// Install.
    Install(String),
}

/// Updates the jobs to match the policies and returns the actions. `jitter` spreads starts: a number from 0 to 1 per call.
/// Names of jobs are policy names without organization.
pub fn step(
    jobs: &mut BTreeMap<String, Job>,
    policies: &BTreeMap<NmpId, ManagementPolicyResponse>,
    node: &NodeFacts,
    now: u64,
    jitter: f64,
) -> Vec<ManagementCommand> {
    let matching: BTreeMap<&str, (&ManagementPolicyResponse, AgentUpgradePolicy)> = policies
        .iter()
        .filter(|(_, policy)| policy.enabled && matches(policy, node))
        .filter_map(|(id, policy)| {
            let upgrade = policy.agent_upgrade_policy().ok().flatten()?;
            Some((id.name(), (policy, upgrade)))
        })
        .collect();
    let mut commands: Vec<_> = jobs
        .keys()
        .filter(|name| !matching.contains_key(name.as_str()))
        .map(|name| ManagementCommand::Withdraw(name.clone()))
        .collect();
    for (name, (policy, upgrade)) in matching {
        let job = jobs.entry(name.to_owned()).or_default();
        if job.policy_updated != policy.last_updated && !job.phase.is_busy() {
            *job = schedule(policy, upgrade, now, jitter);
        }
    }
    advance(jobs, node, now);
    commands.extend(outstanding(jobs, node));
    commands
}

fn schedule(policy: &ManagementPolicyResponse, upgrade: AgentUpgradePolicy, now: u64, jitter: f64) -> Job {
    let start = seconds(&policy.start).or_else(|| seconds(&policy.last_updated)).unwrap_or(now);
    let window = u64::try_from(policy.start_window).unwrap_or(0);
    Job {
        scheduled_at: start.saturating_add((window as f64 * jitter.clamp(0.0, 1.0)) as u64),
        manifest: upgrade.manifest,
        allows_downgrade: upgrade.allow_downgrade,
        policy_updated: policy.last_updated.clone(),
        ..Job::default()
    }
}

/// One job at a time; of those that are due the one scheduled last.
fn advance(jobs: &mut BTreeMap<String, Job>, node: &NodeFacts, now: u64) {
    if node.ha_group.is_none() {
        for job in jobs.values_mut().filter(|job| job.phase == Phase::AwaitingGroup) {
            job.enter(Phase::Downloaded, now);
        }
    }
    if jobs.values().any(|job| job.phase.is_busy()) {
        return;
    }
    let due = jobs
        .values_mut()
        .filter(|job| job.phase == Phase::Waiting && job.scheduled_at <= now)
        .max_by_key(|job| job.scheduled_at);
    if let Some(job) = due {
        job.enter(Phase::Downloading, now);
    }
}

fn outstanding(jobs: &BTreeMap<String, Job>, node: &NodeFacts) -> Vec<ManagementCommand> {
    let mut commands = Vec::new();
    for (name, job) in jobs {
        if !job.is_reported {
            commands.push(ManagementCommand::Report(name.clone()));
        }
        match (job.phase, &node.ha_group) {
            (Phase::Downloading, _) => commands.push(ManagementCommand::Download(name.clone())),
            (Phase::AwaitingGroup, Some(group)) => {
                commands
                    .push(ManagementCommand::RequestPermission { job: name.clone(), group: group.clone() });
            }
            (Phase::Downloaded | Phase::Initiated, _) => {
                commands.push(ManagementCommand::Install(name.clone()));
            }
            _ => {}
        }
    }
    commands
}

/// A management policy that selects no node, because a part of it cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The policy's last change.
    pub updated: String,
    /// The error of each part.
    pub errors: Vec<String>,
}

/// Returns the policies that cannot be read.
pub fn unreadable(policies: &BTreeMap<NmpId, ManagementPolicyResponse>) -> BTreeMap<NmpId, Unreadable> {
    let found = policies.iter().map(|(id, policy)| {
        (id.clone(), Unreadable { updated: policy.last_updated.clone(), errors: policy.errors() })
    });
    found.filter(|(_, found)| !found.errors.is_empty()).collect()
}

/// Returns whether a management policy selects this node.
///
/// # Source
/// Agreement-protocol 6.1.
pub fn matches(policy: &ManagementPolicyResponse, node: &NodeFacts) -> bool {
    // Applying only the rest of the policy could select nodes that were not meant.
    if !policy.errors().is_empty() {
        return false;
    }
    let (patterns, constraints) =
        (policy.patterns().unwrap_or_default(), policy.constraints().unwrap_or_default());
    let offered = policy.properties().unwrap_or_default();
    if !node.pattern.is_empty() || !patterns.is_empty() {
        let bare = node.pattern.split_once('/').map_or(node.pattern.as_str(), |(_, name)| name);
        return patterns.iter().any(|pattern| *pattern == node.pattern || pattern == bare);
    }
    let own = management_policy(&node.policy);
    let mut merged = ConstraintList::new();
    constraints.into_iter().for_each(|constraint| merged.push(constraint));
    merged.is_satisfied_by(&own.properties).unwrap_or(false)
        && own.constraints.is_satisfied_by(&offered).unwrap_or(false)
}

fn management_policy(policy: &NodePolicy) -> evenkeel_domain::policy::ExternalPolicy {
    policy.management_policy()
}

/// The relation of a wanted version to the installed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionStep {
    /// Nothing to do.
    Keep,
    /// Install it.
    Install,
}

/// Compares the wanted with the installed version: equal ones and forbidden downgrades need no action.
pub fn compare(wanted: &str, installed: &str, allows_downgrade: bool) -> VersionStep {
    if wanted == installed {
        return VersionStep::Keep;
    }
    match (Version::parse(wanted), Version::parse(installed)) {
        (Ok(wanted), Ok(installed)) if wanted == installed => VersionStep::Keep,
        (Ok(wanted), Ok(installed)) if wanted < installed && !allows_downgrade => VersionStep::Keep,
        _ => VersionStep::Install,
    }
}

/// Returns the version that a manifest requests among the published ones: `latest`, a range, or an exact version.
pub fn resolve(wanted: &str, published: &[String]) -> Option<String> {
    use evenkeel_domain::version::{VersionRange, is_range_expression};
    let fits = |version: &Version| {
        wanted == "latest"
            || (is_range_expression(wanted)
                && VersionRange::parse(wanted).is_ok_and(|range| range.contains(version)))
    };
    if wanted != "latest" && !is_range_expression(wanted) {
        return (!wanted.is_empty()).then(|| wanted.to_owned());
    }
    published
        .iter()
        .filter_map(|text| Version::parse(text).ok().map(|version| (version, text)))
        .filter(|(version, _)| fits(version))
        .max_by(|one, two| one.0.cmp(&two.0))
        .map(|(_, text)| text.clone())
}

fn instant(secs: u64) -> String {
    if secs == 0 {
        return String::new();
    }
    i64::try_from(secs)
        .ok()
        .and_then(|secs| jiff::Timestamp::from_second(secs).ok())
        .map_or_else(String::new, |time| time.to_string())
}

/// Parses an instant of the wire, with or without `[UTC]`, into seconds since 1970.
fn seconds(text: &str) -> Option<u64> {
    let bare = text.strip_suffix("[UTC]").unwrap_or(text);
    bare.parse::<jiff::Timestamp>().ok().and_then(|time| u64::try_from(time.as_second()).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policies(document: Value) -> BTreeMap<NmpId, ManagementPolicyResponse> {
        BTreeMap::from([(NmpId::new("o", "m"), serde_json::from_value(document).expect("a policy"))])
    }

    #[test]
    fn policy_with_a_part_that_cannot_be_read_selects_nothing_and_is_named() {
        let document = json!({"enabled": true, "agentUpgradePolicy": {"manifest": "m"}, "lastUpdated": "t"});
        let steps =
            |document: Value| step(&mut BTreeMap::new(), &policies(document), &NodeFacts::default(), 1, 0.0);
        assert!(!steps(document.clone()).is_empty() && unreadable(&policies(document.clone())).is_empty());
        for (member, broken) in [
            ("constraints", json!("a")),
            ("patterns", json!([1])),
            ("properties", json!([1])),
            ("agentUpgradePolicy", json!({"manifest": [1]})),
        ] {
            let mut document = document.clone();
            document[member] = broken;
            assert_eq!(steps(document.clone()), [], "{member}");
            let found = &unreadable(&policies(document))[&NmpId::new("o", "m")];
            assert!(found.updated == "t" && found.errors[0].starts_with(member), "{found:?}");
        }
    }
}
