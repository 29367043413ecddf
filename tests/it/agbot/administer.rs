//! Actions of administrators on rollouts and claims: pause, resume, abort, undo, free.

use serde_json::{Value, json};

use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, TestDatabase, eventually, free_address};

const PAUSE: &str = "/orgs/o/agbot/rollouts/everywhere/pause";

async fn deployed(fleet: &Fleet, version: &str) {
    eventually("every member runs the version", || async { fleet.all_run(version).then_some(()) }).await;
}

/// The only rollout, in words.
async fn stands(hub: &Hub) -> String {
    let (_, body) = hub.call("GET", "/orgs/o/agbot/rollouts", None).await;
    body["rollouts"][0]["text"].as_str().unwrap_or_default().to_owned()
}

async fn becomes(hub: &Hub, words: &str) -> String {
    let stands_so = || async {
        let text = stands(hub).await;
        text.contains(words).then_some(text)
    };
    eventually(&format!("the rollout stands: {words}"), stands_so).await
}

/// Returns the status of a call with the password of a user.
async fn call_as(hub: &Hub, method: &str, path: &str, who: Option<&str>) -> u16 {
    let method = method.parse().expect("a method");
    let request = hub.client.request(method, format!("{}/v1{path}", hub.url));
    let request = match who {
        Some(who) => request.basic_auth(who, Some(format!("secret of {who}"))),
        None => request,
    };
    request.send().await.expect("a response").status().as_u16()
}

async fn add_user(hub: &Hub, org: &str, name: &str, is_admin: bool) {
    let body = json!({"password": format!("secret of {org}/{name}"), "admin": is_admin, "email": "x@y.z"});
    let response = hub.call("POST", &format!("/orgs/{org}/users/{name}"), Some(body)).await;
    assert_eq!(response.0, 201, "{}", response.1);
}

async fn add_deployer(hub: &Hub, name: &str, policies: &str) {
    let password = format!("secret of o/{name}");
    let body = json!({"password": password, "email": "e", "role": "deployer", "policies": [policies]});
    let response = hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await;
    assert_eq!(response.0, 201, "{}", response.1);
}

/// Tries to pause the rollout as callers without the right, and pauses and resumes it as a deployer.
async fn operators_pause_and_others_do_not(hub: &Hub) {
    let refusals = [
        (None, 401),
        (Some("o/nobody"), 401),
        (Some("o/user"), 403),
        (Some("o/outsider"), 403),
        (Some("p/admin"), 403),
    ];
    for (who, status) in refusals {
        assert_eq!(call_as(hub, "POST", PAUSE, who).await, status, "{who:?}");
    }
    assert_eq!(call_as(hub, "POST", PAUSE, Some("o/deployer")).await, 200);
    becomes(hub, "paused by o/deployer").await;
    let resume = PAUSE.replace("pause", "resume");
    assert_eq!(call_as(hub, "POST", &resume, Some("o/outsider")).await, 403);
    assert_eq!(call_as(hub, "POST", &resume, Some("o/deployer")).await, 200);
}

#[tokio::test]
async fn rollout_is_paused_for_whoever_works_on_it_and_goes_on_or_back_by_a_word() {
    let scratch = Scratch::new();
    let second_scratch = Scratch::new();
    let database = TestDatabase::new().await;
    let address = free_address();
    // Each member is monitored for so long that the rollout is still under way when it is paused.
    let options = [
        "--listen",
        &address,
        "--database-url",
        database.url(),
        "--upgrade-monitor-secs",
        "8",
        "--upgrade-grace-secs",
        "1",
    ];
    let mut hub = Hub::start(&scratch, &options).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    add_user(&hub, "o", "admin", true).await;
    add_user(&hub, "o", "user", false).await;
    for (name, policies) in [("deployer", "every*"), ("outsider", "other")] {
        add_deployer(&hub, name, policies).await;
    }
    hub.call("POST", "/orgs/p", Some(json!({"label": "p", "description": "p"}))).await;
    add_user(&hub, "p", "admin", true).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.publish(&hub, "2.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    deployed(&fleet, "1.0.0").await;
    assert_eq!(call_as(&hub, "POST", PAUSE, Some("o/admin")).await, 404, "there is no rollout yet");
    fleet.want(&hub, "2.0.0").await;
    becomes(&hub, "updating").await;
    // A pause lets nothing begin, and what was begun end.
    eventually("the first member is begun", || async {
        (fleet.versions().values().filter(|version| *version == "1.0.0").count() < 3).then_some(())
    })
    .await;
    operators_pause_and_others_do_not(&hub).await;
    let act = async |word: &str| {
        call_as(&hub, "POST", &format!("/orgs/o/agbot/rollouts/everywhere/{word}"), Some("o/admin")).await
    };
    assert_eq!(act("stop").await, 400);
    assert_eq!(act("pause?grup=g").await, 400);
    assert_eq!(act("pause?group=other").await, 404);
    assert_eq!(act("resume").await, 409, "it is not held");
    assert_eq!(act("pause?group=g").await, 200);
    assert_eq!(act("pause").await, 200, "paused already");
    becomes(&hub, "paused by o/admin").await;

    // Another hub on the same database, at the address that the agents know, continues when the first one is
    // gone.
    hub.program.kill().await;
    let mut more = options.to_vec();
    let password = scratch.join("hub/root-password").to_string_lossy().into_owned();
    more.extend(["--root-password-file", &password]);
    let second = Hub::start(&second_scratch, &more).await;
    std::fs::copy(&password, second_scratch.join("hub/root-password")).expect("the same password");
    eventually("the first member has what was begun", || async {
        (fleet.versions().values().filter(|version| *version == "2.0.0").count() == 1).then_some(())
    })
    .await;
    let reason = || async {
        let (_, body) = second.call("GET", "/orgs/o/agbot/reasons", None).await;
        let reasons = body["reasons"].as_array().cloned().unwrap_or_default();
        let reported =
            |one: &Value| one["text"].as_str().is_some_and(|text| text.contains("paused by o/admin"));
        (reasons.iter().filter(|one| reported(one)).count() == 2).then_some(())
    };
    eventually("the others wait and say why", reason).await;
    assert!(stands(&second).await.contains("paused by o/admin"));
    let act = async |word: &str| {
        let path = format!("/orgs/o/agbot/rollouts/everywhere/{word}");
        call_as(&second, "POST", &path, Some("o/admin")).await
    };
    assert_eq!(act("resume").await, 200);
    deployed(&fleet, "2.0.0").await;
    becomes(&second, "completed").await;
    assert_eq!(act("pause").await, 409, "it is over");
    assert_eq!(act("rollback").await, 200);
    deployed(&fleet, "1.0.0").await;
    let text = becomes(&second, "rolled back").await;
    assert!(text.contains("o/admin requested a rollback"), "{text}");
    let (_, events) = second.call("GET", "/orgs/o/agbot/events", None).await;
    let kinds: Vec<_> =
        events["events"].as_array().into_iter().flatten().filter_map(|one| one["kind"].as_str()).collect();
    for kind in ["rollout.paused", "rollout.resumed", "rollout.rollback-started"] {
        assert!(kinds.contains(&kind), "{kind} is recorded");
    }
    drop(fleet);
    assert_eq!(second.stop().await, 0);
}

#[tokio::test]
async fn version_that_fails_is_taken_back_by_itself_when_that_is_set() {
    let scratch = Scratch::new();
    let options = [
        "--upgrade-monitor-secs",
        "1",
        "--upgrade-grace-secs",
        "1",
        "--upgrade-start-timeout-secs",
        "10",
        "--upgrade-failure-action",
        "rollback",
    ];
    let hub = Hub::start(&scratch, &options).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.publish_broken(&hub, "2.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    deployed(&fleet, "1.0.0").await;
    let untouched = fleet.processes();
    fleet.want(&hub, "2.0.0").await;
    becomes(&hub, "rolled back").await;
    deployed(&fleet, "1.0.0").await;
    let same =
        fleet.processes().iter().filter(|(node, process)| untouched.get(*node) == Some(*process)).count();
    assert_eq!(same, 2, "only the first member was touched");
    // A later write of the policy starts a new attempt.
    fleet.publish(&hub, "3.0.0").await;
    fleet.want(&hub, "3.0.0").await;
    deployed(&fleet, "3.0.0").await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// An upgrade in a group of its own from claim to end: what was reported before it has reached the agbot, too.
async fn other_group_upgrades(hub: &Hub) {
    let body =
        json!({"token": "secret-other", "name": "other", "pattern": "", "publicKey": "", "arch": "amd64"});
    assert_eq!(hub.call("PUT", "/orgs/o/nodes/other", Some(body)).await.0, 201);
    assert_eq!(hub.call("POST", "/orgs/o/hagroups/h", Some(json!({"members": ["other"]}))).await.0, 201);
    super::upgrade::report(hub, "other", "initiated").await;
    eventually("the agbot knows the group", || async {
        let status = super::upgrade::ask(hub, "other", "other", json!({"nmp": "o/fw-9"})).await;
        let (_, body) = hub.call("GET", "/orgs/o/hagroups/h/upgrades", None).await;
        (status == 200 && body["agent"]["node"] == "o/other").then_some(())
    })
    .await;
    super::upgrade::report(hub, "other", "successful").await;
    eventually("the other upgrade is over", || async {
        let (_, body) = hub.call("GET", "/orgs/o/hagroups/h/upgrades", None).await;
        body["agent"].is_null().then_some(())
    })
    .await;
}

#[tokio::test]
async fn administrator_frees_a_claim_and_the_late_end_of_its_holder_harms_nobody() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let nodes = super::upgrade::group_of(&hub, 3).await;
    add_user(&hub, "o", "admin", true).await;
    add_user(&hub, "o", "user", false).await;
    for node in &nodes {
        super::upgrade::report(&hub, node, "initiated").await;
    }
    let ask = async |node: &str| super::upgrade::ask(&hub, node, node, json!({"nmp": "o/fw-9"})).await;
    let free = "/orgs/o/hagroups/g/upgrades";
    assert_eq!(call_as(&hub, "DELETE", free, Some("o/admin")).await, 404, "nobody holds a claim");
    assert_eq!(ask("n0").await, 200);
    assert_eq!(ask("n1").await, 409);
    assert_eq!(call_as(&hub, "DELETE", free, None).await, 401);
    assert_eq!(call_as(&hub, "DELETE", free, Some("o/user")).await, 403);
    assert_eq!(call_as(&hub, "DELETE", &format!("{free}?who=n0"), Some("o/admin")).await, 400);
    assert_eq!(call_as(&hub, "DELETE", &format!("{free}/n1"), Some("o/admin")).await, 404, "it holds none");
    assert_eq!(call_as(&hub, "DELETE", &format!("{free}/n0"), Some("o/admin")).await, 200);
    assert_eq!(ask("n1").await, 200, "the next one may go");
    // The one that was freed finishes now: the claim of the other one is not its to end.
    super::upgrade::report(&hub, "n0", "successful").await;
    super::upgrade::report(&hub, "n0", "failed").await;
    other_group_upgrades(&hub).await;
    let (_, body) = hub.call("GET", free, None).await;
    assert_eq!(body["agent"]["node"], "o/n1", "{body}");
    assert_eq!(ask("n2").await, 409);
    let (_, events) = hub.call("GET", "/orgs/o/agbot/events", None).await;
    assert!(events.to_string().contains("freed by o/admin"), "{events}");
    assert_eq!(hub.stop().await, 0);
}
