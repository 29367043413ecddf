//! The simulated exchange: resources and the change feed that names them in commit order.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::agent_tasks::NodeTask;
use evenkeel_domain::orchestration::org_settings::OrgSettings;
use evenkeel_ids::{GroupId, NodeId, OrgId, PolicyId, ServiceId, TaskId};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::{
    departure::{Departure, Departures},
    facts::{DeploymentPolicyFacts, HaGroupFacts, NodeFacts, NodePolicyFacts, NodeStatusFacts, ServiceFacts},
    workload::ReportedHealth,
};

/// Returns the organization that the agbots serve.
fn served_org() -> OrgId {
    "o".parse().expect("an organization")
}

/// The resource of a change record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    Node(NodeId),
    NodePolicy(NodeId),
    NodeStatus(NodeId),
    NodeTasks(NodeId),
    Service(ServiceId),
    Policy(PolicyId),
    Group(GroupId),
    OrgSettings,
}

#[derive(Debug, Clone)]
pub(crate) struct StoredNode {
    pub facts: NodeFacts,
    pub policy: NodePolicyFacts,
    pub status: Option<NodeStatusFacts>,
}

#[derive(Debug, Default)]
pub(crate) struct Exchange {
    pub nodes: BTreeMap<NodeId, StoredNode>,
    pub services: BTreeMap<ServiceId, ServiceFacts>,
    pub policies: BTreeMap<PolicyId, DeploymentPolicyFacts>,
    pub groups: BTreeMap<GroupId, HaGroupFacts>,
    /// Deleted nodes whose agents have not confirmed that they stopped everything.
    pub departures: Departures,
    /// The settings of the organization.
    pub org_settings: OrgSettings,
    /// The tasks of nodes that read them.
    pub tasks: BTreeMap<NodeId, BTreeMap<TaskId, NodeTask>>,
    pub feed: Vec<Resource>,
}

impl Exchange {
    pub fn put_node(&mut self, node: StoredNode) {
        let id = node.facts.id.clone();
        self.feed.extend([Resource::Node(id.clone()), Resource::NodePolicy(id.clone())]);
        self.nodes.insert(id, node);
    }

    pub fn remove_node(&mut self, id: &NodeId) {
        self.nodes.remove(id);
        self.tasks.remove(id);
        self.feed.push(Resource::Node(id.clone()));
        let group = self.groups.values_mut().find(|group| group.members.contains(id));
        if let Some(group) = group {
            group.members.remove(id);
            self.feed.push(Resource::Group(group.id.clone()));
        }
    }

    /// Deletes a node whose agent is alive.
    pub fn remove_live_node(&mut self, id: &NodeId, now: Timestamp) {
        let seen = self.nodes.get(id).and_then(|node| node.facts.last_heartbeat);
        let seen_at = seen.map_or(now, |at| at.min(now));
        let departure = Departure { deleted_at: now, seen_at, leases: BTreeMap::new() };
        self.departures.insert(id.clone(), departure);
        self.remove_node(id);
    }

    /// The agent of a deleted node confirms that it stopped everything.
    pub fn confirm_departure(&mut self, id: &NodeId) {
        if self.departures.remove(id).is_some() {
            self.feed.push(Resource::Node(id.clone()));
        }
    }

    /// Reads which deleted nodes have not confirmed their end.
    pub fn departures(&self) -> Event {
        Event::DeparturesRead { org: served_org(), nodes: self.departures.clone() }
    }

    pub fn put_status(&mut self, id: &NodeId, status: NodeStatusFacts) {
        if let Some(node) = self.nodes.get_mut(id) {
            node.status = Some(status);
            self.feed.push(Resource::NodeStatus(id.clone()));
        }
    }

    /// Records that a node reported about its tasks.
    pub fn note_tasks(&mut self, id: &NodeId) {
        self.feed.push(Resource::NodeTasks(id.clone()));
    }

    /// Replaces the capability report of a node's agent: true if it reads tasks.
    pub fn set_capable(&mut self, id: &NodeId, is_capable: bool) {
        if let Some(node) = self.nodes.get_mut(id) {
            node.facts.is_capable = is_capable;
            self.feed.push(Resource::Node(id.clone()));
        }
    }

    pub fn put_heartbeat(&mut self, id: &NodeId, at: Timestamp) {
        if let Some(node) = self.nodes.get_mut(id) {
            node.facts.last_heartbeat = Some(at);
        }
    }

    pub fn put_service(&mut self, service: ServiceFacts) {
        self.feed.push(Resource::Service(service.id.clone()));
        self.services.insert(service.id.clone(), service);
    }

    pub fn put_policy(&mut self, policy: DeploymentPolicyFacts) {
        self.feed.push(Resource::Policy(policy.id.clone()));
        self.policies.insert(policy.id.clone(), policy);
    }

    pub fn remove_policy(&mut self, id: &PolicyId) {
        self.policies.remove(id);
        self.feed.push(Resource::Policy(id.clone()));
    }

    /// Writes a group; its members leave their other groups in the same step.
    pub fn put_group(&mut self, group: HaGroupFacts) {
        for other in self.groups.values_mut().filter(|other| other.id != group.id) {
            let before = other.members.len();
            other.members.retain(|member| !group.members.contains(member));
            if other.members.len() != before {
                self.feed.push(Resource::Group(other.id.clone()));
            }
        }
        self.feed.push(Resource::Group(group.id.clone()));
        self.groups.insert(group.id.clone(), group);
    }

    pub fn put_org_settings(&mut self, settings: OrgSettings) {
        self.org_settings = settings;
        self.feed.push(Resource::OrgSettings);
    }

    /// Reads the current resource, as a reader of the feed does.
    pub fn read(&self, resource: &Resource) -> Event {
        match resource {
            Resource::Node(id) => match self.nodes.get(id) {
                Some(node) => Event::NodeChanged { node: Box::new(node.facts.clone()) },
                None => Event::NodeRemoved { node: id.clone() },
            },
            Resource::NodePolicy(id) => {
                let policy = self.nodes.get(id).map(|node| Box::new(node.policy.clone()));
                Event::NodePolicyChanged { node: id.clone(), policy }
            }
            Resource::NodeStatus(id) => {
                let status = self.nodes.get(id).and_then(|node| node.status.clone()).map(Box::new);
                Event::NodeStatusChanged { node: id.clone(), status }
            }
            Resource::NodeTasks(id) => {
                let reported = |(id, task): (&TaskId, &NodeTask)| Some((id.clone(), task.report.clone()?));
                let tasks = self.tasks.get(id).into_iter().flatten().filter_map(reported).collect();
                let health = self.tasks.get(id).into_iter().flatten();
                let health = health.filter(|(_, task)| task.health != ReportedHealth::default());
                let health = health.map(|(id, task)| (id.clone(), task.health.clone())).collect();
                Event::NodeTasksChanged { node: id.clone(), tasks, health }
            }
            Resource::Service(id) => match self.services.get(id) {
                Some(service) => Event::ServiceChanged { service: Box::new(service.clone()) },
                None => Event::ServiceRemoved { service: id.clone() },
            },
            Resource::Policy(id) => match self.policies.get(id) {
                Some(policy) => Event::DeploymentPolicyChanged { policy: Box::new(policy.clone()) },
                None => Event::DeploymentPolicyRemoved { policy: id.clone() },
            },
            Resource::Group(id) => match self.groups.get(id) {
                Some(group) => Event::HaGroupChanged { group: Box::new(group.clone()) },
                None => Event::HaGroupRemoved { group: id.clone() },
            },
            Resource::OrgSettings => {
                Event::OrgSettingsChanged { org: served_org(), settings: Box::new(self.org_settings.clone()) }
            }
        }
    }

    /// Reads everything, as a starting agbot does.
    pub fn read_all(&self) -> Vec<Event> {
        let services = self.services.keys().cloned().map(Resource::Service);
        let policies = self.policies.keys().cloned().map(Resource::Policy);
        let groups = self.groups.keys().cloned().map(Resource::Group);
        let nodes = self.nodes.keys().flat_map(|id| {
            [
                Resource::Node(id.clone()),
                Resource::NodePolicy(id.clone()),
                Resource::NodeStatus(id.clone()),
                Resource::NodeTasks(id.clone()),
            ]
        });
        let has_settings = self.org_settings != OrgSettings::default();
        let settings = has_settings.then_some(Resource::OrgSettings).into_iter();
        let all: Vec<Resource> =
            settings.chain(services).chain(policies).chain(groups).chain(nodes).collect();
        let orgs_read = Event::OrgsRead { orgs: [served_org()].into() };
        [orgs_read, self.departures()]
            .into_iter()
            .chain(all.iter().map(|resource| self.read(resource)))
            .collect()
    }

    pub fn heartbeats(&self) -> Event {
        let seen = |(id, node): (&NodeId, &StoredNode)| node.facts.last_heartbeat.map(|at| (id.clone(), at));
        Event::HeartbeatsSeen { at: self.nodes.iter().filter_map(seen).collect() }
    }

    pub fn group_of(&self, node: &NodeId) -> Option<&HaGroupFacts> {
        self.groups.values().find(|group| group.members.contains(node))
    }
}
