//! Waits until a deployment policy is carried out on every node that it selects.

use evenkeel_domain::orchestration::lifecycle::UpgradeLifecycle;
use evenkeel_domain::orchestration::{Mode, Orchestrate, Orchestration};
use evenkeel_wire::agbot::reason::{PairPlacement, Reason, ReasonsResponse};
use evenkeel_wire::agbot::rollout::{Rollout, RolloutState, WorkloadUpdate};
use evenkeel_wire::exchange::deployment_policy::{DeployedServiceVersion, DeploymentPolicyResponse};
use jiff::Timestamp;
use serde_json::json;

use super::Progress;
use super::instances::InstanceCount;
use super::update::RollbackReasons;
use crate::context::{Context, Exchange};
use crate::exchange::deployment::POLICIES;
use crate::exit::Outcome;
use crate::output::counted;

/// Reasons for which a node gets nothing now and may get it later without any further change by a user.
const TRANSIENT: [&str; 12] = [
    "never-heard",
    "no-public-key",
    "node-down",
    "backing-off",
    "old-copy-stopping",
    "waiting-for-reply",
    "just-started",
    "claim-requested",
    "delay",
    "peer-first",
    "ha-lock",
    "ha-minimum",
];

/// What is waited for: a policy as it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedPolicy {
    /// `org/policy`.
    pub id: String,
    /// Its versions; any when there is none.
    pub versions: Vec<String>,
    /// When it was written.
    pub written_at: Option<Timestamp>,
    /// How many instances it has at least, if the hub counts them.
    pub least_instances: usize,
    /// Whether the hub keeps a number of instances in each workload unit.
    pub is_counted: bool,
    /// Whether its instances start only when a user requests it.
    pub is_started_by_users: bool,
    /// Whether a number of them is wanted.
    pub has_number: bool,
    /// Whether tasks carry it out, so that a user may stop it.
    pub is_orchestrated: bool,
}

impl WantedPolicy {
    /// Reads the policy as it is stored now.
    ///
    /// # Errors
    /// With status 8 when it does not exist.
    pub async fn read(exchange: &Exchange, name: &str) -> Outcome<Self> {
        let (org, id) = exchange.split(name);
        let doing = format!("reading deployment policy {name}");
        let found = exchange.server.call(&doing, exchange.server.client.deployment_policy(&org, &id)).await?;
        let found = found.ok_or_else(|| POLICIES.missing(name))?;
        Ok(Self::of(format!("{org}/{id}"), &found))
    }

    fn of(id: String, policy: &DeploymentPolicyResponse) -> Self {
        let versions = policy.service().map(|service| service.service_versions).unwrap_or_default();
        // What runs may keep the version that it has.
        let is_kept = |one: &DeployedServiceVersion| {
            UpgradeLifecycle::of_version(&json!(one)).unwrap_or_default().keeps_running()
        };
        let is_any = policy.orchestration.is_some() && versions.iter().any(is_kept);
        let versions = versions.into_iter().filter(|_| !is_any).map(|one| one.version).collect();
        let orchestration = policy.orchestration.clone().and_then(|text| Orchestration::try_from(text).ok());
        let least_instances = orchestration.as_ref().map_or(0, least_instances);
        let is_counted = orchestration.as_ref().is_some_and(is_counted);
        let has_number =
            orchestration.as_ref().is_some_and(|one| matches!(one.mode, Mode::Replicated | Mode::Flex));
        let is_started_by_users =
            orchestration.as_ref().is_some_and(|one| one.orchestrate == Orchestrate::No);
        let written_at = instant(&policy.last_updated);
        Self {
            id,
            versions,
            written_at,
            least_instances,
            is_counted,
            is_started_by_users,
            has_number,
            is_orchestrated: orchestration.is_some(),
        }
    }

    /// Progress of the policy; `reasons`: those of rollbacks that were seen before.
    ///
    /// # Errors
    /// With status 5 when the agbot does not respond.
    pub async fn progress(
        &self,
        context: &Context,
        exchange: &Exchange,
        reasons: &RollbackReasons,
    ) -> Outcome<Progress> {
        let org = exchange.split(&self.id).0;
        let agbot = context.agbot(exchange)?;
        let placements = agbot.call("asking the agbot for its reasons", agbot.client.reasons(&org)).await?;
        let rollouts = agbot.call("asking the agbot for its rollouts", agbot.client.rollouts(&org)).await?;
        if let Some(own) = self.own(&rollouts.workloads) {
            reasons.find(&agbot, &self.id, &own.update).await;
        }
        let instances = match self.is_orchestrated {
            true => InstanceCount::read(context, exchange, &self.id).await?,
            false => None,
        };
        if let Some(stopped) = self.stopped(instances.as_ref()) {
            return Ok(stopped);
        }
        let instances = instances.filter(|_| self.is_counted || self.is_started_by_users && self.has_number);
        if let Some(update) = self.update(&rollouts.workloads, reasons) {
            return Ok(update);
        }
        Ok(match self.judge(&placements, &rollouts.rollouts, instances.as_ref()) {
            Progress::Pending(text) => match self.rolled_back(&rollouts.workloads) {
                Some(version) => Progress::Pending(format!(
                    "{text}; version {version} was rolled back before, try it again with: hzn rollout retry {}",
                    self.id
                )),
                None => Progress::Pending(text),
            },
            judged => judged,
        })
    }

    /// Returns how the update by tasks stands, unless it has completed: it is in progress, held, or was rolled back.
    ///
    /// An update in progress counts whenever it began, because a policy may be written without a change of its version. How an update
    /// ended counts only if it began after the policy was written.
    fn update(&self, workloads: &[WorkloadUpdate], reasons: &RollbackReasons) -> Option<Progress> {
        let own = self.own(workloads)?;
        let began = own.update.started_at.as_deref().and_then(instant);
        let is_later = began.is_some_and(|at| self.written_at.is_none_or(|written| at >= written));
        match reasons.progress(&self.id, &own.update, false) {
            Progress::Done(_) => None,
            pending @ Progress::Pending(_) => Some(pending),
            stopped => is_later.then_some(stopped),
        }
    }

    /// Returns the version of the policy that the hub keeps away, because it rolled it back before the policy was written.
    ///
    /// Until the agbot has read the policy, the version that was rolled back may be one that the policy does not want any more.
    fn rolled_back<'w>(&self, workloads: &'w [WorkloadUpdate]) -> Option<&'w str> {
        let own = self.own(workloads).filter(|own| own.update.state == "rollback-completed")?;
        let version = own.rolled_back_from.as_deref()?.rsplit(' ').next()?;
        self.versions.iter().any(|wanted| wanted == version).then_some(version)
    }

    fn own<'w>(&self, workloads: &'w [WorkloadUpdate]) -> Option<&'w WorkloadUpdate> {
        workloads.iter().find(|one| one.policy.as_str() == self.id)
    }

    /// Returns that a user has stopped the policy. One whose instances users start anyway is carried out when it is written.
    fn stopped(&self, instances: Option<&InstanceCount>) -> Option<Progress> {
        let is_stopped = instances.is_some_and(|count| count.is_stopped) && !self.is_started_by_users;
        is_stopped.then(|| Progress::Held {
            why: format!("policy {} is stopped by a user, and nothing of it starts", self.id),
            advice: format!("start it with: hzn exchange deployment orch start {}", self.id),
        })
    }

    fn judge(
        &self,
        reasons: &ReasonsResponse,
        rollouts: &[Rollout],
        instances: Option<&InstanceCount>,
    ) -> Progress {
        if !self.is_read_by(reasons) {
            return Progress::Pending(format!(
                "the agbot does not serve policy {}, or has not read it yet",
                self.id
            ));
        }
        let rollouts = rollouts.iter().filter(|rollout| rollout.policy.as_str() == self.id);
        let rollouts: Vec<&Rollout> = rollouts.filter(|rollout| self.is_target_of(rollout)).collect();
        if let Some(stopped) = super::rollout::stopped(&rollouts, false) {
            return stopped;
        }
        let pairs = reasons.reasons.iter().filter(|pair| pair.policy.as_str() == self.id);
        let pairs: Vec<(&Reason, PairPlacement)> = pairs.map(|pair| (pair, pair.placement())).collect();
        let running = pairs.iter().filter(|(_, placement)| self.is_running(placement)).count();
        let is_pending = |placement: &PairPlacement| !self.is_running(placement) && !is_left_out(placement);
        let pending: Vec<&Reason> =
            pairs.iter().filter(|(_, placement)| is_pending(placement)).map(|(pair, _)| *pair).collect();
        let total = running + pending.len();
        let reached = match instances {
            Some(count) => count.text(),
            None => format!("{running} of {total} nodes done"),
        };
        if let Some(pair) = pending.first() {
            return Progress::Pending(format!("{reached}; {}: {}", pair.node, pair.text));
        }
        if let Some(rollout) = rollouts.iter().find(|rollout| rollout.state == RolloutState::Updating) {
            return Progress::Pending(format!("{reached}; {}: {}", rollout.group, rollout.text));
        }
        match instances {
            Some(InstanceCount { difference: Some(difference), .. }) if self.is_started_by_users => {
                Progress::Done(format!(
                    "policy {0} is written: {difference}; start and stop instances with: hzn exchange deployment orch start {0}, or stop",
                    self.id
                ))
            }
            Some(InstanceCount { difference: Some(difference), is_given_up: true, .. }) => {
                Progress::Held { why: difference.clone(), advice: self.start_advice() }
            }
            Some(InstanceCount { difference: Some(difference), .. }) => Progress::Pending(difference.clone()),
            None if running < self.least_instances => {
                Progress::Pending(format!("{running} of {} instances run", self.least_instances))
            }
            _ => Progress::Done(self.done_text(total, instances)),
        }
    }

    /// Returns what to do about instances that are not started again.
    fn start_advice(&self) -> String {
        format!(
            "see why with: hzn exchange deployment orch events {0}, then start them with: hzn exchange deployment orch start {0}",
            self.id
        )
    }

    /// Returns that the policy is carried out on a number of nodes.
    fn done_text(&self, nodes: usize, instances: Option<&InstanceCount>) -> String {
        let (id, on_nodes) = (&self.id, counted(nodes, "node"));
        match instances.map(|count| count.running) {
            Some(0) => format!("policy {id} is carried out: no instance is wanted"),
            Some(running) => {
                let running = usize::try_from(running).unwrap_or(usize::MAX);
                format!("policy {id} is carried out with {} on {on_nodes}", counted(running, "instance"))
            }
            None if nodes == 0 && self.is_started_by_users => {
                format!("policy {id} is written; start it with: hzn exchange deployment orch start {id}")
            }
            None if nodes == 0 => format!("policy {id} selects no node"),
            None => format!("policy {id} is carried out on {on_nodes}"),
        }
    }

    /// Returns whether a rollout leads to the policy as it was written, and not to its version before.
    fn is_target_of(&self, rollout: &Rollout) -> bool {
        let version = rollout.target.rsplit(' ').next().unwrap_or_default();
        version.is_empty() || self.versions.is_empty() || self.versions.iter().any(|wanted| wanted == version)
    }

    /// Returns whether the agbot has read the policy as it was written; one that does not say so is assumed to have.
    fn is_read_by(&self, reasons: &ReasonsResponse) -> bool {
        let Some(policies) = &reasons.policies else { return true };
        let seen = policies.get(&self.id).and_then(|at| instant(at));
        seen.is_some_and(|seen| self.written_at.is_none_or(|written| seen >= written))
    }

    fn is_running(&self, pair: &PairPlacement) -> bool {
        is_seen_running(pair) && (self.versions.is_empty() || self.versions.contains(&pair.version))
    }
}

/// Returns how many instances the hub starts by itself at least: those of one group, where each group has its own and the agbot does
/// not count them. Nodes without one are left out, so that the nodes alone do not show when all are placed.
fn least_instances(orchestration: &Orchestration) -> usize {
    if orchestration.orchestrate != Orchestrate::Ha {
        return 0;
    }
    let count = match orchestration.mode {
        Mode::Global | Mode::Failover => 1,
        Mode::Replicated => orchestration.replicas.unwrap_or(1),
        Mode::Flex => orchestration.flex.as_ref().map_or(1, |flex| flex.target),
    };
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Returns whether the hub starts and stops instances by itself to keep a number of them in each workload unit.
fn is_counted(orchestration: &Orchestration) -> bool {
    orchestration.orchestrate == Orchestrate::Ha
        && matches!(orchestration.mode, Mode::Replicated | Mode::Flex | Mode::Failover)
}

/// Returns whether nothing further happens to a pair of node and policy, whether the service runs there or not.
pub fn is_settled(pair: &PairPlacement) -> bool {
    is_seen_running(pair) || is_left_out(pair)
}

fn is_seen_running(pair: &PairPlacement) -> bool {
    pair.placement == "placed" && pair.is_running
}

/// Returns whether the node gets nothing from the policy until a user changes something.
fn is_left_out(pair: &PairPlacement) -> bool {
    pair.placement == "not-placed" && !TRANSIENT.contains(&pair.blocked.kind.as_str())
}

fn instant(text: &str) -> Option<Timestamp> {
    // The exchange appends the name of the zone.
    text.split('[').next()?.parse().ok()
}

/// Waits for a policy that was just written, then shows how each node stands.
///
/// # Errors
/// As [`super::Wait::follow`].
pub async fn follow(wait: &super::Wait, context: &Context, exchange: &Exchange, name: &str) -> Outcome {
    if wait.limit.is_none() || context.is_dry_run {
        return Ok(());
    }
    follow_wanted(wait, context, exchange, &WantedPolicy::read(exchange, name).await?).await
}

/// Waits for a policy whose `orchestration` was just changed, then shows how each node stands.
///
/// The change is about no version: where the hub rolled the policy's version back, it is carried out with the version before.
///
/// # Errors
/// As [`super::Wait::follow`].
pub async fn follow_orchestration(
    wait: &super::Wait,
    context: &Context,
    exchange: &Exchange,
    name: &str,
) -> Outcome {
    if wait.limit.is_none() || context.is_dry_run {
        return Ok(());
    }
    let wanted = WantedPolicy { versions: Vec::new(), ..WantedPolicy::read(exchange, name).await? };
    follow_wanted(wait, context, exchange, &wanted).await
}

async fn follow_wanted(
    wait: &super::Wait,
    context: &Context,
    exchange: &Exchange,
    wanted: &WantedPolicy,
) -> Outcome {
    let reasons = RollbackReasons::default();
    let progress = async || wanted.progress(context, exchange, &reasons).await;
    let outcome = wait.follow(context, &format!("deployment policy {}", wanted.id), progress).await;
    let (org, _) = exchange.split(&wanted.id);
    // How it failed comes before what can still be shown.
    if let Ok(view) = crate::agbot::reasons(context, exchange, &org, (None, Some(&wanted.id))).await {
        context.screen.show(&view)?;
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evenkeel_ids::{NodeId, PolicyId};
    use evenkeel_wire::agbot::orchestration::UpdateProgress;
    use serde_json::{Value, json};

    use super::*;
    use crate::wait::rollout::tests::{completed, rollout};

    fn wanted() -> WantedPolicy {
        let document = json!({
            "service": {"name": "s", "org": "o", "arch": "*", "serviceVersions": [{"version": "2.0.0"}]},
            "lastUpdated": "2026-01-01T00:00:05.000Z[UTC]",
        });
        let policy: DeploymentPolicyResponse = serde_json::from_value(document).expect("a policy");
        let wanted = WantedPolicy::of("o/p".to_owned(), &policy);
        assert_eq!(wanted.versions, ["2.0.0"]);
        wanted
    }

    fn pair(node: &str, text: String, state: Value) -> Reason {
        Reason { node: NodeId::from_text(node), policy: PolicyId::from_text("o/p"), state, text }
    }

    fn placed(node: &str, version: &str, is_running: bool) -> Reason {
        let state = json!({"placement": "placed", "version": version, "is_running": is_running});
        pair(node, format!("runs version {version}"), state)
    }

    fn left_out(blocked: &str) -> Reason {
        let state = json!({"placement": "not-placed", "blocked": {"blocked": blocked}});
        pair("o/n9", blocked.to_owned(), state)
    }

    fn reasons(read_at: Option<&str>, pairs: &[Reason]) -> ReasonsResponse {
        let policies = read_at.map(|at| BTreeMap::from([("o/p".to_owned(), at.to_owned())]));
        ReasonsResponse { policies, inert_policies: Vec::new(), reasons: pairs.to_vec() }
    }

    fn judge(pairs: &[Reason], rollouts: &[Rollout]) -> Progress {
        wanted().judge(&reasons(Some("2026-01-01T00:00:05Z"), pairs), rollouts, None)
    }

    #[test]
    fn policy_is_carried_out_when_every_selected_node_runs_a_wanted_version() {
        let new = placed("o/n1", "2.0.0", true);
        let done = judge(&[new.clone(), left_out("constraints")], &[]);
        assert_eq!(done, Progress::Done("policy o/p is carried out on 1 node".to_owned()));
        let pending = judge(&[new.clone(), placed("o/n2", "1.0.0", true)], &[]);
        assert_eq!(pending, Progress::Pending("1 of 2 nodes done; o/n2: runs version 1.0.0".to_owned()));
        assert!(matches!(judge(&[placed("o/n1", "2.0.0", false)], &[]), Progress::Pending(_)));
        assert!(matches!(judge(&[new.clone(), left_out("node-down")], &[]), Progress::Pending(_)));
        assert!(matches!(judge(&[], &[]), Progress::Done(_)));
        let updating = rollout("o/g", json!({"state": "updating"}), "updating");
        assert!(matches!(judge(&[new], &[updating]), Progress::Pending(_)));
    }

    #[test]
    fn policy_whose_instances_are_counted_is_carried_out_when_all_run() {
        let least = |orchestration: Value| {
            let policy = json!({"orchestration": orchestration, "lastUpdated": ""});
            let policy: DeploymentPolicyResponse = serde_json::from_value(policy).expect("a policy");
            WantedPolicy::of("o/p".to_owned(), &policy).least_instances
        };
        assert_eq!(least(json!({"mode": "replicated", "replicas": 2})), 2);
        assert_eq!(least(json!({"mode": "replicated", "replicas": 0})), 0);
        let flex = json!({"mode": "flex", "orchestrate": "ha", "flex": {"min": 1, "max": 5, "target": 3}});
        assert_eq!(least(flex), 3);
        assert_eq!(least(json!({"mode": "failover", "orchestrate": "ha"})), 1);
        assert_eq!(least(json!({"update": {"parallelism": 2}})), 1);
        let wanted = WantedPolicy { least_instances: 2, ..wanted() };
        let judge = |pairs: &[Reason]| wanted.judge(&reasons(Some("2026-01-01T00:00:05Z"), pairs), &[], None);
        let none = judge(&[left_out("no-task")]);
        assert_eq!(none, Progress::Pending("0 of 2 instances run".to_owned()));
        let new = placed("o/n1", "2.0.0", true);
        assert!(matches!(judge(&[new.clone(), left_out("no-task")]), Progress::Pending(_)));
        let all = judge(&[new, placed("o/n2", "2.0.0", true), left_out("no-task")]);
        assert_eq!(all, Progress::Done("policy o/p is carried out on 2 nodes".to_owned()));
    }

    #[test]
    fn instances_are_counted_where_a_node_may_run_several() {
        let of = |orchestration: Value| {
            let policy = json!({"orchestration": orchestration, "lastUpdated": ""});
            let policy: DeploymentPolicyResponse = serde_json::from_value(policy).expect("a policy");
            WantedPolicy::of("o/p".to_owned(), &policy)
        };
        assert!(!of(json!({"mode": "global", "orchestrate": "ha"})).is_counted);
        assert!(!of(json!({"mode": "replicated", "orchestrate": "no"})).is_counted);
        let wanted = of(json!({"mode": "replicated", "replicas": 5, "maxPerNode": 3}));
        assert!(wanted.is_counted);
        let judge = |pairs: &[Reason], running: u64, difference: Option<&str>| {
            let count = InstanceCount {
                running,
                wanted: 5,
                difference: difference.map(str::to_owned),
                is_given_up: false,
                is_stopped: false,
            };
            wanted.judge(&reasons(Some("2026-01-01T00:00:05Z"), pairs), &[], Some(&count))
        };
        let nodes = ["o/n1", "o/n2", "o/n3"].map(|node| placed(node, "1.0.0", true));
        let done = "policy o/p is carried out with 5 instances on 3 nodes".to_owned();
        assert_eq!(judge(&nodes, 5, None), Progress::Done(done));
        let some = "3 of 5 instances run".to_owned();
        assert_eq!(judge(&nodes, 3, Some(&some)), Progress::Pending(some.clone()));
        let starting = judge(&[placed("o/n1", "1.0.0", false)], 3, Some(&some));
        assert_eq!(starting, Progress::Pending(format!("{some}; o/n1: runs version 1.0.0")));
        assert!(
            matches!(judge(&[], 0, None), Progress::Done(text) if text.ends_with("no instance is wanted"))
        );
    }

    #[test]
    fn failover_waits_until_every_group_has_its_instance() {
        let policy = json!({"orchestration": {"mode": "failover", "orchestrate": "ha"}, "lastUpdated": ""});
        let policy: DeploymentPolicyResponse = serde_json::from_value(policy).expect("a policy");
        let wanted = WantedPolicy::of("o/p".to_owned(), &policy);
        assert!(wanted.is_counted);
        let missing = "1 of 2 instances run; line-2: 0 of 1 instances run".to_owned();
        let count = InstanceCount {
            running: 1,
            wanted: 2,
            difference: Some(missing.clone()),
            is_given_up: false,
            is_stopped: false,
        };
        // The nodes of the other group are paused, and no further node is to do anything.
        let pairs = [placed("o/n1", "1.0.0", true), left_out("node-paused")];
        let found = wanted.judge(&reasons(Some("2026-01-01T00:00:05Z"), &pairs), &[], Some(&count));
        assert_eq!(found, Progress::Pending(missing));
    }

    #[test]
    fn write_of_a_stopped_policy_says_how_to_start_it() {
        let of = |orchestrate: &str| {
            let policy =
                json!({"orchestration": {"mode": "global", "orchestrate": orchestrate}, "lastUpdated": ""});
            let policy: DeploymentPolicyResponse = serde_json::from_value(policy).expect("a policy");
            WantedPolicy::of("o/p".to_owned(), &policy)
        };
        let count =
            InstanceCount { running: 0, wanted: 0, difference: None, is_given_up: false, is_stopped: true };
        let found = of("ha").stopped(Some(&count));
        let Some(Progress::Held { why, advice }) = found else { panic!("{found:?}") };
        assert!(why.contains("stopped by a user") && advice.ends_with("orch start o/p"), "{why} {advice}");
        assert_eq!(of("no").stopped(Some(&count)), None);
        assert_eq!(of("ha").stopped(Some(&InstanceCount { is_stopped: false, ..count })), None);
    }

    #[test]
    fn policy_that_users_start_is_carried_out_when_it_is_read() {
        let policy = json!({"orchestration": {"mode": "failover"}, "lastUpdated": ""});
        let policy: DeploymentPolicyResponse = serde_json::from_value(policy).expect("a policy");
        let wanted = WantedPolicy::of("o/p".to_owned(), &policy);
        let found = wanted.judge(&reasons(Some("2026-01-01T00:00:05Z"), &[left_out("no-task")]), &[], None);
        assert!(matches!(&found, Progress::Done(text) if text.contains("orch start o/p")), "{found:?}");
    }

    fn update(state: &str, started_at: &str) -> WorkloadUpdate {
        WorkloadUpdate {
            policy: PolicyId::from_text("o/p"),
            target: "o/s 2.0.0".to_owned(),
            rolled_back_from: None,
            update: UpdateProgress {
                state: state.to_owned(),
                started_at: Some(started_at.to_owned()),
                message: "too many failed".to_owned(),
                ..UpdateProgress::default()
            },
            text: String::new(),
        }
    }

    #[test]
    fn update_by_tasks_that_was_rolled_back_or_is_held_ends_the_wait() {
        let reasons = RollbackReasons::default();
        let found = |state, started_at| wanted().update(&[update(state, started_at)], &reasons);
        let (before, after) = ("2026-01-01T00:00:04Z", "2026-01-01T00:00:06Z");
        assert!(
            matches!(found("rollback-completed", after), Some(Progress::Failed(text)) if text.contains("too many"))
        );
        assert!(matches!(found("paused", after), Some(Progress::Held { .. })));
        assert_eq!(found("completed", after), None);
        assert_eq!(found("rollback-completed", before), None);
        assert_eq!(wanted().update(&[], &reasons), None);
    }

    #[test]
    fn version_that_was_rolled_back_before_is_known() {
        let of = |state: &str, version: Option<&str>| {
            let target = "o/s 1.0.0".to_owned();
            let rolled_back_from = version.map(|version| format!("o/s {version}"));
            [WorkloadUpdate { target, rolled_back_from, ..update(state, "2026-01-01T00:00:04Z") }]
        };
        assert_eq!(wanted().rolled_back(&of("rollback-completed", Some("2.0.0"))), Some("2.0.0"));
        assert_eq!(wanted().rolled_back(&of("rollback-completed", Some("3.0.0"))), None, "it is not wanted");
        assert_eq!(wanted().rolled_back(&of("completed", None)), None);
        assert_eq!(wanted().rolled_back(&[]), None);
    }

    #[test]
    fn update_by_tasks_in_progress_is_waited_for() {
        let found =
            |state, started_at| wanted().update(&[update(state, started_at)], &RollbackReasons::default());
        for started_at in ["2026-01-01T00:00:04Z", "2026-01-01T00:00:06Z"] {
            assert!(matches!(found("updating", started_at), Some(Progress::Pending(_))));
            assert!(matches!(found("rollback-started", started_at), Some(Progress::Pending(_))));
        }
    }

    #[test]
    fn change_that_is_about_no_version_is_carried_out_with_any() {
        let wanted = WantedPolicy { versions: Vec::new(), ..wanted() };
        let found = reasons(Some("2026-01-01T00:00:05Z"), &[placed("o/n1", "1.0.0", true)]);
        assert!(matches!(wanted.judge(&found, &[], None), Progress::Done(_)));
    }

    #[test]
    fn state_of_the_agbot_before_the_change_does_not_count() {
        let pairs = [placed("o/n1", "2.0.0", true)];
        let judge = |reasons: &ReasonsResponse| wanted().judge(reasons, &[], None);
        assert!(matches!(judge(&reasons(Some("2026-01-01T00:00:04Z"), &pairs)), Progress::Pending(_)));
        let absent = ReasonsResponse { policies: Some(BTreeMap::new()), ..reasons(None, &pairs) };
        assert!(matches!(judge(&absent), Progress::Pending(_)));
        assert!(matches!(judge(&reasons(None, &pairs)), Progress::Done(_)));
    }

    #[test]
    fn held_rollout_and_one_that_went_back_end_the_wait() {
        let pairs = [placed("o/n1", "1.0.0", true)];
        let held = rollout("o/g", json!({"state": "held", "hold": {}, "since": "t"}), "held: paused");
        let found = judge(&pairs, std::slice::from_ref(&held));
        assert!(matches!(&found, Progress::Held { why, .. } if why == "o/g: held: paused"), "{found:?}");
        let old = Rollout { target: "o/s 1.5.0".to_owned(), ..held };
        assert!(
            matches!(judge(&pairs, &[old]), Progress::Pending(_)),
            "it is of the policy before the change"
        );
        let back = completed("o/g", true, "went back");
        assert_eq!(judge(&pairs, &[back]), Progress::Failed("o/g: went back".to_owned()));
    }
}
