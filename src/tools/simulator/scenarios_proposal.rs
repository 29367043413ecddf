//! A proposal that follows a cancel: sent at once and twice, acknowledged when the old instance is gone, repeated when it was dropped.

use jiff::Timestamp;

use super::scenarios::{lab, node, policy};
use evenkeel_planner::decide::decide;
use evenkeel_planner_model::{
    command::{Action, Command, Decision, MessageFate},
    event::{AgreementMessage, Event, MessageBody, Outcome},
    model::Model,
};
use evenkeel_planner_record::{
    agreement::{Agreement, CancelReason},
    facts::NodeStatusFacts,
    time::later,
};

/// A node whose agreement has just ended, while its status still lists the instance.
struct Canceled {
    model: Model,
    now: Timestamp,
}

impl Canceled {
    fn new() -> Canceled {
        Canceled::with(CancelReason::POLICY_CHANGED)
    }

    fn with(reason: CancelReason) -> Canceled {
        let world = lab(&["n1"]);
        let mut canceled = Canceled { model: world.agbots[0].model.clone(), now: world.now() };
        let old = canceled.model.live_agreement(&node("n1"), &policy("w")).unwrap().id.clone();
        canceled.done(Action::Cancel {
            agreement: old,
            node: node("n1"),
            policy: policy("w"),
            reason,
            cause: "replaced by version 2.0.0".into(),
            claim: None,
            usage: None,
            backoff: None,
            notifies_node: true,
        });
        canceled
    }

    fn event(&mut self, event: &Event) -> Decision {
        self.model.apply(event, self.now);
        decide(&self.model, event, self.now, 1)
    }

    fn done(&mut self, action: Action) -> Decision {
        let lease = self.model.lease_for(&node("n1")).unwrap();
        let command = Box::new(Command { lease, action });
        self.event(&Event::CommandOutcome { command, outcome: Outcome::Done })
    }

    /// Proposes once more, up to the second send.
    fn proposed(&mut self) -> Agreement {
        let decision = self.event(&Event::FullReconcile);
        let proposal = actions(&decision).find_map(|action| match action {
            Action::Propose { agreement, .. } => Some((**agreement).clone()),
            _ => None,
        });
        let agreement = proposal.expect("the proposal does not wait for the old instance");
        let decision = self.done(Action::Propose { agreement: Box::new(agreement.clone()), claim: None });
        assert!(repeats(&decision), "a second proposal follows at once");
        let decision = self.done(Action::RepeatProposal { agreement: Box::new(agreement.clone()) });
        assert!(!repeats(&decision), "two proposals are enough");
        agreement
    }

    /// The node reports, a second later, that nothing runs.
    fn old_instance_gone(&mut self) -> Decision {
        self.now = later(self.now, 1);
        let status = NodeStatusFacts { reported_at: Some(self.now), ..NodeStatusFacts::default() };
        self.event(&Event::NodeStatusChanged { node: node("n1"), status: Some(Box::new(status)) })
    }
}

fn actions(decision: &Decision) -> impl Iterator<Item = &Action> {
    decision.commands.iter().map(|command| &command.action)
}

fn repeats(decision: &Decision) -> bool {
    actions(decision).any(|action| matches!(action, Action::RepeatProposal { .. }))
}

fn acknowledges(decision: &Decision) -> bool {
    actions(decision).any(|action| matches!(action, Action::AcknowledgeReply { decision: true, .. }))
}

#[test]
fn acknowledgement_waits_until_the_old_instance_is_gone() {
    let mut canceled = Canceled::new();
    let agreement = canceled.proposed();
    let message = AgreementMessage {
        from: node("n1"),
        agreement: agreement.id,
        body: MessageBody::Reply { decision: true },
    };
    let decision = canceled.event(&Event::Message { message: Box::new(message) });
    assert!(!acknowledges(&decision), "the old instance still runs");
    assert_eq!(decision.message, Some(MessageFate::Leave), "a restarted agbot reads the reply again");
    let decision = canceled.old_instance_gone();
    assert!(acknowledges(&decision) && !repeats(&decision));
}

#[test]
fn proposal_without_a_reply_is_repeated_when_the_old_instance_is_gone() {
    let mut canceled = Canceled::new();
    let agreement = canceled.proposed();
    let decision = canceled.old_instance_gone();
    assert!(repeats(&decision) && !acknowledges(&decision), "the node may have dropped both proposals");
    let decision = canceled.done(Action::RepeatProposal { agreement: Box::new(agreement) });
    assert!(!repeats(&decision), "until it reports again");
}

#[test]
fn node_that_ended_the_agreement_itself_gets_no_proposal_while_it_reports_the_instance() {
    let mut canceled = Canceled::with(CancelReason::NODE_SHUT_DOWN);
    let proposes =
        |decision: &Decision| actions(decision).any(|action| matches!(action, Action::Propose { .. }));
    let decision = canceled.event(&Event::FullReconcile);
    assert!(!proposes(&decision), "it is being unregistered");
    let decision = canceled.old_instance_gone();
    assert!(proposes(&decision), "it stays registered");
}
