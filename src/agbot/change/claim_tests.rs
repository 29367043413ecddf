use evenkeel_ids::NmpId;
use jiff::Timestamp;

use super::*;

fn node(name: &str) -> NodeId {
    NodeId::new("o", name)
}

fn group() -> HaGroupFacts {
    HaGroupFacts::new(GroupId::new("o", "g"), ["n1", "n2", "n3"].map(node))
}

fn request(scope: Scope, member: &str) -> ClaimRequest {
    let purpose = match &scope {
        Scope::Agent => Purpose::AgentUpgrade { nmp: NmpId::new("o", "m"), drains: false },
        Scope::Policy(_) => Purpose::ServiceUpgrade,
    };
    ClaimRequest {
        group: GroupId::new("o", "g"),
        scope,
        node: node(member),
        purpose,
        version: "2".into(),
        deadline: Timestamp::MAX,
        seen_running: Vec::new(),
        parallelism: 0,
    }
}

fn policy(name: &str) -> Scope {
    Scope::Policy(PolicyId::new("o", name))
}

fn held(scope: Scope, member: &str) -> Claim {
    request(scope, member).into_claim(1, Timestamp::UNIX_EPOCH)
}

/// Scenario E5-S1: two policies, exclusive.
#[test]
fn second_policy_waits_for_another_member_and_not_for_the_same_one() {
    let rows = [held(policy("a"), "n1")];
    assert_eq!(may_take(&rows, &request(policy("b"), "n1"), &group()), Ok(Grant::Insert));
    assert!(matches!(
        may_take(&rows, &request(policy("b"), "n2"), &group()),
        Err(Blocked::HaLock { holder, .. }) if holder == node("n1")
    ));
}

/// Scenario E5-S2: agent upgrade and service upgrade share one domain.
#[test]
fn agent_upgrade_of_one_member_blocks_services_of_the_others_only() {
    let rows = [held(Scope::Agent, "n1")];
    assert!(may_take(&rows, &request(policy("a"), "n2"), &group()).is_err());
    assert_eq!(may_take(&rows, &request(policy("a"), "n1"), &group()), Ok(Grant::Insert));
    let rows = [held(policy("a"), "n1")];
    assert!(may_take(&rows, &request(Scope::Agent, "n2"), &group()).is_err());
    assert_eq!(may_take(&rows, &request(Scope::Agent, "n1"), &group()), Ok(Grant::Insert));
}

#[test]
fn repeated_request_is_held_and_another_purpose_is_refused() {
    let rows = [held(policy("a"), "n1")];
    assert_eq!(may_take(&rows, &request(policy("a"), "n1"), &group()), Ok(Grant::Held));
    let mut other = request(policy("a"), "n1");
    other.version = "3".into();
    assert!(may_take(&rows, &other, &group()).is_err());
}

#[test]
fn without_exclusion_max_unavailable_members_may_hold_claims() {
    let open = HaGroupFacts { is_exclusive: false, max_unavailable: 2, ..group() };
    let rows = [held(policy("a"), "n1")];
    assert_eq!(may_take(&rows, &request(policy("b"), "n2"), &open), Ok(Grant::Insert));
    let rows = [held(policy("a"), "n1"), held(policy("b"), "n2")];
    assert!(may_take(&rows, &request(policy("c"), "n3"), &open).is_err());
}

#[test]
fn only_members_take_claims_and_other_groups_do_not_count() {
    assert!(matches!(may_take(&[], &request(policy("a"), "n9"), &group()), Err(Blocked::NotAMember { .. })));
    let mut elsewhere = held(policy("a"), "n2");
    elsewhere.group = GroupId::new("o", "other");
    assert_eq!(may_take(&[elsewhere], &request(policy("a"), "n1"), &group()), Ok(Grant::Insert));
}
