use super::*;

fn caller(role: Role, org: &str, id: &str) -> Caller {
    Caller { role, org: org.into(), id: id.into(), owner: None }
}

fn owned_by(org: &str, name: &str) -> Facts {
    Facts { owner: Some(UserId::new(org, name)), is_public: false }
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
    let public = Facts { owner: None, is_public: true };
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
