//! Deliberate faults: agbots with falsified inputs, to show that the invariant checker detects violations.
//!
//! The planner is unchanged and has no switch for this. Its inputs are falsified: settings, policies, node statuses.

use evenkeel_domain::orchestration::health_policy::{HealthPolicy, Ratio};
use evenkeel_ids::NodeId;
use evenkeel_planner_model::{event::Event, model::Model};
use evenkeel_planner_record::{
    agreement::Agreement,
    facts::{DeploymentPolicyFacts, NodeStatusFacts, ObservedService},
    settings::PlannerSettings,
};
use jiff::Timestamp;

/// The deliberate faults of all agbots of a run; none by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DeliberateFaults {
    /// Agbots assume that an instance may stop regardless of the others.
    pub ignores_minimum: bool,
    /// Agbots assume that no policy limits how many groups are updated at once.
    pub ignores_parallelism: bool,
    /// Agbots assume that no workload must keep away from another one.
    pub ignores_affinity: bool,
    /// Agbots assume that nothing of the capacities is kept free.
    pub ignores_buffer: bool,
    /// Agbots assume that any number of instances may be recovered at once.
    pub ignores_recovery_limit: bool,
    /// Agbots assume that no failure is one that most instances share.
    pub ignores_common_cause: bool,
    /// Agbots assume that an instance has failed when its check is broken.
    pub trusts_broken_checks: bool,
    /// Agbots assume that no policy fences.
    pub ignores_fencing: bool,
    /// Agbots assume that the instance of every final agreement runs.
    pub trusts_agreements: bool,
    /// Agbots assume that nodes run exactly what is recorded, and see no status report.
    pub trusts_records: bool,
    /// The outbox of an agbot is lost with its process.
    pub loses_messages: bool,
}

impl DeliberateFaults {
    /// Returns the settings that an agbot uses.
    pub fn settings(self, hub: &PlannerSettings) -> PlannerSettings {
        let mut settings = hub.clone();
        if self.ignores_minimum {
            settings.update.min_running = 0;
        }
        if self.ignores_parallelism {
            settings.update.parallelism = 0;
        }
        settings
    }

    /// Returns the event that an agbot sees instead of an event of the exchange; `None` when it sees none.
    pub fn seen(self, event: Event, model: &Model) -> Option<Event> {
        match event {
            Event::NodeStatusChanged { .. } if self.trusts_records => None,
            Event::OrgSettingsChanged { .. } if self.ignores_buffer => None,
            Event::NodeStatusChanged { node, status: Some(mut status) } => {
                let reported = std::mem::take(&mut status.services);
                status.services = self.assumed_services(model, &node, reported);
                Some(Event::NodeStatusChanged { node, status: Some(status) })
            }
            Event::DeploymentPolicyChanged { policy } => {
                Some(Event::DeploymentPolicyChanged { policy: Box::new(self.policy(*policy)) })
            }
            Event::NodeTasksChanged { node, tasks, mut health } if self.trusts_broken_checks => {
                for one in health.values_mut() {
                    if one.check_error.take().is_some() {
                        one.healthy = Some(false);
                    }
                }
                Some(Event::NodeTasksChanged { node, tasks, health })
            }
            event => Some(event),
        }
    }

    fn policy(self, mut policy: DeploymentPolicyFacts) -> DeploymentPolicyFacts {
        let update = &mut policy.orchestration.update;
        if self.ignores_minimum {
            update.min_running = None;
        }
        if self.ignores_parallelism {
            update.parallelism = None;
        }
        if let Some(document) = policy.orchestration.document.as_deref_mut().filter(|_| self.ignores_affinity)
        {
            document.placement.affinity.hard_anti.clear();
        }
        let document = policy.orchestration.document.as_deref_mut();
        if let Some(health) = document.and_then(|document| document.health_policy.as_mut()) {
            self.falsify(health);
        }
        policy
    }

    fn falsify(self, health: &mut HealthPolicy) {
        if self.ignores_recovery_limit {
            health.recovery.parallelism = Some(u32::MAX);
        }
        if self.ignores_common_cause {
            health.recovery.max_unhealthy_ratio = Ratio::nearest(1.0);
        }
        if self.ignores_fencing {
            health.recovery.fencing.clear();
        }
    }

    /// Returns the assumed statuses that differ from those in an agbot's model.
    pub fn assumed_statuses(self, model: &Model, now: Timestamp) -> Vec<Event> {
        if !self.trusts_records && !self.trusts_agreements {
            return Vec::new();
        }
        let changed = model.nodes().filter_map(|record| {
            let known = record.status.as_ref().map(|status| &status.services);
            let node = &record.facts.id;
            let services = self.assumed_services(model, node, known.cloned().unwrap_or_default());
            (known != Some(&services)).then(|| (node.clone(), services))
        });
        let event = |(node, services)| {
            let status = NodeStatusFacts { services, reported_at: Some(now), ..NodeStatusFacts::default() };
            Event::NodeStatusChanged { node, status: Some(Box::new(status)) }
        };
        changed.map(event).collect()
    }

    fn assumed_services(
        self,
        model: &Model,
        node: &NodeId,
        reported: Vec<ObservedService>,
    ) -> Vec<ObservedService> {
        if !self.trusts_records && !self.trusts_agreements {
            return reported;
        }
        let mut services = if self.trusts_records { Vec::new() } else { reported };
        let on_node = |one: &&Agreement| one.node == *node && one.finalized_at().is_some();
        for agreement in model.agreements().filter(on_node) {
            services.retain(|service| service.agreement.as_ref() != Some(&agreement.id));
            services.push(ObservedService {
                agreement: Some(agreement.id.clone()),
                service: agreement.service_key.clone(),
                version: agreement.version.clone(),
                is_running: true,
            });
        }
        services
    }
}
