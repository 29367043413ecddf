//! Organizations that could not be read.

use evenkeel_planner_model::{event::Event, model::Model};
use evenkeel_planner_record::{fixture, settings::PlannerSettings};

use crate::decide::decide;

/// A model as after a start: the record of an agreement, and nothing of its organization.
fn after_a_start() -> Model {
    let mut model = Model::new(PlannerSettings::default());
    let leases = (0..model.settings.partition_count).map(|partition| (partition, 1)).collect();
    model.apply(&Event::PartitionsChanged { leases }, fixture::at(0));
    let agreement = fixture::agreement("a").finalize(fixture::at(1));
    let agreement = agreement.expect("a proposed agreement becomes final");
    model.apply(&Event::AgreementRecorded { agreement: Box::new(agreement) }, fixture::at(1));
    model
}

#[test]
fn nothing_ends_in_an_organization_that_could_not_be_read() {
    let mut model = after_a_start();
    let unread = |orgs: &[&str]| Event::OrgsUnread {
        orgs: orgs.iter().map(|org| org.parse().expect("an organization")).collect(),
    };
    model.apply(&unread(&["o"]), fixture::at(2));
    let decision = decide(&model, &Event::FullReconcile, fixture::at(1000), 1);
    assert_eq!(decision.commands, [], "its node and policy are not known");
    model.apply(&unread(&[]), fixture::at(3));
    let decision = decide(&model, &unread(&[]), fixture::at(1000), 1);
    assert!(!decision.commands.is_empty(), "it was read, and has no such node");
}
