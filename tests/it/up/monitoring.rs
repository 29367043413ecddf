//! The dashboard, the alert rules and the page of metrics name the metrics that the hub exports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::support::wait::must;
use crate::support::{Hub, Scratch, eventually};

/// Beginnings of the names of our metrics; other words of an expression are functions and labels.
const PREFIXES: [&str; 7] = ["agbot_", "database_", "exchange_", "http_", "orch_", "process_", "tls_"];

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/monitoring").join(name);
    must(std::fs::read_to_string(path), "a file of docs/monitoring")
}

/// Returns family → type and labels, as the page of metrics documents them.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let page = read("../reference/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        // Values of a label follow its name.
        let names = cells[3].split([':', '(']).next().unwrap_or_default();
        let labels = names.split('`').skip(1).step_by(2).map(str::to_owned);
        (cells[1].trim_matches('`').to_owned(), (cells[2].to_owned(), labels.collect()))
    })
    .collect()
}

/// Returns the names of the labels of a family's series, except those of buckets.
fn labels(text: &str, family: &str) -> BTreeSet<String> {
    let series = text.lines().filter_map(|line| line.strip_prefix(family)?.split_once('}'));
    let labels = series.filter_map(|(labels, _)| labels.split_once('{'));
    labels
        .flat_map(|(_, labels)| labels.split(',').filter_map(|label| label.split_once('=')))
        .map(|(name, _)| name.to_owned())
        .filter(|name| name != "le")
        .collect()
}

/// All texts of members named `expr`.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_str().filter(|_| name == "expr") {
                    Some(text) => found.push(text.to_owned()),
                    None => expressions(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

fn names(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix)))
}

/// Family → kind, as `/metrics` declares them.
fn families(text: &str) -> BTreeMap<String, String> {
    let declared = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    declared.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

/// Families with a series for each policy with tasks, claim, kind of recovery, or organization that cannot be read.
const WITHOUT_SERIES: [&str; 9] = [
    "agbot_unread_org",
    "orch_task_state",
    "orch_workload_errors",
    "orch_update_state",
    "orch_unplaced",
    "orch_lock_held",
    "orch_full_reconcile_total",
    "orch_task_event_total",
    "orch_recover_total",
];

#[tokio::test]
async fn dashboard_alerts_and_page_name_all_metrics_of_the_hub_and_no_others() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let text = eventually("the agbot's metrics are there", || async {
        hub.get("/metrics")
            .await
            .map(|(_, text)| text)
            .filter(|text| text.contains("agbot_nodes{state=\"up\"} 0"))
    })
    .await;
    let families = families(&text);
    let mut found = Vec::new();
    expressions(&must(serde_json::from_str(&read("dashboard.json")), "JSON"), &mut found);
    let on_dashboard = found.len();
    let alerts = read("alerts.yml");
    found.extend(alerts.lines().filter_map(|line| Some(line.trim().strip_prefix("expr: ")?.to_owned())));
    assert!(on_dashboard >= 15 && found.len() > on_dashboard + 5, "the expressions are found");
    let mut used = BTreeSet::new();
    for expression in &found {
        for name in names(expression) {
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end))
                .filter(|family| families.get(*family).is_some_and(|kind| kind == "histogram"))
                .unwrap_or(name);
            assert!(families.contains_key(family), "{name} of `{expression}` is not exported");
            used.insert(family.to_owned());
        }
    }
    let unused: Vec<_> = families.keys().filter(|family| !used.contains(*family)).collect();
    assert!(unused.is_empty(), "neither on the dashboard nor in an alert: {unused:?}");
    for family in ["http_request_duration_seconds", "agbot_decision_duration_seconds"] {
        let line = text.lines().find(|line| line.starts_with(&format!("{family}_count")));
        assert!(line.is_some(), "{family} is observed");
    }
    let exported: BTreeMap<String, (String, BTreeSet<String>)> = families
        .iter()
        .map(|(family, kind)| (family.clone(), (kind.clone(), labels(&text, family))))
        .collect();
    let mut documented = documented();
    // As long as they have nothing to name these families have no series, which would show their labels.
    for family in WITHOUT_SERIES {
        let expected = documented.get_mut(family).expect(family);
        assert!(!expected.1.is_empty(), "{family} has labels");
        expected.1.clear();
    }
    assert_eq!(documented, exported, "docs/reference/metrics.md");
    assert_eq!(hub.stop().await, 0);
}
