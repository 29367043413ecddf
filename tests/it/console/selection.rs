//! A selection of nodes: saved views, and one change of all nodes by a plan.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::browser::{Browser, Page};
use crate::support::{Hub, Scratch, eventually};

const NODES: &str = "/console/orgs/o/nodes";
const SELECTION: &str = "/console/orgs/o/selection";
const VIEWS: &str = "/console/orgs/o/views";
/// The nodes whose property `site` is `north`.
const NORTH: &str = "filter=site+%3D%3D+%22north%22";

async fn make_user(hub: &Hub, org: &str, name: &str, body: Value) -> Browser {
    assert_eq!(hub.call("POST", &format!("/orgs/{org}/users/{name}"), Some(body)).await.0, 201);
    Browser::of(hub, org, name, "secret").await
}

/// An organization with four nodes, of which three are in the north, and another organization.
async fn prepared(scratch: &Scratch) -> Hub {
    let hub = Hub::start(scratch, &[]).await;
    for org in ["o", "p"] {
        let body = json!({"label": "", "description": ""});
        assert_eq!(hub.call("POST", &format!("/orgs/{org}"), Some(body)).await.0, 201);
    }
    for number in 1..=4 {
        let path = format!("/orgs/o/nodes/n{number}");
        let node = json!({"token": "secret-n", "name": "n", "pattern": "", "publicKey": "", "arch": "amd64"});
        assert_eq!(hub.call("PUT", &path, Some(node)).await.0, 201);
        let site = if number < 4 { "north" } else { "south" };
        let policy = json!({"properties": [{"name": "site", "value": site}], "constraints": []});
        assert_eq!(hub.call("PUT", &format!("{path}/policy"), Some(policy)).await.0, 201);
    }
    eventually("the agbot knows the nodes", async || {
        let found =
            hub.call("GET", "/orgs/o/agbot/nodes?count=true&filter=site%20%3D%3D%20%22north%22", None);
        (found.await.1["count"] == 3).then_some(())
    })
    .await;
    hub
}

async fn availabilities(hub: &Hub) -> Vec<Value> {
    let mut found = Vec::new();
    for number in 1..=4 {
        let path = format!("/orgs/o/nodes/n{number}/orchestration");
        found.push(hub.call("GET", &path, None).await.1["spec"]["availability"].clone());
    }
    found
}

/// Returns the fields of the form of a plan.
fn fields(page: &Page, query: &str) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> =
        url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    fields.push(("token".to_owned(), page.field("token")));
    fields
}

/// Carries a plan out as its form does.
async fn send(browser: &mut Browser, fields: &[(String, String)]) -> Page {
    let form: BTreeMap<&str, &str> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    browser.send(SELECTION, &form).await
}

#[tokio::test]
async fn selection_is_drained_by_one_plan_that_must_still_hold() {
    let scratch = Scratch::new();
    let hub = prepared(&scratch).await;
    let admin = json!({"password": "secret", "email": "e", "admin": true});
    let mut browser = make_user(&hub, "o", "admin", admin).await;
    let page = browser.get(&format!("{NODES}?{NORTH}")).await;
    for part in [
        "site == &#34;north&#34;",
        "type=\"checkbox\" name=\"node\" value=\"n1\"",
        "all 3 that match",
        "<datalist id=\"known\">",
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let query = format!("action=drain&scope=all&{NORTH}");
    let plan = browser.get(&format!("{SELECTION}?{query}")).await;
    assert_eq!(plan.status, 200, "{}", plan.text);
    for part in ["<dd>3 nodes</dd>", "will be changed", "hzn exchange node each drain --filter"] {
        assert!(plan.text.contains(part), "{part}: {}", plan.text);
    }
    assert!(availabilities(&hub).await.iter().all(|one| one != "drain"), "a plan changes nothing");

    // One of the nodes changes: the plan no longer holds.
    let change = json!({"availability": "pause"});
    assert_eq!(hub.call("PATCH", "/orgs/o/nodes/n2/orchestration/spec", Some(change)).await.0, 201);
    eventually("the agbot knows the change", async || {
        let found = hub.call("GET", "/orgs/o/agbot/nodes?availability=pause&count=true", None).await.1;
        (found["count"] == 1).then_some(())
    })
    .await;
    let page = send(&mut browser, &fields(&plan, &query)).await;
    assert!(page.text.contains("Nothing was done") && page.text.contains("role=\"alert\""), "{}", page.text);
    assert!(availabilities(&hub).await.iter().all(|one| one != "drain"));

    let page = send(&mut browser, &fields(&page, &query)).await;
    assert_eq!(page.status, 303, "{}", page.text);
    assert_eq!(availabilities(&hub).await[..3], ["drain", "drain", "drain"]);
    assert_ne!(availabilities(&hub).await[3], "drain", "it is not selected");
    let location = page.location.expect("where it went");
    eventually("the progress is complete", async || {
        let page = Browser::of(&hub, "o", "admin", "secret").await.get(&location).await;
        (page.status == 200 && page.text.contains("3 of 3 nodes")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn ticked_nodes_are_tagged_and_refusals_name_the_node() {
    let scratch = Scratch::new();
    let hub = prepared(&scratch).await;
    let admin = json!({"password": "secret", "email": "e", "admin": true});
    let mut browser = make_user(&hub, "o", "admin", admin).await;
    let page = browser.get(&format!("{SELECTION}?action=drain")).await;
    assert!(page.status == 400 && page.text.contains("no node is ticked"), "{}", page.text);
    for (query, text) in [
        ("action=tag&node=n1&name=a+b&value=x", "name must consist of"),
        ("action=tag&node=n1&name=openhorizon.cpu&value=4", "name must not begin with"),
        ("action=explode&node=n1", "there is no action explode"),
    ] {
        let page = browser.get(&format!("{SELECTION}?{query}")).await;
        assert!(matches!(page.status, 400 | 404) && page.text.contains(text), "{query}: {}", page.text);
    }
    let query = "action=tag&node=n4&name=shift&value=2";
    let plan = browser.get(&format!("{SELECTION}?{query}")).await;
    assert!(plan.text.contains("no such property") && plan.text.contains("tag shift=2"), "{}", plan.text);
    let page = send(&mut browser, &fields(&plan, query)).await;
    assert_eq!(page.status, 303, "{}", page.text);
    let policy = hub.call("GET", "/orgs/o/nodes/n4/policy", None).await.1;
    let has = |name: &str, value: Value| {
        let properties = policy["properties"].as_array().expect("properties");
        properties.iter().any(|one| one["name"] == name && one["value"] == value)
    };
    assert!(has("shift", json!(2)) && has("site", json!("south")), "{policy}");
    let plan = browser.get(&format!("{SELECTION}?{query}")).await;
    assert!(plan.text.contains("No node would be changed"), "{}", plan.text);
}

#[tokio::test]
async fn selection_and_views_follow_the_rights_of_the_reader() {
    let scratch = Scratch::new();
    let hub = prepared(&scratch).await;
    let viewer = json!({"password": "secret", "email": "e", "role": "viewer"});
    let deployer = json!({"password": "secret", "email": "e", "role": "deployer", "policies": ["*"]});
    let user = json!({"password": "secret", "email": "e", "admin": false});
    let admin = json!({"password": "secret", "email": "e", "admin": true});
    let mut vera = make_user(&hub, "o", "vera", viewer).await;
    let mut dora = make_user(&hub, "o", "dora", deployer).await;
    let mut anna = make_user(&hub, "o", "anna", admin.clone()).await;
    let mut erin = make_user(&hub, "o", "erin", user).await;
    let mut other = make_user(&hub, "p", "other", admin).await;
    let query = format!("action=freeze&scope=all&{NORTH}");
    for reader in [&mut vera, &mut dora] {
        let page = reader.get(&format!("{NODES}?{NORTH}")).await;
        assert!(page.status == 200 && !page.text.contains("type=\"checkbox\""), "{}", page.text);
        let plan = reader.get(&format!("{SELECTION}?{query}")).await;
        assert!(plan.text.contains("disabled title=\"your role "), "{}", plan.text);
        // What is disabled is refused as well, for each node with its name.
        let page = send(reader, &fields(&plan, &query)).await;
        assert!(page.status == 200 && page.text.contains("3 of 3 nodes were not changed"), "{}", page.text);
        assert!(page.text.contains("<td>n1</td>"), "{}", page.text);
        let view = BTreeMap::from([("view", "mine"), ("state", "down")]);
        assert_eq!(reader.send(&format!("{VIEWS}/new"), &view).await.status, 403);
    }
    assert_eq!(other.get(&format!("{SELECTION}?{query}")).await.status, 403, "another organization");
    let plan = erin.get(&format!("{SELECTION}?{query}")).await;
    assert!(plan.text.contains("No node that you may read is selected"), "{}", plan.text);

    // Views are shared, and changed by those who saved them and by administrators.
    let form = |name: &'static str| BTreeMap::from([("view", name), ("filter", "site == \"north\"")]);
    let page = erin.get(&format!("{VIEWS}/new?{NORTH}")).await;
    assert!(page.text.contains("hzn exchange view save NAME --filter"), "{}", page.text);
    let page = erin.send(&format!("{VIEWS}/new"), &form("")).await;
    assert!(page.status == 200 && page.text.contains("must not be empty"), "{}", page.text);
    let page = erin.send(&format!("{VIEWS}/new"), &form("a/b")).await;
    assert!(page.status == 200 && page.text.contains("must not hold a slash"), "{}", page.text);
    assert_eq!(erin.send(&format!("{VIEWS}/new"), &form("<img src=x>")).await.status, 303);
    let page = vera.get(NODES).await;
    assert!(page.text.contains("&#60;img src=x&#62;") && !page.text.contains("<img src=x"), "{}", page.text);
    let removal = "/console/orgs/o/views/remove?view=%3Cimg%20src%3Dx%3E";
    assert!(vera.get(removal).await.text.contains("disabled title="));
    let named = BTreeMap::from([("view", "<img src=x>")]);
    assert_eq!(vera.send(&format!("{VIEWS}/remove"), &named).await.status, 403);
    assert_eq!(other.get("/console/orgs/o/views/new").await.status, 403);
    assert_eq!(anna.send(&format!("{VIEWS}/remove"), &named).await.status, 303);
    assert_eq!(erin.send(&format!("{VIEWS}/remove"), &named).await.status, 404, "it is gone");
}
