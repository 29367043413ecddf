//! Waits until a deployment policy is deployed on every node that it selects.

use evenkeel_domain::orchestration::lifecycle::UpgradeLifecycle;
use evenkeel_domain::orchestration::{Mode, Orchestrate, Orchestration};
use evenkeel_wire::agbot::reason::{PairPlacement, Reason, ReasonsResponse};
use evenkeel_wire::agbot::rollout::{Rollout, RolloutState, WorkloadUpdate};
use evenkeel_wire::exchange::deployment_policy::{DeployedServiceVersion, DeploymentPolicyResponse};
use jiff::Timestamp;
use serde_json::json;

use super::instances::InstanceCount;
use super::update::RollbackReasons;
use super::{Progress, cause};
use crate::context::{Context, Exchange};
use crate::exit::Outcome;
use crate::orchestration::clause_advice;
use crate::output::counted;
use crate::resource::kinds::POLICIES;

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

/// Reasons for which the replacement of an instance waits, and that end without a user and without another node.
const REPLACING: [&str; 6] =
    ["just-started", "claim-requested", "delay", "old-copy-stopping", "waiting-for-reply", "backing-off"];

/// The policy to wait for, as it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedPolicy {
    /// `org/policy`.
    pub id: String,
    /// Its versions; any when there is none.
    pub versions: Vec<String>,
    /// When it was written.
    pub written_at: Option<Timestamp>,
    /// Number of instances that it has at least, if the hub counts them.
    pub least_instances: usize,
    /// True if the hub keeps a number of instances in each workload unit.
    pub is_counted: bool,
    /// True if its instances start only when a user requests it.
    pub is_started_by_users: bool,
    /// True if a number of instances is wanted.
    pub has_number: bool,
    /// True if the policy is carried out by tasks, so that a user may stop it.
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
        // Running instances may keep their version.
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
    /// With status 8 when the policy was deleted, 5 when the agbot does not respond.
    pub async fn progress(
        &self,
        context: &Context,
        exchange: &Exchange,
        reasons: &RollbackReasons,
    ) -> Outcome<Progress> {
        let org = exchange.split(&self.id).0;
        let agbot = context.agbot(exchange)?;
        let placements = agbot.call("asking the agbot for its reasons", agbot.client.reasons(&org)).await?;
        if let Some(inert) = self.inert(&placements) {
            return Ok(inert);
        }
        if !self.is_read_by(&placements) {
            // An agbot that has read the deletion cannot be distinguished from one that has not read the change.
            POLICIES.require(exchange, &self.id).await?;
        }
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
        match self.update(&rollouts.workloads, reasons) {
            // A slot without a node blocks no other one, so that nothing is in progress.
            Some(Progress::Pending(text)) if self.is_set_aside(&rollouts.workloads) => {
                return cause::with_cause(context, exchange, &self.cause(&placements), text).await;
            }
            Some(update) => return Ok(update),
            None => {}
        }
        match self.judge(&placements, &rollouts.rollouts, instances.as_ref()) {
            Progress::Pending(text) => match self.rolled_back(&rollouts.workloads) {
                Some(version) => Ok(Progress::Held {
                    why: format!("{text}; version {version} was rolled back before"),
                    advice: format!("try it again with: hzn rollout retry {}", self.id),
                }),
                None => cause::with_cause(context, exchange, &self.cause(&placements), text).await,
            },
            judged => Ok(judged),
        }
    }

    fn cause(&self, reasons: &ReasonsResponse) -> cause::Wanted<'_> {
        let pairs = reasons.reasons.iter().filter(|pair| pair.policy.as_str() == self.id);
        let mut kinds = pairs.map(|pair| pair.placement().blocked.kind);
        let is_replacing = kinds.any(|kind| REPLACING.contains(&kind.as_str()));
        cause::Wanted { policy: &self.id, versions: &self.versions, is_replacing }
    }

    /// Returns that a user has to act, if the policy has no effect because a part of it cannot be parsed.
    fn inert(&self, reasons: &ReasonsResponse) -> Option<Progress> {
        let mut inert = reasons.inert_policies.iter();
        let found = inert.find(|one| one.kind == "deployment" && one.id == self.id)?;
        Some(Progress::Held {
            why: found.text(),
            advice: "correct the policy; until then it selects nothing".to_owned(),
        })
    }

    /// Returns whether all that an update still has to do has no node.
    fn is_set_aside(&self, workloads: &[WorkloadUpdate]) -> bool {
        let update = self.own(workloads).map(|own| &own.update);
        update.is_some_and(|update| update.set_aside > 0 && update.done >= update.total)
    }

    /// Returns the state of the update by tasks, unless it has completed: it is in progress, held, or was
    /// rolled back.
    ///
    /// An update in progress counts whenever it began, because a policy may be written without a change of its version. How an update
    /// ended counts only if it began after the policy was written.
    fn update(&self, workloads: &[WorkloadUpdate], reasons: &RollbackReasons) -> Option<Progress> {
        let own = self.own(workloads)?;
        let began = own.update.started_at.as_deref().and_then(instant);
        let is_later = began.is_some_and(|at| self.written_at.is_none_or(|written| at >= written));
        let is_open = matches!(own.update.state.as_str(), "updating" | "rollback-started");
        match reasons.progress(&self.id, &own.update, false) {
            Progress::Done(_) => None,
            progress if is_open => Some(progress),
            stopped => is_later.then_some(stopped),
        }
    }

    /// Returns the version of the policy that the hub does not deploy, because it rolled it back before the policy was written.
    ///
    /// Until the agbot has read the policy, the version that was rolled back may be one that the policy no
    /// longer names.
    fn rolled_back<'w>(&self, workloads: &'w [WorkloadUpdate]) -> Option<&'w str> {
        let own = self.own(workloads).filter(|own| own.update.state == "rollback-completed")?;
        let version = own.rolled_back_from.as_deref()?.rsplit(' ').next()?;
        self.versions.iter().any(|wanted| wanted == version).then_some(version)
    }

    fn own<'w>(&self, workloads: &'w [WorkloadUpdate]) -> Option<&'w WorkloadUpdate> {
        workloads.iter().find(|one| one.policy.as_str() == self.id)
    }

    /// Returns that a user has to act, if a user has stopped the policy. A policy whose instances only users start
    /// counts as deployed once it is written.
    fn stopped(&self, instances: Option<&InstanceCount>) -> Option<Progress> {
        let is_stopped = instances.is_some_and(|count| count.is_stopped) && !self.is_started_by_users;
        is_stopped.then(|| Progress::Held {
            why: format!("policy {} is stopped by a user, and nothing of it starts", self.id),
            advice: format!("start it with: hzn exchange deployment orchestration start {}", self.id),
        })
    }

    fn judge(
        &self,
        reasons: &ReasonsResponse,
        rollouts: &[Rollout],
        instances: Option<&InstanceCount>,
    ) -> Progress {
        if !self.is_read_by(reasons) {
            return Progress::Unread(format!(
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
                    "policy {0} is written: {difference}; start and stop instances with: hzn exchange deployment orchestration start {0}, or stop",
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
            "see why with: hzn exchange deployment orchestration events {0}, then start them with: hzn exchange deployment orchestration start {0}",
            self.id
        )
    }

    /// Returns the outcome for a policy that is deployed on a number of nodes.
    fn done_text(&self, nodes: usize, instances: Option<&InstanceCount>) -> String {
        let (id, on_nodes) = (&self.id, counted(nodes, "node"));
        match instances.map(|count| count.running) {
            Some(0) => format!("policy {id} is deployed: no instance is wanted"),
            Some(running) => {
                let running = usize::try_from(running).unwrap_or(usize::MAX);
                format!("policy {id} is deployed with {} on {on_nodes}", counted(running, "instance"))
            }
            None if nodes == 0 && self.is_started_by_users => {
                format!(
                    "policy {id} is written; start it with: hzn exchange deployment orchestration start {id}"
                )
            }
            None if nodes == 0 => format!("policy {id} selects no node; {}", clause_advice(id)),
            None => format!("policy {id} is deployed on {on_nodes}"),
        }
    }

    /// Returns whether a rollout leads to the policy as it was written, and not to its version before.
    fn is_target_of(&self, rollout: &Rollout) -> bool {
        let version = rollout.target.rsplit(' ').next().unwrap_or_default();
        version.is_empty() || self.versions.is_empty() || self.versions.iter().any(|wanted| wanted == version)
    }

    /// Returns whether the agbot has read the policy as it was written; one that does not report it is
    /// assumed to have read it.
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

/// Waits for a policy that was just written, then shows the state of each node.
///
/// # Errors
/// See [`super::Wait::follow`].
pub async fn follow(wait: &super::Wait, context: &Context, exchange: &Exchange, name: &str) -> Outcome {
    if wait.limit.is_none() || context.is_dry_run {
        return Ok(());
    }
    follow_wanted(wait, context, exchange, &WantedPolicy::read(exchange, name).await?).await
}

/// Waits for a policy whose `orchestration` was just changed, then shows the state of each node.
///
/// The change is about no version: where the hub rolled the policy's version back, the version before is deployed.
///
/// # Errors
/// See [`super::Wait::follow`].
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
    // The failure is reported before the remaining states.
    if let Ok(view) = crate::reasons::reasons(context, exchange, &org, (None, Some(&wanted.id))).await {
        context.screen.show(&view)?;
    }
    outcome
}

#[cfg(test)]
mod tests;
