//! Describes the progress of an update, what blocks it, and what to do about that.

use evenkeel_wire::agbot::orchestration::{UpdateBlocked, UpdateProgress};

/// Maximum number of details of a blocked update on one line.
const DETAIL_COUNT: usize = 3;

/// Returns the progress of an update as text; none when there is no update.
pub fn update_text(update: &UpdateProgress, policy: &str) -> Option<String> {
    let UpdateProgress { state, total, done, failed, set_aside, blocked, .. } = update;
    let is_over = matches!(state.as_str(), "none" | "" | "completed");
    if is_over && *set_aside == 0 {
        return None;
    }
    let mut text = format!("{state} {done}/{total}");
    if *set_aside > 0 {
        text.push_str(&format!(", {set_aside} without a node"));
    }
    if *failed > 0 {
        text.push_str(&format!(", {failed} failed"));
    }
    if let Some(blocked) = blocked {
        text.push_str(&format!(", {}", blocked_text(blocked, policy)));
    }
    Some(text)
}

/// Returns what blocks the update of a policy and what to do about it, in words.
pub fn blocked_text(blocked: &UpdateBlocked, policy: &str) -> String {
    let mut details: Vec<String> = Vec::new();
    // The agbot lists first what its hint is about.
    for detail in blocked.slots.iter().map(|slot| format!("{}: {}", slot.reason, slot.detail)) {
        if !details.contains(&detail) {
            details.push(detail);
        }
    }
    let hidden_count = details.len().saturating_sub(DETAIL_COUNT);
    details.truncate(DETAIL_COUNT);
    let mut text = match details.is_empty() {
        true => blocked.rules.join(", "),
        false => details.join(", "),
    };
    if hidden_count > 0 {
        text.push_str(&format!(", and {hidden_count} more"));
    }
    let hint = hint_for(blocked, policy);
    if !hint.is_empty() {
        text.push_str(&format!(" ({hint})"));
    }
    format!("blocked: {text}")
}

/// Returns what to do about a blocked update. The agbot's text has a placeholder for the name of the policy.
pub fn hint_for(blocked: &UpdateBlocked, policy: &str) -> String {
    let words = blocked.hint.split(' ').map(|word| if word == "POLICY" { policy } else { word });
    words.collect::<Vec<&str>>().join(" ")
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::agbot::orchestration::BlockedSlot;

    use super::*;

    #[test]
    fn update_is_named_while_it_is_under_way_or_paused() {
        let mut update =
            UpdateProgress { state: "updating".to_owned(), total: 6, done: 2, ..UpdateProgress::default() };
        let text = |update: &UpdateProgress| update_text(update, "o/p");
        assert_eq!(text(&update).as_deref(), Some("updating 2/6"));
        update.failed = 1;
        update.blocked = Some(UpdateBlocked { rules: vec!["HALock".to_owned()], ..UpdateBlocked::default() });
        assert_eq!(text(&update).as_deref(), Some("updating 2/6, 1 failed, blocked: HALock"));
        update.state = "completed".to_owned();
        assert_eq!(text(&update), None);
    }

    #[test]
    fn blocked_update_is_shown_with_details_and_hint() {
        let slot = |detail: &str| BlockedSlot {
            reason: "Frozen".to_owned(),
            detail: detail.to_owned(),
            ..BlockedSlot::default()
        };
        let mut blocked = UpdateBlocked {
            slots: vec![slot("the workload is frozen"); 3],
            rules: vec!["Frozen".to_owned()],
            hint: "thaw it with: hzn exchange deployment orchestration thaw POLICY".to_owned(),
            ..UpdateBlocked::default()
        };
        let hint = "(thaw it with: hzn exchange deployment orchestration thaw o/p)";
        let expected = format!("blocked: Frozen: the workload is frozen {hint}");
        assert_eq!(blocked_text(&blocked, "o/p"), expected);
        blocked.slots = ["a", "b", "c", "d", "e"].map(slot).into();
        let text = blocked_text(&blocked, "o/p");
        assert!(text.contains("Frozen: a, Frozen: b, Frozen: c, and 2 more"), "{text}");
    }
}
