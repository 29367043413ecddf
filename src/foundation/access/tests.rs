use super::*;

fn caller(role: Role, org: &str, id: &str) -> Caller {
    Caller::new(role, org, id)
}

fn owned_by(org: &str, name: &str) -> Facts {
    Facts { owner: Some(UserId::new(org, name)), is_public: false, is_deployed: false }
}

#[test]
fn user_changes_only_nodes_it_owns() {
    let user = caller(Role::User, "o", "u");
    let target = Target { org: "o", id: Some("n") };
    assert_eq!(decide(&user, Access::NodeWrite, target), Decision::NeedsFacts);
    assert_eq!(
        decide_with_facts(&user, Access::NodeWrite, target, Some(&owned_by("o", "u"))),
        Decision::Allow
    );
    assert_eq!(
        decide_with_facts(&user, Access::NodeWrite, target, Some(&owned_by("o", "v"))),
        Decision::Deny
    );
    assert_eq!(decide_with_facts(&user, Access::NodeWrite, target, None), Decision::Allow);
}

#[test]
fn users_set_the_availability_of_a_node_and_the_node_does_not() {
    let target = Target { org: "o", id: Some("n") };
    let facts = owned_by("o", "u");
    for (role, id, expected) in [
        (Role::OrgAdmin, "a", Decision::Allow),
        (Role::User, "u", Decision::Allow),
        (Role::User, "v", Decision::Deny),
        (Role::Node, "n", Decision::Deny),
        (Role::Agbot, "b", Decision::Deny),
    ] {
        let caller = caller(role, "o", id);
        let decision = decide_with_facts(&caller, Access::NodeOrchestrationWrite, target, Some(&facts));
        assert_eq!(decision, expected, "{role:?} {id}");
    }
}

#[test]
fn node_reads_itself_without_reading_the_store() {
    let node = caller(Role::Node, "o", "n");
    assert_eq!(decide(&node, Access::NodeRead, Target { org: "o", id: Some("n") }), Decision::Allow);
    assert_eq!(decide(&node, Access::NodeRead, Target { org: "o", id: Some("m") }), Decision::Deny);
}

#[test]
fn absent_resource_of_another_organization_is_not_found() {
    let admin = caller(Role::OrgAdmin, "o", "a");
    let target = Target { org: "p", id: Some("n") };
    assert_eq!(decide(&admin, Access::NodeRead, target), Decision::NeedsFacts);
    assert_eq!(decide_with_facts(&admin, Access::NodeRead, target, None), Decision::NotFound);
    assert_eq!(
        decide_with_facts(&admin, Access::NodeRead, target, Some(&owned_by("p", "x"))),
        Decision::Deny
    );
}

#[test]
fn administrator_of_another_organization_may_not_touch_a_public_service() {
    let admin = caller(Role::OrgAdmin, "o", "a");
    let target = Target { org: "p", id: Some("s") };
    let public = Facts { owner: None, is_public: true, is_deployed: false };
    assert_eq!(decide_with_facts(&admin, Access::ServiceRead, target, Some(&public)), Decision::Allow);
    assert_eq!(decide(&admin, Access::ServiceWrite, target), Decision::Deny);
}

#[test]
fn table_is_complete_and_in_order() {
    for (index, access) in Access::ALL.iter().enumerate() {
        assert_eq!(*access as usize, index);
        assert!(!access.words().0.is_empty());
    }
}

/// Returns whether a caller of a role may access a row of its own, a private row of a colleague, and a public
/// row of a colleague.
fn allowed(role: Role, access: Access, org: &str) -> [bool; 3] {
    let id = if role == Role::User { "u" } else { "b" };
    let caller = Caller { owner: Some(UserId::new("o", "u")), ..caller(role, "o", id) };
    let own = UserId::new("o", "u");
    [(&own, false), (&UserId::new("o", "v"), false), (&UserId::new("o", "v"), true)].map(
        |(owner, is_public)| {
            let facts = Facts { owner: Some(owner.clone()), is_public, is_deployed: false };
            let target = Target { org, id: Some("x") };
            decide_with_facts(&caller, access, target, Some(&facts)) == Decision::Allow
        },
    )
}

#[test]
fn unapproved_agbot_may_do_nothing_that_its_owner_may_not() {
    for &access in Access::ALL {
        for org in ["o", "p", MULTI_TENANT_ORG] {
            let (agbot, owner) =
                (allowed(Role::UnapprovedAgbot, access, org), allowed(Role::User, access, org));
            let exceeds = (0..3).any(|row| agbot[row] && !owner[row]);
            // Messages to nodes need a key, which accounts lack: only to the nodes of the same owner.
            let is_known = match access {
                Access::NodeMessage => agbot == [org == "o", false, false],
                Access::MaxChangeId => true,
                // Of the nodes of its owner, which the owner may list.
                Access::NodesSearch => agbot == [org == "o"; 3],
                _ => false,
            };
            assert!(!exceeds || is_known, "{access:?} in {org}: {agbot:?} exceeds {owner:?}");
        }
    }
}

#[test]
fn unapproved_agbot_reads_the_nodes_of_its_owner_only() {
    let agbot = Caller { owner: Some(UserId::new("o", "u")), ..caller(Role::UnapprovedAgbot, "o", "b") };
    let target = Target { org: "o", id: Some("n") };
    for (owner, expected) in [("u", Decision::Allow), ("v", Decision::Deny)] {
        let facts = owned_by("o", owner);
        assert_eq!(decide_with_facts(&agbot, Access::NodeRead, target, Some(&facts)), expected, "{owner}");
    }
    assert_eq!(decide(&agbot, Access::NodeTaskPublish, target), Decision::Deny);
    let shared = Caller { org: MULTI_TENANT_ORG.into(), ..agbot };
    assert_eq!(
        decide(&shared, Access::NodeRead, target),
        Decision::NeedsFacts,
        "it serves no other organization"
    );
}

#[test]
fn node_reads_registry_credentials_only_of_what_is_deployed_to_it() {
    let node = Caller { owner: Some(UserId::new("o", "u")), ..caller(Role::Node, "o", "n") };
    for org in ["o", MULTI_TENANT_ORG] {
        let target = Target { org, id: Some("s") };
        assert_eq!(decide(&node, Access::ServiceSecretsRead, target), Decision::NeedsFacts);
        for (is_public, is_deployed) in [(false, false), (true, false), (false, true)] {
            let facts = Facts { is_public, is_deployed, ..owned_by(org, "v") };
            let expected = if is_public || is_deployed { Decision::Allow } else { Decision::Deny };
            let decision = decide_with_facts(&node, Access::ServiceSecretsRead, target, Some(&facts));
            assert_eq!(decision, expected, "{org} {is_public} {is_deployed}");
        }
    }
}

#[test]
fn permission_by_owner_is_decided_again_and_that_of_an_administrator_is_not() {
    let target = Target { org: "o", id: Some("n") };
    let (user, admin) = (caller(Role::User, "o", "u"), caller(Role::OrgAdmin, "o", "a"));
    let absent = Permission::<right::NodeWrite>::decide_with_facts(&user, target, None);
    let absent = absent.unwrap_or_else(|decision| panic!("an absent node is {decision:?}"));
    let condition = absent.condition().expect("it depends on the owner");
    assert_eq!((condition.access(), condition.target()), (Access::NodeWrite, ("o", "n")));
    assert_eq!(condition.decide(None), Decision::Allow);
    assert_eq!(condition.decide(Some(&owned_by("o", "u"))), Decision::Allow);
    assert_eq!(
        condition.decide(Some(&owned_by("o", "a"))),
        Decision::Deny,
        "created by another user meanwhile"
    );
    let always = Permission::<right::NodeWrite>::decide(&admin, target);
    assert!(always.is_ok_and(|permission| permission.condition().is_none()));
}
