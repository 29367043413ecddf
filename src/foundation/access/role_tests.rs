//! Viewers, deployers, and logins with API keys that have a role.

use super::*;

fn role(name: &str, policies: &[&str]) -> AssignedRole {
    let policies: Vec<String> = policies.iter().map(|text| (*text).to_owned()).collect();
    AssignedRole::read(name, &policies).ok().flatten().unwrap_or_else(|| panic!("{name} {policies:?}"))
}

fn viewer() -> AssignedRole {
    role("viewer", &[])
}

fn deployer(policies: &[&str]) -> AssignedRole {
    role("deployer", policies)
}

fn account(name: Role) -> Caller {
    Caller::new(name, "o", "u")
}

fn of(assigned: AssignedRole) -> Caller {
    account(Role::User).limited(Some(assigned), None)
}

fn with_key(caller: &Caller, key: &AssignedRole) -> Caller {
    let of_account = caller.assigned_role().cloned();
    let base = if of_account.is_some() { account(Role::User) } else { caller.clone() };
    Caller { api_key: Some("7d1".into()), ..base.limited(of_account, Some(key.clone())) }
}

/// Targets of every kind with their facts: of the own and of other organizations, the caller itself and policies among them.
fn targets() -> Vec<(Target<'static>, Option<Facts>)> {
    let mut all = Vec::new();
    for org in ["o", "p", MULTI_TENANT_ORG, ROOT_ORG] {
        for id in [None, Some("u"), Some("v"), Some("shop-1"), Some("web")] {
            let target = Target { org, id };
            all.push((target, None));
            for (owner, is_public) in [("u", false), ("v", false), ("v", true)] {
                let owner = Some(UserId::new("o", owner));
                all.push((target, Some(Facts { owner, is_public, is_deployed: false })));
            }
        }
    }
    all
}

fn is_allowed(caller: &Caller, access: Access, (target, facts): &(Target<'_>, Option<Facts>)) -> bool {
    match decide(caller, access, *target) {
        Decision::NeedsFacts => decide_with_facts(caller, access, *target, facts.as_ref()) == Decision::Allow,
        decision => decision == Decision::Allow,
    }
}

fn require_within(narrow: &Caller, wide: &Caller) {
    for &access in Access::ALL {
        for place in targets() {
            let exceeds = is_allowed(narrow, access, &place) && !is_allowed(wide, access, &place);
            assert!(!exceeds, "{access:?} {place:?}: {narrow:?} exceeds {wide:?}");
        }
    }
}

#[test]
fn viewer_has_a_part_of_the_deployer_who_has_a_part_of_the_administrator() {
    let admin = account(Role::OrgAdmin);
    for policies in [&["*"][..], &["shop-*"], &["web"]] {
        require_within(&of(viewer()), &of(deployer(policies)));
        require_within(&of(deployer(policies)), &admin);
    }
    require_within(&of(deployer(&["shop-1"])), &of(deployer(&["shop-*"])));
}

#[test]
fn key_with_a_role_has_what_both_the_account_and_the_role_have() {
    let accounts = [
        account(Role::OrgAdmin),
        account(Role::User),
        of(viewer()),
        of(deployer(&["shop-*"])),
        of(deployer(&["web", "shop-2"])),
    ];
    for account in &accounts {
        for key in [viewer(), deployer(&["shop-1", "web"]), deployer(&["*"])] {
            let login = with_key(account, &key);
            require_within(&login, account);
            require_within(&login, &of(key.clone()));
            // Besides own secrets, which a limited key does not change, nothing is lost.
            for &access in Access::ALL.iter().filter(|access| **access != Access::PasswordWrite) {
                for place in targets() {
                    let both =
                        is_allowed(account, access, &place) && is_allowed(&of(key.clone()), access, &place);
                    assert_eq!(is_allowed(&login, access, &place), both, "{access:?} {place:?} of {login:?}");
                }
            }
        }
    }
}

#[test]
fn key_with_a_role_leaves_a_login_of_the_hub_nothing_of_an_organization() {
    for name in [Role::Root, Role::HubAdmin] {
        let login = Caller::new(name, ROOT_ORG, "h").limited(None, Some(deployer(&["*"])));
        for access in
            [Access::NodesRead, Access::DeploymentPolicyWrite, Access::UsersList, Access::AdminAction]
        {
            let target = Target { org: "o", id: Some("x") };
            assert_eq!(decide(&login, access, target), Decision::Deny, "{name:?} {access:?}");
        }
    }
}

#[test]
fn viewer_changes_nothing_but_its_own_password_and_keys() {
    let place = (Target { org: "o", id: Some("v") }, None);
    let own = (Target { org: "o", id: Some("u") }, None);
    let writes = |caller: &Caller, place: &(Target<'_>, Option<Facts>)| -> Vec<&'static str> {
        let all = Access::ALL.iter().filter(|access| !access.words().0.starts_with("READ"));
        all.filter(|access| is_allowed(caller, **access, place)).map(|access| access.name()).collect()
    };
    let harmless = ["AdminStatus", "AdminOrgStatus", "MaxChangeId", "ActionRecord"];
    assert_eq!(writes(&of(viewer()), &place), harmless);
    let of_itself = ["PasswordWrite", "ApiKeyWrite"];
    assert_eq!(writes(&of(viewer()), &own), [&of_itself[..], &harmless].concat());
    let by_key = with_key(&of(viewer()), &viewer());
    assert!(!writes(&by_key, &own).contains(&"PasswordWrite"), "a stolen key would become the account");
    let unlimited = Caller { api_key: Some("7d1".into()), ..of(viewer()) };
    assert!(writes(&unlimited, &own).contains(&"PasswordWrite"));
}

#[test]
fn roles_read_no_secrets_and_no_messages() {
    for role in [viewer(), deployer(&["*"])] {
        for access in [Access::ServiceSecretsRead, Access::NodeMessagesRead, Access::AgbotMessagesRead] {
            for place in targets() {
                assert!(!is_allowed(&of(role.clone()), access, &place), "{access:?} {place:?}");
            }
        }
        let of_other = (Target { org: "o", id: Some("v") }, None);
        assert!(!is_allowed(&of(role), Access::ApiKeyRead, &of_other));
    }
}

#[test]
fn deployer_writes_policies_by_their_names_and_of_any_owner() {
    let caller = of(deployer(&["shop-*"]));
    for access in [Access::DeploymentPolicyCreate, Access::DeploymentPolicyWrite] {
        for (org, id, expected) in [
            ("o", Some("shop-1"), Decision::Allow),
            ("o", Some("web"), Decision::Deny),
            ("o", Some("u"), Decision::Deny),
            ("o", None, Decision::Deny),
            ("p", Some("shop-1"), Decision::Deny),
        ] {
            assert_eq!(decide(&caller, access, Target { org, id }), expected, "{access:?} {org} {id:?}");
        }
    }
    // Of an ordinary user the key writes those that are its own as well.
    let by_key = with_key(&account(Role::User), &deployer(&["shop-*"]));
    let target = Target { org: "o", id: Some("shop-1") };
    for (owner, expected) in [("u", Decision::Allow), ("v", Decision::Deny)] {
        let facts = Facts { owner: Some(UserId::new("o", owner)), is_public: false, is_deployed: false };
        let decision = decide_with_facts(&by_key, Access::DeploymentPolicyWrite, target, Some(&facts));
        assert_eq!(decision, expected, "{owner}");
    }
}
