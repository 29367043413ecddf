//! Requests for approvals in words.

use std::fmt::Write as _;

use evenkeel_wire::exchange::plan_approval::{ApprovalPlan, PlanApproval};

/// Returns the plan of a request in words.
pub(super) fn plan_text(approval: &PlanApproval) -> String {
    let none = ApprovalPlan::default();
    let ApprovalPlan { summary, lines, others, token, .. } = approval.plan.as_ref().unwrap_or(&none);
    let mut text = format!("{}\n", approval.title);
    // Writing to a text cannot fail.
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
    if *others > 0 {
        let _ = writeln!(text, "  and {others} more");
    }
    let _ = writeln!(text, "plan: {summary}");
    let _ = writeln!(text, "token: {token}");
    text
}

/// Returns a request with its plan in words.
pub(super) fn whole_text(approval: &PlanApproval) -> String {
    let mut text = format!("request {}: {}\n", approval.id, approval.state);
    let _ =
        writeln!(text, "requested by {} at {}: {}", approval.requester, approval.created_at, approval.reason);
    if let (Some(by), Some(at)) = (&approval.decided_by, &approval.decided_at) {
        let verdict = if matches!(approval.state.as_str(), "rejected" | "canceled") {
            &approval.state
        } else {
            "approved"
        };
        let reason = approval.decision.as_deref().unwrap_or_default();
        let _ = writeln!(text, "{verdict} by {by} at {at}: {reason}");
    }
    if let (Some(by), Some(at)) = (&approval.used_by, &approval.used_at) {
        let _ = writeln!(text, "applied by {by} at {at}");
    }
    let _ = writeln!(text, "expires at {}", approval.expires_at);
    text.push_str(&plan_text(approval));
    match (approval.state.as_str(), &approval.objection) {
        ("pending", None) => {
            let _ = writeln!(text, "approve it with: hzn approval approve {} --token TOKEN", approval.id);
        }
        ("pending", Some(objection)) => {
            let _ = writeln!(text, "you may not approve it: {objection}");
        }
        ("approved", _) => {
            let _ = writeln!(text, "carry it out with: hzn approval apply {}", approval.id);
        }
        _ => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_shown_with_its_plan_and_the_next_step() {
        let plan = ApprovalPlan {
            token: "0a1b".to_owned(),
            summary: "1 to stop".to_owned(),
            lines: vec!["- stop slot 1 on n1: x".to_owned()],
            others: 3,
            basis: None,
        };
        let approval = PlanApproval {
            id: "7".to_owned(),
            state: "pending".to_owned(),
            title: "write deployment policy p".to_owned(),
            requester: "o/ann".to_owned(),
            reason: "ticket 9".to_owned(),
            plan: Some(plan),
            ..PlanApproval::default()
        };
        let text = whole_text(&approval);
        for part in [
            "request 7: pending",
            "o/ann",
            "ticket 9",
            "  - stop slot 1 on n1: x\n  and 3 more\n",
            "plan: 1 to stop\ntoken: 0a1b\n",
            "hzn approval approve 7",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let objection = Some("it is yours".to_owned());
        assert!(
            whole_text(&PlanApproval { objection, ..approval })
                .contains("you may not approve it: it is yours")
        );
    }
}
