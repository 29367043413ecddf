//! Laws of [`decide`]: the event only narrows the scope, and the same input gives the same bytes.

use evenkeel_planner::decide::decide;
use evenkeel_planner_model::{
    command::Command,
    event::{Event, Outcome},
    model::Model,
};
use evenkeel_planner_record::{
    facts::{Availability, NodeFacts},
    time::later,
};
use jiff::Timestamp;

use super::laws::{settled_world, shake};

/// A full pass gives the commands that the narrowed pass gave, for every event in a settled world.
#[test]
fn event_only_narrows_the_scope() {
    let mut decisions = 0;
    for seed in 0..60 {
        let (mut model, now) = settled_world(seed);
        for event in shake(&model, now, seed) {
            model.apply(&event, now);
            let narrow = decide(&model, &event, now, seed);
            // A message requires a reply that no state shows; everything else follows from the state.
            let full = decide(&model, &Event::FullReconcile, now, seed);
            assert_eq!(narrow.commands, full.commands, "seed {seed}, event {event:?}");
            decisions += narrow.commands.len();
            model.note(&narrow, now);
        }
    }
    assert!(decisions > 50, "only {decisions} commands were compared");
}

#[test]
fn same_input_gives_the_same_bytes() {
    let (mut model, now) = settled_world(3);
    for event in shake(&model, now, 3) {
        model.apply(&event, now);
        let one = serde_json::to_string(&decide(&model, &event, now, 9)).unwrap();
        let two = serde_json::to_string(&decide(&model.clone(), &event, now, 9)).unwrap();
        assert_eq!(one, two);
    }
}

/// An operator's next change must not wait half a minute because two commands met.
#[test]
fn command_that_was_not_carried_out_is_tried_again_soon() {
    let why = String::new;
    for (outcome, pause) in [(Outcome::Refused { why: why() }, 2), (Outcome::Failed { why: why() }, 1)] {
        let (mut model, now) = settled_world(3);
        let drain = drain_of_the_first_node(&model);
        model.apply(&drain, now);
        let decision = decide(&model, &drain, now, 1);
        let command = decision.commands.first().unwrap().clone();
        model.note(&decision, now);
        let refusal = Event::CommandOutcome { command: Box::new(command.clone()), outcome };
        model.apply(&refusal, now);
        assert!(!repeats(&model, later(now, pause - 1), &command), "not before {pause} s");
        assert!(repeats(&model, later(now, pause), &command), "after {pause} s");
    }
}

#[test]
fn pause_after_a_failed_command_doubles_up_to_the_limit() {
    let (mut model, mut now) = settled_world(3);
    let drain = drain_of_the_first_node(&model);
    model.apply(&drain, now);
    let command = decide(&model, &drain, now, 1).commands.first().unwrap().clone();
    for pause in [1, 2, 4, 5, 5] {
        let outcome = Outcome::Failed { why: String::new() };
        let event = Event::CommandOutcome { command: Box::new(command.clone()), outcome };
        model.apply(&event, now);
        assert!(!repeats(&model, later(now, pause - 1), &command), "not before {pause} s");
        now = later(now, pause);
        assert!(repeats(&model, now, &command), "after {pause} s");
    }
}

fn drain_of_the_first_node(model: &Model) -> Event {
    let node = model.nodes().next().expect("a node").facts.clone();
    Event::NodeChanged { node: Box::new(NodeFacts { availability: Availability::Drain, ..node }) }
}

fn repeats(model: &Model, now: Timestamp, command: &Command) -> bool {
    let commands = decide(model, &Event::FullReconcile, now, 1).commands;
    commands.iter().any(|again| again.action.key() == command.action.key())
}
