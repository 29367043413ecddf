//! Pages of the agbot's lists of tasks, reasons and rollouts, and the counts by state.

use serde_json::{Value, json};

use super::workload::{hub, replicated, runs, want};
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

const TASKS: &str = "/business/policies/everywhere/tasks";

async fn get(hub: &Hub, path: &str) -> (u16, Value) {
    hub.call("GET", &format!("/orgs/o{path}"), None).await
}

/// The entries of all pages of a list.
async fn pages(hub: &Hub, path: &str, member: &str, query: &str) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let (status, page) = get(hub, &format!("{path}?{query}{after}")).await;
        assert_eq!(status, 200, "{page}");
        all.extend(page[member].as_array().expect("a list").iter().cloned());
        let Some(next) = page["next"].as_str() else { return all };
        let escaped: String = next.bytes().map(|byte| format!("%{byte:02X}")).collect();
        after = format!("&after={escaped}");
    }
}

#[tokio::test]
async fn tasks_and_reasons_are_listed_page_by_page() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    fleet.publish(&hub, "1.0.0").await;
    want(&fleet, &hub, "1.0.0", replicated(3)).await;
    runs(&fleet, "1.0.0", 3).await;
    eventually("every task runs", || async {
        let (_, page) = get(&hub, &format!("{TASKS}?filter=state%20%3D%3D%20running&count=true")).await;
        (page["count"] == 3).then_some(())
    })
    .await;
    for (path, member) in [(TASKS, "tasks"), ("/agbot/reasons", "reasons")] {
        let (_, whole) = get(&hub, path).await;
        let whole = whole[member].as_array().expect("a list").clone();
        assert_eq!(whole.len(), 3, "{whole:?}");
        for query in ["limit=1", "limit=2&count=true", "limit=1&filter=node%20%21%3D%20none"] {
            let paged = pages(&hub, path, member, query).await;
            let ids = |list: &[Value]| list.iter().map(|one| one["node"].clone()).collect::<Vec<_>>();
            assert_eq!(ids(&paged), ids(&whole), "{path}?{query}");
        }
        let (_, page) = get(&hub, &format!("{path}?limit=2&count=true")).await;
        assert_eq!((page["count"].clone(), page[member].as_array().map(Vec::len)), (json!(3), Some(2)));
        let node = whole[1]["node"].as_str().expect("a node");
        let one = format!("{path}?count=true&filter=node%20%3D%3D%20%22{}%22", node.replace('/', "%2F"));
        let (_, page) = get(&hub, &one).await;
        assert_eq!((&page["count"], &page[member][0]["node"]), (&json!(1), &json!(node)));
        for (query, field) in [
            ("limit=1001", "limit"),
            ("after=elsewhere", "after"),
            ("filter=a%20%3D", "filter"),
            ("count=1", "count"),
        ] {
            let (status, refusal) = get(&hub, &format!("{path}?{query}")).await;
            let text = refusal["msg"].as_str().unwrap_or_default();
            assert_eq!((status, text.starts_with(field)), (400, true), "{path} {refusal}");
        }
    }
    let second = json!({
        "label": "second", "constraints": ["site == nowhere"],
        "service": {"name": "watch", "org": "o", "arch": "*", "serviceVersions": [{"version": "1.0.0"}]},
    });
    let (status, body) = hub.call("POST", "/orgs/o/business/policies/second", Some(second)).await;
    assert_eq!(status, 201, "{body}");
    eventually("both policies are listed", || async {
        (get(&hub, "/agbot/policies?count=true").await.1["count"] == 2).then_some(())
    })
    .await;
    for (filter, expected) in [
        ("up%20%3D%3D%203", &["o/everywhere"][..]),
        ("orchestrated%20%3D%3D%20false", &["o/second"]),
        ("name%20in%20%22second%2Ceverywhere%22", &["o/everywhere", "o/second"]),
        ("up%20%3E%203", &[]),
    ] {
        let found = pages(&hub, "/agbot/policies", "policies", &format!("limit=1&filter={filter}")).await;
        assert_eq!(found.iter().map(|one| one["policy"].clone()).collect::<Vec<_>>(), expected, "{filter}");
        let (_, page) = get(&hub, &format!("/agbot/policies?count=true&filter={filter}")).await;
        assert_eq!(page["count"], expected.len(), "{filter}: {page}");
        assert_eq!(page.get("countIsMinimum"), None, "{page}");
    }
    let (status, refusal) = get(&hub, "/agbot/policies?filter=up%20%3D").await;
    assert!(
        status == 400 && refusal["msg"].as_str().is_some_and(|text| text.starts_with("filter")),
        "{refusal}"
    );
    let (_, overview) = get(&hub, "/agbot/overview").await;
    assert_eq!(overview["tasks"]["running"], 3, "{overview}");
    assert_eq!(overview["groupStates"], json!({"up": 1, "degraded": 0, "down": 0, "empty": 0}));
    let (_, rollouts) = get(&hub, "/agbot/rollouts?count=true").await;
    assert_eq!((&rollouts["rollouts"], &rollouts["count"]), (&json!([]), &json!(0)), "{rollouts}");
    for query in ["after=p%2Fx", "newest=true&count=true", "newest=true&after=o%2Fx", "newest=1"] {
        let (status, _) = get(&hub, &format!("/agbot/rollouts?{query}")).await;
        assert_eq!(status, 400, "{query}");
    }
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
