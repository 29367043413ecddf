//! A small model for tests: an HA group whose members each run one service.

use evenkeel_ids::{GroupId, NodeId};
use evenkeel_planner_record::{
    facts::{HaGroupFacts, NodeFacts, NodeStatusFacts, ObservedService},
    fixture::{agreement, at},
    settings::PlannerSettings,
};
use jiff::Timestamp;

use crate::{event::Event, model::Model};

/// Returns a model of group `o/g`, in which every member has a final agreement and reports that its service runs, and the time.
pub fn running_group(members: &[&str]) -> (Model, Timestamp) {
    let mut model = Model::new(PlannerSettings::default());
    let now = at(100);
    let nodes = members.iter().map(|name| NodeId::new("o", name));
    let group = HaGroupFacts::new(GroupId::from_text("o/g"), nodes);
    model.apply(&Event::HaGroupChanged { group: Box::new(group) }, at(0));
    let hear = |model: &mut Model, now: Timestamp| {
        for name in members {
            let node = node(&NodeId::new("o", name), now);
            model.apply(&Event::NodeChanged { node: Box::new(node) }, now);
        }
    };
    hear(&mut model, at(0));
    hear(&mut model, at(50));
    for name in members {
        let agreement = agreement(name).finalize(at(1)).expect("a proposed agreement becomes final");
        let status = NodeStatusFacts {
            services: vec![ObservedService {
                agreement: Some(agreement.id.clone()),
                service: agreement.service_key.clone(),
                version: agreement.version.clone(),
                is_running: true,
            }],
            reported_at: Some(at(50)),
            ..NodeStatusFacts::default()
        };
        let node = agreement.node.clone();
        model.apply(&Event::AgreementRecorded { agreement: Box::new(agreement) }, at(50));
        model.apply(&Event::NodeStatusChanged { node, status: Some(Box::new(status)) }, at(50));
    }
    hear(&mut model, now);
    (model, now)
}

fn node(id: &NodeId, last_heartbeat: Timestamp) -> NodeFacts {
    NodeFacts {
        arch: "amd64".into(),
        public_key: "key".into(),
        last_heartbeat: Some(last_heartbeat),
        ..NodeFacts::new(id.clone())
    }
}
