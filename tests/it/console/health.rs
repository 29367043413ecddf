//! Health at the console: the tree, reports, and events that are suppressed.

use serde_json::{Value, json};

use super::browser::{Browser, Page};
use super::change::{carry_out, changes, confirm, fill, mistake};
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

const HEALTH: &str = "/console/orgs/o/health";

async fn log_in(hub: &Hub, name: &str, more: Value) -> Browser {
    let mut body = json!({"password": "secret", "email": "e"});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    assert_eq!(hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await.0, 201);
    Browser::of(hub, "o", name, "secret").await
}

#[tokio::test]
async fn tree_leads_from_the_organization_to_an_instance_and_reports_are_made_and_suppressed() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    eventually("version 1 runs", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    let mut browser = log_in(&hub, "ada", json!({"admin": true})).await;
    let instance = format!("{HEALTH}?policy=everywhere&node=edge-1");
    eventually("the instance has a page", || async {
        let found =
            hub.call("GET", "/orgs/o/business/policies/everywhere/instances/edge-1/health", None).await;
        (found.0 == 200).then_some(())
    })
    .await;

    let mut path = HEALTH.to_owned();
    for next in [
        format!("{HEALTH}?policy=everywhere"),
        format!("{HEALTH}?policy=everywhere&unit=all"),
        instance.clone(),
    ] {
        let page = browser.get(&path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert!(page.addresses().contains(&next), "{path} leads to {next}: {}", page.text);
        path = next;
    }
    let page = browser.get(&format!("{HEALTH}?kind=node")).await;
    assert!(page.text.contains(">edge-2</a>") && !page.text.contains(">everywhere</a>"), "{}", page.text);

    // The API has pages of what the page of the console lists. A state that changes meanwhile is on another page.
    eventually("the pages are one list", || async {
        let whole = hub.call("GET", "/orgs/o/health", None).await.1;
        let (mut listed, mut offset) = (Vec::new(), Some(0));
        while let Some(start) = offset {
            let part = hub.call("GET", &format!("/orgs/o/health?limit=2&offset={start}"), None).await.1;
            listed.extend(part["childHealthStates"].as_array().expect("children").clone());
            offset = part["next"].as_u64();
            assert_eq!(part["childCount"].as_u64(), Some(4), "two nodes, a group and a policy: {part}");
        }
        (json!(listed) == whole["childHealthStates"]).then_some(())
    })
    .await;
    let nodes = hub.call("GET", "/orgs/o/health?kind=node&limit=1", None).await.1;
    assert_eq!((&nodes["childCount"], &nodes["next"]), (&json!(2), &json!(1)), "{nodes}");
    for (query, text) in [("kind=planet", "kind must be one of"), ("offset=-1", "offset must be an integer")]
    {
        let (status, refused) = hub.call("GET", &format!("/orgs/o/health?{query}"), None).await;
        assert_eq!(status, 400, "{refused}");
        assert!(refused["msg"].as_str().is_some_and(|msg| msg.contains(text)), "{refused}");
    }

    let form = "/console/orgs/o/change/health-report?policy=everywhere&node=edge-1";
    assert!(changes(&browser.get(&instance).await).contains(&form.to_owned()));
    let system = [("source", "System.Mine"), ("property", "p"), ("state", "Error")];
    assert!(
        mistake(&fill(&mut browser, form, &system).await, "source")
            .contains("the hub's own".replace('\'', "&#39;").as_str())
    );
    let page = fill(&mut browser, form, &[("source", "dog"), ("property", "p"), ("ttl", "x")]).await;
    assert!(mistake(&page, "ttl").contains("number of seconds"), "{}", page.text);
    let long = "x".repeat(300);
    let plan = fill(&mut browser, form, &[("source", &long), ("property", "p"), ("state", "Error")]).await;
    let page = confirm(&mut browser, &plan, &[]).await;
    assert!(page.status == 400 && mistake(&page, "source").contains("1 to 256 characters"), "{}", page.text);

    let hostile = "<img src=x onerror=alert(1)>\u{202e}";
    let fields =
        [("source", hostile), ("property", "Disk & co"), ("state", "Error"), ("description", "full")];
    let plan = carry_out(&mut browser, form, &fields, &[]).await;
    assert!(
        plan.text.contains("hzn exchange health report everywhere --node edge-1 --source"),
        "{}",
        plan.text
    );
    let page = browser.get(HEALTH).await;
    assert!(page.text.contains("badge down\">Error") && !page.text.contains("<img"), "{}", page.text);
    assert!(page.text.contains("health.changed"), "what has changed: {}", page.text);
    let page = browser.get(&instance).await;
    assert!(page.text.contains("full") && !page.text.contains("<img"), "{}", page.text);
    suppress(&hub, &mut browser, &page, hostile).await;
}

/// Suppresses the event of a source on the page of an instance.
async fn suppress(hub: &Hub, browser: &mut Browser, page: &Page, hostile: &str) {
    let suppress = changes(page).into_iter().find(|one| one.contains("health-suppress")).expect("a control");
    let page = fill(browser, &suppress, &[("ttl", "3600")]).await;
    assert_eq!(mistake(&page, "description"), "must not be empty");
    let plan = carry_out(browser, &suppress, &[("ttl", "3600"), ("description", "known")], &[]).await;
    assert!(
        plan.text.contains("--state Ok") && plan.text.contains("--ttl 3600 --remove-when-expired"),
        "{}",
        plan.text
    );
    let path = "/orgs/o/business/policies/everywhere/instances/edge-1/health";
    let found = hub.call("GET", path, None).await.1;
    assert_eq!(found["aggregatedHealthState"], "Ok", "{found}");
    let event =
        found["healthEvents"].as_array().expect("events").iter().find(|one| one["sourceId"] == hostile);
    let event = event.expect("the event");
    assert_eq!((&event["ttlSeconds"], &event["removeWhenExpired"]), (&json!(3600), &json!(true)), "{event}");
    let page = browser.get(&suppress).await;
    let page = browser
        .send(&super::change::target(&page), &[("ttl", "3600"), ("description", "again")].into())
        .await;
    let page = browser.get(&page.location.expect("the plan")).await;
    assert_eq!(page.status, 400, "there is nothing to suppress: {}", page.text);
}

#[tokio::test]
async fn readers_report_about_what_the_api_allows() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    let mut ada = log_in(&hub, "ada", json!({"admin": true})).await;
    let policy = format!("{HEALTH}?policy=everywhere");
    eventually("the policy has a page", || async {
        let found = hub.call("GET", "/orgs/o/business/policies/everywhere/health", None).await;
        (found.0 == 200).then_some(())
    })
    .await;
    let fields = [("source", "dog"), ("property", "p"), ("state", "Warning")];
    let of_policy = "/console/orgs/o/change/health-report?policy=everywhere";
    let of_org = "/console/orgs/o/change/health-report";
    for (form, place) in [(of_policy, policy.as_str()), (of_org, HEALTH)] {
        carry_out(&mut ada, form, &fields, &[]).await;
        assert!(ada.get(place).await.text.contains("badge warn\">Warning"), "{form}");
    }
    let deployer = json!({"role": "deployer", "policies": ["every*"]});
    for (name, more, may_policy) in
        [("bob", json!({}), false), ("vera", json!({"role": "viewer"}), false), ("dora", deployer, true)]
    {
        let mut browser = log_in(&hub, name, more).await;
        for (form, page, may) in [(of_policy, policy.as_str(), may_policy), (of_org, HEALTH, false)] {
            let page = browser.get(page).await;
            assert_eq!(page.status, 200, "{name}: {}", page.text);
            assert_eq!(!changes(&page).is_empty(), may, "{name} {form}: {}", page.text);
            let plan =
                fill(&mut browser, form, &[("source", name), ("property", "p"), ("state", "Warning")]).await;
            let is_disabled = plan.text.contains("<button type=\"submit\" disabled title=\"");
            assert_eq!(is_disabled, !may, "{name} {form}: {}", plan.text);
            let status = confirm(&mut browser, &plan, &[]).await.status;
            assert_eq!(status, if may { 303 } else { 403 }, "{name} {form}");
        }
    }
    let mut user = Browser::of(&hub, "o", "bob", "secret").await;
    let page = user.get(&format!("{HEALTH}?kind=node")).await;
    assert!(
        page.status == 200 && !page.text.contains("edge-1"),
        "nodes of others stay hidden: {}",
        page.text
    );
    assert_eq!(user.get(&format!("{HEALTH}?node=edge-1")).await.status, 403);
    assert_eq!(user.get("/console/orgs/p/health").await.status, 403);
    assert_eq!(ada.get(&format!("{HEALTH}?node=none")).await.status, 404);
    assert_eq!(ada.get(&format!("{HEALTH}?offset=x")).await.status, 400);
}
