use evenkeel_ids::{GroupId, PolicyId};

use super::*;

struct World {
    group: HaGroupFacts,
    rows: Vec<Claim>,
    members: BTreeMap<NodeId, MemberView>,
    refusals: Vec<Refusal>,
    released_at: Option<Timestamp>,
}

fn node(name: &str) -> NodeId {
    NodeId::new("o", name)
}

fn nmp(name: &str) -> NmpId {
    NmpId::new("o", name)
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + secs).unwrap()
}

fn world(names: &[&str]) -> World {
    let alive = MemberView { liveness: Liveness::Alive, is_away: false, nmp_status: None };
    World {
        group: HaGroupFacts::new(GroupId::new("o", "g"), names.iter().map(|name| node(name))),
        rows: Vec::new(),
        members: names.iter().map(|name| (node(name), alive.clone())).collect(),
        refusals: Vec::new(),
        released_at: None,
    }
}

impl World {
    fn ask(&self, member: &str, policy: &str, now: Timestamp) -> Result<Grant, Blocked> {
        self.request(member, policy, now).map(|(grant, _)| grant)
    }

    fn request(&self, member: &str, policy: &str, now: Timestamp) -> Result<(Grant, ClaimRequest), Blocked> {
        let view = GroupView {
            group: &self.group,
            rows: &self.rows,
            members: &self.members,
            refusals: &self.refusals,
            released_at: self.released_at,
            drains: false,
        };
        decide_agent_upgrade(view, &node(member), &nmp(policy), now, &PlannerSettings::default())
    }

    fn grant(&mut self, member: &str, policy: &str, now: Timestamp) {
        let (grant, request) = self.request(member, policy, now).unwrap();
        assert_eq!(grant, Grant::Insert);
        self.rows.push(request.into_claim(7, now));
    }
}

/// HA-9, HA-14, scenario E6-S1: one request granted, one refused.
#[test]
fn second_member_is_refused_while_the_first_upgrades() {
    let mut world = world(&["n1", "n2"]);
    world.grant("n1", "m", at(0));
    assert!(
        matches!(world.ask("n2", "m", at(1)), Err(Blocked::HaLock { holder, .. }) if holder == node("n1"))
    );
    world.rows.clear();
    assert_eq!(world.ask("n2", "m", at(2)), Ok(Grant::Insert));
}

/// Scenario E6-S2.
#[test]
fn repeated_request_is_granted_again_and_another_policy_refused() {
    let mut world = world(&["n1", "n2"]);
    world.grant("n1", "m", at(0));
    assert_eq!(world.ask("n1", "m", at(60)), Ok(Grant::Held));
    assert!(world.ask("n1", "other", at(60)).is_err());
}

/// Scenario E6-S3: in any order, exactly one of forty is granted.
#[test]
fn exactly_one_of_forty_members_is_granted() {
    let names: Vec<String> = (0..40).map(|number| format!("n{number:02}")).collect();
    let mut world = world(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut granted = 0;
    for name in names.iter().rev() {
        if let Ok((Grant::Insert, request)) = world.request(name, "m", at(0)) {
            world.rows.push(request.into_claim(1, at(0)));
            granted += 1;
        }
    }
    assert_eq!(granted, 1);
}

/// Scenario E5-S2 from the agent's side, P conflict 10.
#[test]
fn agent_upgrade_waits_for_a_service_upgrade_of_another_member_only() {
    let mut world = world(&["n1", "n2"]);
    let request = ClaimRequest {
        group: world.group.id.clone(),
        scope: Scope::Policy(PolicyId::new("o", "p")),
        node: node("n1"),
        purpose: Purpose::ServiceUpgrade,
        version: "2".into(),
        deadline: at(600),
        seen_running: vec![node("n2")],
        parallelism: 0,
    };
    world.rows.push(request.into_claim(1, at(0)));
    assert!(world.ask("n2", "m", at(1)).is_err());
    assert_eq!(world.ask("n1", "m", at(1)), Ok(Grant::Insert));
}

/// Scenario E8-S3.
#[test]
fn member_in_maintenance_keeps_the_last_other_agent_from_upgrading() {
    let mut world = world(&["n1", "n2"]);
    world.members.get_mut(&node("n1")).unwrap().is_away = true;
    assert!(
        matches!(world.ask("n2", "m", at(0)), Err(Blocked::AgentPeer { node: peer, .. }) if peer == node("n1"))
    );
    world.members.get_mut(&node("n1")).unwrap().is_away = false;
    assert_eq!(world.ask("n2", "m", at(60)), Ok(Grant::Insert));
}

/// E8-S3: another member that is there does not help.
#[test]
fn member_in_maintenance_refuses_all_others() {
    let mut world = world(&["n1", "n2", "n3"]);
    let away = |monitor_state| Liveness::Away { monitor_state, since: at(0) };
    for monitor_state in [NodeMonitorState::Maintenance, NodeMonitorState::Upgrade] {
        world.members.get_mut(&node("n1")).unwrap().liveness = away(monitor_state);
        let refusal = world.ask("n2", "m", at(1)).unwrap_err();
        assert!(refusal.to_string().contains(monitor_state.word()), "{refusal}");
    }
    world.members.get_mut(&node("n1")).unwrap().liveness = away(NodeMonitorState::Init);
    assert_eq!(world.ask("n2", "m", at(2)), Ok(Grant::Insert));
}

#[test]
fn one_dead_member_of_three_blocks_no_other() {
    let mut world = world(&["n1", "n2", "n3"]);
    world.members.get_mut(&node("n1")).unwrap().liveness = Liveness::Down { since: at(0) };
    assert_eq!(world.ask("n2", "m", at(1000)), Ok(Grant::Insert));
    world.members.get_mut(&node("n3")).unwrap().liveness = Liveness::Down { since: at(0) };
    assert!(world.ask("n2", "m", at(1000)).is_err());
}

#[test]
fn members_never_heard_of_do_not_forbid_an_upgrade() {
    let mut world = world(&["n1", "n2"]);
    world.members.clear();
    assert_eq!(world.ask("n1", "m", at(0)), Ok(Grant::Insert));
}

#[test]
fn failed_member_stops_the_same_policy_and_not_another() {
    let mut world = world(&["n1", "n2"]);
    world.members.get_mut(&node("n1")).unwrap().nmp_status = Some("rollback successful".into());
    let refusal = world.ask("n2", "m", at(0)).unwrap_err();
    assert!(refusal.to_string().contains("rollback successful"), "{refusal}");
    world.members.get_mut(&node("n1")).unwrap().nmp_status = Some("successful".into());
    assert_eq!(world.ask("n2", "m", at(0)), Ok(Grant::Insert));
}

#[test]
fn member_refused_longest_ago_is_first_for_two_minutes() {
    let mut world = world(&["n1", "n2", "n3"]);
    world.released_at = Some(at(100));
    world.refusals.push(Refusal { node: node("n3"), first_at: at(0), last_at: at(60) });
    world.refusals.push(Refusal { node: node("n2"), first_at: at(30), last_at: at(90) });
    assert!(
        matches!(world.ask("n2", "m", at(101)), Err(Blocked::AgentTurn { node: first, .. }) if first == node("n3"))
    );
    assert_eq!(world.ask("n3", "m", at(101)), Ok(Grant::Insert));
    assert_eq!(world.ask("n2", "m", at(221)), Ok(Grant::Insert));
}

#[test]
fn nodes_outside_the_group_are_refused() {
    assert!(matches!(world(&["n1"]).ask("n9", "m", at(0)), Err(Blocked::NotAMember { .. })));
}
