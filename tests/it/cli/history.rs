//! The states of an instant, and the differences between two.

use serde_json::{Value, json};

use super::{Hzn, hub_with_two_nodes, policy, up};
use crate::support::{Hub, Scratch, eventually};

/// Runs a command whose result has a list, and returns that.
fn list(hzn: &Hzn, line: &str, name: &str) -> Vec<Value> {
    hzn.data(line)[name].as_array().cloned().unwrap_or_default()
}

#[tokio::test]
async fn instances_of_an_instant_and_their_changes_since_are_shown() {
    let scratch = Scratch::new();
    let (hub, fleet, hzn) = hub_with_two_nodes(&scratch).await;
    let write = |replicas: u32| {
        hzn.write("policy.json", &json!({"kind": "policy", "name": "everywhere", "spec": policy(replicas)}));
        let applied = hzn.run("apply -f policy.json");
        assert_eq!(applied.status, 0, "{}", applied.errors);
    };
    let empty = hzn.data("history")["at"].as_str().expect("an instant").to_owned();
    write(2);
    up(&hzn, "everywhere", 2).await;
    let running = eventually("two tasks run", async || {
        let found = hzn.data("history --kind task --policy everywhere");
        let states = found["states"].as_array().cloned().unwrap_or_default();
        let is_running = states.len() == 2 && states.iter().all(|state| state["state"] == "running");
        is_running.then(|| found["at"].as_str().expect("an instant").to_owned())
    })
    .await;
    write(1);
    up(&hzn, "everywhere", 1).await;
    eventually("one task has ended", async || {
        (list(&hzn, "history --kind task", "states").len() == 1).then_some(())
    })
    .await;

    // What was, is still shown, with what followed.
    let was = list(&hzn, &format!("history --at {running} --kind task"), "states");
    assert_eq!(was.len(), 2, "{was:?}");
    let ended: Vec<&Value> =
        was.iter().filter(|state| state["next"] == "shutdown" || state["until"].is_string()).collect();
    assert_eq!(ended.len(), 1, "{was:?}");
    assert!(list(&hzn, &format!("history --at {empty}"), "states").is_empty());
    let node = ended[0]["node"].as_str().expect("a node").trim_start_matches("o/");
    let of_node = list(&hzn, &format!("history --at {running} --node {node}"), "states");
    let kinds: Vec<&str> = of_node.iter().filter_map(|state| state["kind"].as_str()).collect();
    assert_eq!(kinds, ["task", "agreement"]);

    let changes = list(&hzn, &format!("diff --from {running} --kind task"), "changes");
    let gone: Vec<&Value> = changes.iter().filter(|change| change["after"].is_null()).collect();
    assert_eq!(gone.len(), 1, "{changes:?}");
    assert_eq!(
        (&gone[0]["before"]["state"], &gone[0]["before"]["slot"]),
        (&json!("running"), &ended[0]["slot"])
    );
    let begun = list(&hzn, &format!("diff --from {empty} --to {running} --kind agreement"), "changes");
    assert!(begun.len() == 2 && begun.iter().all(|change| change["before"].is_null()), "{begun:?}");
    let table = hzn.run(&format!("diff --from {running} --kind task --output table"));
    assert!(
        table.output.lines().any(|line| line.starts_with('-') && line.contains("o/everywhere slot")),
        "{}",
        table.output
    );
    // One page at a time, and a note that there are more.
    let one = hzn.run(&format!("history --at {running} --kind task --limit 1"));
    assert!(one.status == 0 && one.errors.contains("raise --limit"), "{}", one.errors);
    refusals(&hzn, &hub, (&empty, &running)).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

async fn refusals(hzn: &Hzn, hub: &Hub, (empty, running): (&str, &str)) {
    let refused = hzn.refused(1, "history --at 2036-01-01");
    assert!(refused.contains("in the future"), "{refused}");
    let refused = hzn.refused(5, "history --at 2026-01-01");
    assert!(refused.contains("the history begins at"), "{refused}");
    let refused = hzn.refused(5, &format!("diff --from {running} --to {running}"));
    assert!(refused.contains("from: must be before to"), "{refused}");
    let path = format!("/orgs/o/agbot/history?at={running}&limit=1");
    let (status, page) = hub.call("GET", &path, None).await;
    assert_eq!((status, page["states"].as_array().map(Vec::len)), (200, Some(1)), "{page}");
    let next = page["next"].as_str().expect("there is another page");
    let (_, second) = hub.call("GET", &format!("/orgs/o/agbot/history?after={next}"), None).await;
    assert_eq!(second["at"], page["at"], "the instant of the page before");
    assert_ne!(second["states"][0], page["states"][0]);
    for (query, rule) in [
        (
            format!("history?at={running}&kind=node&after={next}"),
            "after: is the end of a page of another list",
        ),
        (
            format!("history/diff?from={empty}&to={running}&after={next}"),
            "after: is the end of a page of another list",
        ),
        ("history?after=e30".to_owned(), "after: must be the value of next"),
        ("history?at=noon".to_owned(), "at: must be an instant"),
        ("history?kind=pod".to_owned(), "kind must be one of"),
        ("history?limit=1000000".to_owned(), "limit must be an integer from 1 to 1000"),
        ("history?policy=x/y".to_owned(), "policy: x/y is no deployment policy of the organization o"),
        ("history/diff?from=noon".to_owned(), "from: must be an instant"),
    ] {
        let (status, body) = hub.call("GET", &format!("/orgs/o/agbot/{query}"), None).await;
        let message = body["msg"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(rule), "{query}: {status} {body}");
    }
    let body = json!({"password": "secret", "email": "e", "admin": false});
    assert_eq!(hub.call("POST", "/orgs/o/users/user", Some(body)).await.0, 201);
    let request = hub.client.get(format!("{}/v1/orgs/o/agbot/history?at={running}", hub.url));
    let response = request.basic_auth("o/user", Some("secret")).send().await.expect("a response");
    let seen: Value = response.json().await.expect("a page");
    assert_eq!(seen["states"], json!([]), "the nodes are not its own");
}
