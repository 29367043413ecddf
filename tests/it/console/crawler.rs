//! Follows every link and form of the console as each role.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::browser::{Browser, Page};
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

/// Names that a page must not take for markup or for a part of an address.
const HOSTILE: [&str; 2] = ["<img src=x onerror=alert(1)>", "a\u{202e}b\"'&?#%2F"];

/// Pages that a crawl visits at most: links lead to new queries without end.
const MOST_PAGES: usize = 700;
/// Pages of one path that a crawl visits at most, for the same reason.
const MOST_QUERIES: usize = 24;

/// Pages that an administrator reaches.
const REACHED: [&str; 26] = [
    "/console/account",
    "/console/orgs/o/nodes/edge-1",
    "/console/orgs/o/groups/g",
    "/console/orgs/o/policies/everywhere",
    "/console/orgs/o/policies/everywhere/why?node=edge-1",
    "/console/orgs/o/policies/everywhere/why/try",
    "/console/orgs/o/documents",
    "/console/orgs/o/documents/policies/everywhere",
    "/console/orgs/o/documents/policies/everywhere/change",
    "/console/orgs/o/documents/policies/everywhere/change?revision=1",
    "/console/orgs/o/documents/policies/everywhere/revisions/1",
    "/console/orgs/o/documents/groups/hostile-0/change",
    "/console/orgs/o/documents/node-policies/edge-1",
    "/console/orgs/o/do/node-drain?node=edge-1",
    "/console/orgs/o/health?node=edge-1",
    "/console/orgs/o/health?policy=everywhere",
    "/console/orgs/o/audit/verify",
    "/console/orgs/o/users/user",
    "/console/orgs/o/change/user-create",
    "/console/orgs/o/change/user-role?user=user&role=user",
    "/console/orgs/o/change/health-report",
    "/console/orgs/o/settings",
    "/console/orgs/o/nodes?state=never-heard",
    "/console/orgs/o/views/new?state=never-heard",
    "/console/orgs/o/views/remove?view=%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E",
    "/console/orgs/o/selection?action=drain&scope=all&state=never-heard",
];

/// Sends the form of a change as it is shown, or the plan with a token that does not hold: nothing changes, and each leads to a page.
async fn send_changes(browser: &mut Browser, page: &Page) {
    let forms =
        page.addresses().into_iter().filter(|address| address.contains("/change/") && page.is_form(address));
    for form in forms {
        let is_plan = page.text.contains("name=\"token\"");
        let fields = if is_plan { BTreeMap::from([("token", "0")]) } else { BTreeMap::new() };
        let sent = browser.send(&form, &fields).await;
        let text = &sent.text;
        match is_plan {
            true => assert!(
                sent.status == 200 && text.contains("Nothing was done"),
                "{form}: {} {text}",
                sent.status
            ),
            false => {
                assert_eq!(sent.status, 303, "{form}: {text}");
                let plan = browser.get(&sent.location.expect("the plan")).await;
                assert_eq!(plan.status, 200, "{form}: {}", plan.text);
                assert!(!plan.text.contains("<img src=x"), "{form}: markup of a name");
            }
        }
    }
}

/// Returns a path as browsers send it, without segments that lead upward.
fn resolved(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    segments.join("/")
}

/// Visits what can be reached from a page; returns the visited pages.
async fn crawl(browser: &mut Browser, from: &str) -> BTreeSet<String> {
    let mut waiting = VecDeque::from([from.to_owned()]);
    let mut visited = BTreeSet::new();
    let mut queries: BTreeMap<String, usize> = BTreeMap::new();
    while let Some(path) = waiting.pop_front() {
        let count = queries.entry(path.split('?').next().unwrap_or_default().to_owned()).or_default();
        if visited.len() == MOST_PAGES || *count == MOST_QUERIES || !visited.insert(path.clone()) {
            continue;
        }
        *count += 1;
        let page = browser.get(&path).await;
        assert!(matches!(page.status, 200 | 303), "{path}: {} {}", page.status, page.text);
        assert!(!page.text.contains("<img src=x"), "{path}: markup of a name");
        send_changes(browser, &page).await;
        for address in page.location.iter().cloned().chain(page.addresses()) {
            assert!(!address.contains("://") && !address.starts_with("//"), "{path} leads to {address}");
            let path = match address.split('#').next().unwrap_or_default() {
                "" => continue,
                one if one.starts_with('/') => one.to_owned(),
                one if one.starts_with('?') => format!("{}{one}", path.split('?').next().unwrap_or_default()),
                one => resolved(&format!("{}/{one}", path.rsplit_once('/').expect("a path").0)),
            };
            // A stream does not end, and what is not of the console has its own tests.
            let is_page =
                path.starts_with("/console") && !path.ends_with("/live") && !path.contains("/assets/");
            // A file is no page.
            let is_page = is_page && !path.contains("/audit/export");
            // Forms: of those that read, the page behind them is visited with what it asks for.
            let path = match path.strip_suffix("/selection") {
                Some(base) => format!("{base}/selection?action=drain&scope=all&state=never-heard"),
                None => path,
            };
            let is_write = path.ends_with("/sessions/end") || path.ends_with("/views/remove");
            if is_page && path != "/console/logout" && !is_write {
                waiting.push_back(path);
            }
        }
    }
    visited
}

fn changes_only_its_own_account(pages: &BTreeSet<String>) {
    let changes = pages.iter().filter_map(|page| page.split_once("/change/")?.1.split('?').next());
    let changes: BTreeSet<&str> = changes.collect();
    assert_eq!(changes, BTreeSet::from(["key-create", "key-remove", "user-password"]));
}

#[tokio::test]
async fn every_page_that_a_role_can_reach_is_shown_to_it() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    for (index, name) in HOSTILE.iter().enumerate() {
        let node =
            json!({"token": "secret-n", "name": name, "pattern": "", "publicKey": "", "arch": "amd64"});
        let segment = utf8_percent_encode(name, NON_ALPHANUMERIC);
        assert_eq!(hub.call("PUT", &format!("/orgs/o/nodes/{segment}"), Some(node)).await.0, 201, "{name}");
        let group = json!({"description": name, "members": [name]});
        let path = format!("/orgs/o/hagroups/hostile-{index}");
        assert_eq!(hub.call("POST", &path, Some(group)).await.0, 201, "{name}");
    }
    for (name, admin) in [("admin", true), ("user", false)] {
        let body = json!({"password": "secret", "email": "e", "admin": admin});
        assert_eq!(hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await.0, 201);
    }
    for name in HOSTILE {
        // Nodes have these names already.
        let user = format!("u{name}");
        let segment = utf8_percent_encode(&user, NON_ALPHANUMERIC);
        let body = json!({"password": "secret", "email": name});
        assert_eq!(hub.call("POST", &format!("/orgs/o/users/{segment}"), Some(body)).await.0, 201, "{name}");
    }
    let view = json!({"state": "never-heard", "description": HOSTILE[0]});
    let name = utf8_percent_encode(HOSTILE[0], NON_ALPHANUMERIC);
    assert_eq!(hub.call("PUT", &format!("/orgs/o/agbot/views/{name}"), Some(view)).await.0, 200);
    eventually("the agbot knows the nodes", async || {
        let found = hub.call("GET", "/orgs/o/agbot/nodes?count=true", None).await.1;
        (found["count"] == 4 && found["nodes"][0]["running"].is_number()).then_some(())
    })
    .await;

    // What needs a person stays so while the pages are visited.
    let service =
        json!({"name": "watch", "org": "o", "arch": "*", "serviceVersions": [{"version": "1.0.0"}]});
    let unplaced = json!({
        "label": HOSTILE[0], "service": service, "properties": [], "constraints": ["printer == true"],
        "orchestration": {"mode": "replicated", "replicas": 1},
    });
    assert_eq!(hub.call("POST", "/orgs/o/business/policies/unplaced", Some(unplaced)).await.0, 201);
    eventually("all instances run", async || fleet.all_run("1.0.0").then_some(())).await;
    let problem = eventually("one problem", async || {
        let found = hub.call("GET", "/orgs/o/agbot/overview", None).await.1["attention"].clone();
        let only = found.as_array().filter(|all| all.len() == 1)?.first()?.clone();
        (only["subject"] == "o/unplaced").then(|| only["id"].as_str().expect("an id").to_owned())
    })
    .await;

    let mut admin = Browser::of(&hub, "o", "admin", "secret").await;
    let pages = crawl(&mut admin, "/console").await;
    for page in REACHED {
        assert!(pages.contains(page), "{page}: {pages:?}");
    }
    assert!(pages.contains(&format!("/console/orgs/o/attention/{problem}")), "{pages:?}");
    let mut user = Browser::of(&hub, "o", "user", "secret").await;
    let pages = crawl(&mut user, "/console").await;
    assert!(!pages.iter().any(|page| page.contains("/do/") || page.contains("edge-1")), "{pages:?}");
    changes_only_its_own_account(&pages);
    let body = json!({"password": "secret", "email": "e", "role": "viewer"});
    assert_eq!(hub.call("POST", "/orgs/o/users/viewer", Some(body)).await.0, 201);
    let mut viewer = Browser::of(&hub, "o", "viewer", "secret").await;
    let pages = crawl(&mut viewer, "/console").await;
    assert!(pages.contains("/console/orgs/o/documents/policies/everywhere/revisions/1"), "{pages:?}");
    assert!(!pages.iter().any(|page| page.contains("/do/") || page.contains("?revision=")), "{pages:?}");
    let mut root = Browser::of(&hub, "root", "root", &hub.root_password()).await;
    let pages = crawl(&mut root, "/console").await;
    assert!(pages.contains("/console/orgs/o/nodes/edge-2"), "{pages:?}");
}
