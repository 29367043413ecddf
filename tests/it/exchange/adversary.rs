//! Attackers: ordinary users with an agbot and a node that they made themselves, in the organization of the victim and in others, and the
//! administrator of another organization, whose agbot is approved.
//!
//! The rights of an identity are a subset of its creator's: what an identity gets, its creator gets as well, and nothing that happens changes
//! a row of anybody else.

use std::collections::BTreeSet;

use evenkeel_api::{Operation, RequiredAccess};
use evenkeel_exchange::operation::Operation as ExchangeOperation;
use evenkeel_exchange::routes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::request::{Aim, body, path};
use super::world::{ABROAD, Caller, HOME, MARK, ROOT, SHARED, World};

/// An attacker: its login and those of the identities that it made.
struct Attacker {
    /// A part of every name of its own.
    name: &'static str,
    org: &'static str,
    is_admin: bool,
    creator: Caller,
    agbot: Caller,
    node: Caller,
}

const fn caller(login: &'static str) -> Caller {
    Caller { title: login, login: Some(login) }
}

const fn user(org: &'static str, [creator, agbot, node]: [&'static str; 3]) -> Attacker {
    Attacker {
        name: "uwe",
        org,
        is_admin: false,
        creator: caller(creator),
        agbot: caller(agbot),
        node: caller(node),
    }
}

const ATTACKERS: [Attacker; 4] = [
    user(HOME, ["acme/uwe", "acme/uwe-bot", "acme/uwe-node"]),
    user(ABROAD, ["globex/uwe", "globex/uwe-bot", "globex/uwe-node"]),
    user(SHARED, ["IBM/uwe", "IBM/uwe-bot", "IBM/uwe-node"]),
    Attacker {
        name: "zora",
        is_admin: true,
        ..user(ABROAD, ["globex/zora", "globex/zora-bot", "globex/zora-node"])
    },
];

impl Attacker {
    fn identities(&self) -> [(Kind, Caller); 2] {
        let agbot = if self.is_admin { Kind::ApprovedAgbot } else { Kind::Agbot };
        [(agbot, self.agbot), (Kind::Node, self.node)]
    }

    fn callers(&self) -> [Caller; 3] {
        [self.creator, self.agbot, self.node]
    }

    /// Returns whether a row, as text after the name of its table, is the attacker's: it names the attacker, or the organization that it
    /// administers. Of a changed row of others the earlier form names neither.
    fn owns(&self, row: &str) -> bool {
        let columns = row.split_once(" (").map_or(row, |(_, columns)| columns);
        let names_org =
            || row.contains(&format!("{}/", self.org)) || columns.split(',').any(|column| column == self.org);
        row.contains(self.name) || (self.is_admin && names_org())
    }

    /// Returns whether a row counts what all of the attacker's organization write, and has no owner.
    fn counts_for(&self, row: &str) -> bool {
        row.starts_with("fencing_number ")
            || row.starts_with(&format!("document_revision_usage ({},", self.org))
    }
}

/// Kinds of identities that an attacker makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Agbot,
    /// The agbot of an administrator, who approved it by creating it.
    ApprovedAgbot,
    Node,
}

/// Requests that an exception allows.
enum Requests {
    Operation(&'static str),
    /// Reads of the shared organization by a caller of another one, by their right.
    SharedReads(&'static str),
}

use Requests::{Operation as Named, SharedReads};

/// Accesses that an identity has although its creator does not, with the reason. `docs/explanation/security.md` lists them as well.
const BEYOND_THE_CREATOR: &[(Kind, Requests, &str)] = &[
    (
        Kind::Agbot,
        Named("get_max_change_id"),
        "the number of the last change, which the creator reads with the feed",
    ),
    (
        Kind::Node,
        Named("get_max_change_id"),
        "the number of the last change, which the creator reads with the feed",
    ),
    (Kind::Agbot, Named("search_nodes_by_policy"), "of the nodes of its owner"),
    (Kind::Agbot, Named("search_nodes_by_pattern"), "of the nodes of its owner"),
    (Kind::Agbot, Named("search_node_health"), "of the nodes of its owner"),
    (Kind::Agbot, Named("search_pattern_node_health"), "of the nodes of its owner"),
    (
        Kind::ApprovedAgbot,
        Named("create_node_message"),
        "agents refuse proposals of agbots that the exchange does not name",
    ),
    (
        Kind::Node,
        Named("create_agbot_message"),
        "nodes reply to agbots of every organization; mailboxes are bounded",
    ),
    (Kind::Node, Named("list_services"), "agents check proposals against the definitions of services"),
    (Kind::Node, Named("get_service"), "agents check proposals against the definitions of services"),
    (Kind::Node, SharedReads("OrgRead"), "agents follow the changes of the shared organization"),
    (
        Kind::Node,
        SharedReads("AgbotRead"),
        "agents verify the keys of the agbots that serve every organization",
    ),
    (Kind::Node, SharedReads("ServiceRead"), "agents check proposals against the definitions of services"),
    (Kind::Node, SharedReads("PatternRead"), "agents check proposals against the pattern of their node"),
    (
        Kind::Node,
        SharedReads("DeploymentPolicyRead"),
        "policies of the shared organization are for nodes of every one",
    ),
    (
        Kind::Node,
        SharedReads("ManagementPolicyRead"),
        "policies of the shared organization are for nodes of every one",
    ),
    (Kind::Node, SharedReads("PolicyRead"), "the agbot shows who may read a policy what it does about it"),
];

fn is_known(kind: Kind, operation: &Operation, (attacker, victim): (&Attacker, &str)) -> bool {
    let is_shared = victim == SHARED && attacker.org != SHARED;
    let is_read = operation.method == Method::GET
        || matches!(operation.operation, "poll_changes" | "plan_deployment_policy" | "plan_stops");
    BEYOND_THE_CREATOR.iter().any(|(whose, requests, _)| {
        *whose == kind
            && match requests {
                Named(name) => *name == operation.operation,
                SharedReads(right) => is_shared && is_read && operation.access.name() == *right,
            }
    })
}

/// A world in which the attackers have made their identities.
async fn attacked_world() -> World {
    let mut world = World::new().await;
    let admin = json!({"password": "open-sesame", "email": "", "admin": true});
    create(&world, ROOT, &Method::POST, "/orgs/globex/users/zora", &admin).await;
    for Attacker { name, org, creator, .. } in &ATTACKERS {
        let agbot = json!({"token": "open-sesame", "name": "mine", "publicKey": "key"});
        let node = json!({"token": "open-sesame", "name": "mine", "pattern": "", "publicKey": "key", "arch": "amd64"});
        for (path, body) in [(format!("agbots/{name}-bot"), agbot), (format!("nodes/{name}-node"), node)] {
            create(&world, *creator, &Method::PUT, &format!("/orgs/{org}/{path}"), &body).await;
        }
    }
    world.settle().await;
    world
}

async fn create(world: &World, creator: Caller, method: &Method, path: &str, body: &Value) {
    let (status, response) = world.call(creator, method, path, Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{path}: {response:?}");
}

/// The operations of the exchange that need credentials.
fn operations() -> Vec<Operation> {
    let all = routes::all();
    all.iter().map(ExchangeOperation::described).filter(|operation| !operation.is_public()).collect()
}

fn shows_secrets(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains(MARK)
}

/// Requires that every changed row is the attacker's, apart from counters without an owner. Returns whether any row changed.
async fn require_nothing_of_others_changed(world: &mut World, attacker: &Attacker, what: &str) -> bool {
    let changed = world.changed_rows().await;
    let is_foreign = |row: &&String| !attacker.owns(row) && !attacker.counts_for(row);
    let foreign: Vec<&String> = changed.iter().filter(is_foreign).collect();
    assert!(foreign.is_empty(), "{what} changed {foreign:#?}");
    !changed.is_empty()
}

/// Requires the same of a write, and takes the changes back.
async fn require_and_restore(world: &mut World, attacker: &Attacker, (method, what): (&Method, &str)) {
    if method != Method::GET && require_nothing_of_others_changed(world, attacker, what).await {
        world.restore().await;
    }
}

/// Attackers of a victim. For the shared organization every other one is the same.
fn attackers_of(victim: Aim) -> impl Iterator<Item = &'static Attacker> {
    ATTACKERS.iter().filter(move |attacker| victim.org != SHARED || attacker.org != HOME)
}

const VICTIMS: [Aim; 2] = [Aim { org: HOME, name: "private" }, Aim { org: SHARED, name: "private" }];

async fn attack_every_operation(victim: Aim) {
    let mut world = attacked_world().await;
    for operation in operations() {
        let target = path(&world, &operation, operation.paths[0], victim);
        let wanted = body(&operation, victim);
        for attacker in attackers_of(victim) {
            let (allowed, shown) =
                world.call(attacker.creator, &operation.method, &target, wanted.as_ref()).await;
            let what = format!("{} {target} as {}", operation.method, attacker.creator.title);
            require_and_restore(&mut world, attacker, (&operation.method, &what)).await;
            for (kind, identity) in attacker.identities() {
                let (status, found) = world.call(identity, &operation.method, &target, wanted.as_ref()).await;
                let what = format!("{} {target} as {}: {status}", operation.method, identity.title);
                let exceeds = (status.is_success() && !allowed.is_success())
                    || (shows_secrets(&found) && !shows_secrets(&shown));
                assert!(
                    !exceeds || is_known(kind, &operation, (attacker, victim.org)),
                    "{what}, its creator gets {allowed}"
                );
                require_and_restore(&mut world, attacker, (&operation.method, &what)).await;
            }
        }
    }
    world.must_be_untouched("a read").await;
}

#[tokio::test]
async fn identity_gets_nothing_that_its_creator_does_not_and_changes_nothing_of_others() {
    attack_every_operation(VICTIMS[0]).await;
}

#[tokio::test]
async fn identity_gets_nothing_of_the_shared_organization_that_its_creator_does_not() {
    attack_every_operation(VICTIMS[1]).await;
}

/// The same path with the attacker's own node and agbot, but the parts of the victim: ids of its agreements, tasks and entries.
fn own_path(target: &str, (victim, attacker): (&str, &Attacker)) -> String {
    let Attacker { name, org, .. } = attacker;
    target
        .replace(&format!("/orgs/{victim}/"), &format!("/orgs/{org}/"))
        .replace(&format!("/org/{victim}/"), &format!("/org/{org}/"))
        .replace("/nodes/n1", &format!("/nodes/{name}-node"))
        .replace("/node/n1", &format!("/node/{name}-node"))
        .replace("/agbots/bot", &format!("/agbots/{name}-bot"))
}

/// The body of a request aimed at the victim. When it names an organization, then others that differ in what they name and leave out: of the
/// victim's and of the attacker's organization, with each member absent, and with each text the name of the victim.
fn bodies(operation: &Operation, victim: Aim, attacker: &Attacker) -> Vec<Option<Value>> {
    let Some(aimed) = body(operation, victim) else { return vec![None] };
    let own = body(operation, Aim { org: attacker.org, ..victim }).unwrap_or_default();
    let elsewhere = body(operation, Aim { org: "elsewhere", ..victim });
    if elsewhere.as_ref() == Some(&aimed) {
        return vec![Some(aimed)];
    }
    let names: Vec<String> = aimed.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let mut all = vec![aimed.clone(), own.clone()];
    for absent in &names {
        for base in [&aimed, &own] {
            all.push(without(base, absent));
        }
        for named in names.iter().filter(|named| *named != absent && own[named.as_str()].is_string()) {
            let mut changed = without(&own, absent);
            changed[named.as_str()] = json!(victim.org);
            all.push(changed);
        }
    }
    all.dedup();
    all.into_iter().map(Some).collect()
}

fn without(body: &Value, absent: &str) -> Value {
    let mut body = body.clone();
    if let Some(members) = body.as_object_mut() {
        members.remove(absent);
    }
    body
}

/// One operation for each right, by which a new right would show.
fn probes() -> Vec<Operation> {
    let mut seen = BTreeSet::new();
    let mut all = operations();
    // Reads first: they show a right without a change.
    all.sort_by_key(|operation| operation.method != Method::GET);
    // An agreement that the attacker recorded itself is active, whatever its id.
    all.retain(|operation| operation.operation != "confirm_agreement");
    all.retain(|operation| seen.insert((format!("{:?}", operation.access), operation.method == Method::GET)));
    all
}

/// Returns which probes an attacker's identities may execute on the victim. Identities that no longer exist are forgotten as such.
async fn probe(
    world: &World,
    probes: &[Operation],
    (victim, attacker): (Aim, &Attacker),
) -> Vec<(String, bool)> {
    let (mut reached, mut is_logged_out) = (Vec::new(), false);
    for operation in probes {
        let target = path(world, operation, operation.paths[0], victim);
        let wanted = body(operation, victim);
        for identity in [attacker.agbot, attacker.node] {
            let (status, found) = world.call(identity, &operation.method, &target, wanted.as_ref()).await;
            let is_reached =
                status.is_success() && (operation.method != Method::GET || shows_secrets(&found));
            reached.push((format!("{} {target} as {}", operation.method, identity.title), is_reached));
            is_logged_out |= status == StatusCode::UNAUTHORIZED;
        }
    }
    if is_logged_out {
        world.call(ROOT, &Method::POST, "/admin/clearauthcaches", None).await;
    }
    reached
}

/// Requires that the victim's nodes and the agbot of the hub hear nothing new of the attacker: no agbot that may make agreements with the
/// nodes, and no confirmed entry for which the agbot of the hub would yield.
async fn require_unheard(world: &World, (victim, attacker): (Aim, &Attacker), what: &str) {
    let node = if victim.org == HOME { caller("acme/n1") } else { caller("IBM/n1") };
    let named = format!("/orgs/{}/nodes/n1/agbots", victim.org);
    let (status, agbots) = world.call(node, &Method::GET, &named, None).await;
    let agbots = String::from_utf8_lossy(&agbots);
    assert!(status.is_success() && !agbots.contains(attacker.name), "{what}: {named} {status} {agbots}");
    for list in ["patterns", "businesspols"] {
        let entries = format!("/orgs/{}/agbots/{}-bot/{list}?confirmed=true", attacker.org, attacker.name);
        let (_, found) = world.call(caller("IBM/multi"), &Method::GET, &entries, None).await;
        let found: Value = serde_json::from_slice(&found).unwrap_or_default();
        let lists = found.as_object().into_iter().flatten().filter_map(|(_, entries)| entries.as_object());
        let of_victim = lists.flatten().find(|(_, entry)| entry["nodeOrgid"] == victim.org);
        assert!(of_victim.is_none(), "{what}: {of_victim:?}");
    }
}

async fn attack_in_two_steps(victim: Aim) {
    let mut world = attacked_world().await;
    let probes = probes();
    for attacker in attackers_of(victim) {
        let pair = (victim, attacker);
        let before = probe(&world, &probes, pair).await;
        world.restore().await;
        for operation in operations().iter().filter(|operation| operation.method != Method::GET) {
            let target =
                own_path(&path(&world, operation, operation.paths[0], victim), (victim.org, attacker));
            for (index, wanted) in bodies(operation, victim, attacker).into_iter().enumerate() {
                for identity in attacker.callers() {
                    let (status, _) = world.call(identity, &operation.method, &target, wanted.as_ref()).await;
                    if !status.is_success() {
                        continue;
                    }
                    let first = format!("{} {target} {wanted:?} as {}", operation.method, identity.title);
                    require_nothing_of_others_changed(&mut world, attacker, &first).await;
                    require_unheard(&world, pair, &first).await;
                    // The other bodies write the same objects.
                    let after = if index == 0 { probe(&world, &probes, pair).await } else { Vec::new() };
                    for ((what, was_reached), (_, is_reached)) in before.iter().zip(&after) {
                        assert!(*was_reached || !is_reached, "{first} opens {what}");
                    }
                    world.restore().await;
                }
            }
        }
    }
}

#[tokio::test]
async fn no_allowed_request_opens_what_was_closed_before_and_none_changes_rows_of_others() {
    attack_in_two_steps(VICTIMS[0]).await;
}

#[tokio::test]
async fn no_allowed_request_opens_what_was_closed_of_the_shared_organization() {
    attack_in_two_steps(VICTIMS[1]).await;
}

/// Tables that an agbot and an exchange write by themselves.
const WRITTEN_BY_ITSELF: [&str; 6] = [
    "agbot_fencing (IBM,multi,",
    "agbot (IBM,multi,",
    "agbot_instance ",
    "agbot_outbox ",
    "work_partition ",
    "hub_life ",
];

/// State of the victims in the agbot: a service version that is blocked on a node, which administrators and owners may unblock.
const BLOCKED: &str = r#"INSERT INTO blocklist (node, service, version, record)
    SELECT org || '/n1', org || '/public.svc', '1.0.0',
           '{"failures": [], "blocks": 1, "since": "2026-01-01T00:00:00Z", "until": "2126-01-01T00:00:00Z",
             "last_failure": "", "policy": null, "kept_until": "2126-01-01T00:00:00Z"}'
    FROM node WHERE node = 'n1'"#;

/// Requires that the agbot of the hub did nothing to others for an attacker.
async fn require_agbot_changed_nothing(world: &mut World, attacker: &Attacker, what: &str) {
    let is_own = |row: &String| {
        attacker.owns(row)
            || attacker.counts_for(row)
            || row.starts_with("agbot_change")
            || WRITTEN_BY_ITSELF.iter().any(|start| row.starts_with(start))
    };
    let foreign: Vec<String> = world.changed_rows().await.into_iter().filter(|row| !is_own(row)).collect();
    assert!(foreign.is_empty(), "{what} changed {foreign:#?}");
}

/// Requests of all identities of an attacker about a victim to the agbot of the hub.
async fn attack_agbot(world: &mut World, operations: &[Operation], (victim, attacker): (Aim, &Attacker)) {
    for operation in operations {
        let target = path(world, operation, operation.paths[0], victim);
        let wanted = body(operation, victim);
        let creator = attacker.creator;
        let (allowed, shown) = world.call(creator, &operation.method, &target, wanted.as_ref()).await;
        let what = format!("{} {target} as {}: {allowed}", operation.method, creator.title);
        let is_read = operation.method == Method::GET || operation.operation.starts_with("plan_");
        // Users act on the nodes that they own, of which the victim has none: its rows are compared.
        let is_of_own_nodes = operation.access == RequiredAccess::Right("NodesOperate");
        assert!(is_read || is_of_own_nodes || !allowed.is_success(), "{what}");
        for (kind, identity) in attacker.identities() {
            let (status, found) = world.call(identity, &operation.method, &target, wanted.as_ref()).await;
            let exceeds = (status.is_success() && !allowed.is_success())
                || (shows_secrets(&found) && !shows_secrets(&shown));
            assert!(
                !exceeds || is_known(kind, operation, (attacker, victim.org)),
                "{what}, {} gets {status}",
                identity.title
            );
        }
        require_agbot_changed_nothing(world, attacker, &what).await;
    }
}

/// Prepares at the exchange and the agbot all that an attacker may before it asks the agbot about the victim. Nothing is undone.
async fn prepare(world: &World, operations: &[Operation], (victim, attacker): (Aim, &Attacker)) {
    let prepares = |operation: &&Operation| {
        operation.operation.starts_with("create_")
            || operation.operation.starts_with("report_")
            || matches!(
                operation.operation,
                "replace_node_agreement" | "replace_agbot_agreement" | "replace_node_task" | "act_on_policy"
            )
    };
    for operation in operations.iter().filter(prepares) {
        let target = own_path(&path(world, operation, operation.paths[0], victim), (victim.org, attacker));
        for wanted in bodies(operation, victim, attacker) {
            for identity in attacker.callers() {
                world.call(identity, &operation.method, &target, wanted.as_ref()).await;
            }
        }
    }
}

#[tokio::test]
async fn agbot_of_the_hub_does_nothing_to_others_for_an_attacker_and_its_identities() {
    let mut world = attacked_world().await;
    world.execute(BLOCKED).await;
    let agbot = world.start_agbot().await;
    let of_agbot = evenkeel_agbot_api::part().operations;
    let of_agbot: Vec<Operation> = of_agbot.into_iter().filter(|operation| !operation.is_public()).collect();
    world.settle().await;
    for victim in VICTIMS {
        for attacker in attackers_of(victim) {
            attack_agbot(&mut world, &of_agbot, (victim, attacker)).await;
        }
    }
    for victim in VICTIMS {
        for attacker in attackers_of(victim) {
            let everything: Vec<Operation> = operations().into_iter().chain(of_agbot.clone()).collect();
            prepare(&world, &everything, (victim, attacker)).await;
            // Earlier attackers have left rows.
            let what = format!("preparation of {}", attacker.creator.title);
            require_agbot_changed_nothing_since(&mut world, attacker, &what).await;
            attack_agbot(&mut world, &of_agbot, (victim, attacker)).await;
        }
    }
    drop(agbot);
}

/// Requires the same, and compares with the present rows from now on.
async fn require_agbot_changed_nothing_since(world: &mut World, attacker: &Attacker, what: &str) {
    require_agbot_changed_nothing(world, attacker, what).await;
    world.settle().await;
}
