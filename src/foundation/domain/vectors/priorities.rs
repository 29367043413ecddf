//! Vectors of the choice among the versions of a service.

use serde_json::{Value, json};

use crate::policy::internal::{InternalPolicy, Workload, WorkloadPriority};
use crate::policy::priority::{RetryRecord, Tries, best_above, choose_workload, with_priority};
use crate::vectors_reader::{expect_same, for_each_line};

#[test]
fn priorities() {
    for_each_line("priorities", check);
}

fn check(vector: &Value) -> Result<(), String> {
    let workloads = workloads(vector);
    match vector["kind"].as_str().unwrap_or_default() {
        "next_highest" => next_highest(vector, &workloads),
        "sequence" => sequence(vector, &workloads),
        "highest_above" => {
            let found = best_above(&workloads, number(vector, "current_priority"));
            expect_version(vector, found)
        }
        "with_priority" => expect_version(vector, with_priority(&workloads, number(vector, "priority"))),
        "self_consistent" => {
            let policy = InternalPolicy { workloads, ..InternalPolicy::named("p") };
            expect_same("consistent", &vector["consistent"], &json!(policy.check_self_consistent().is_ok()))
        }
        other => Err(format!("unknown kind \"{other}\"")),
    }
}

fn next_highest(vector: &Value, workloads: &[Workload]) -> Result<(), String> {
    let tries = Tries {
        priority: number(vector, "current_priority"),
        count: number(vector, "retry_count"),
        first_try_at: unsigned(vector, "first_try_time"),
    };
    let chosen = choose_workload(workloads, tries, unsigned(vector, "now"));
    if vector.get("fault").is_some() {
        return chosen.map_or(Ok(()), |_| Err("accepted what crashes the reference".to_owned()));
    }
    let chosen = chosen.map_err(|error| error.to_string())?;
    expect_version(vector, Some(chosen))?;
    expect_same("selected_priority", &vector["selected_priority"], &json!(chosen.priority.value))
}

fn sequence(vector: &Value, workloads: &[Workload]) -> Result<(), String> {
    let steps = vector["steps"].as_array().ok_or("no steps")?;
    let mut record: Option<RetryRecord> = None;
    for step in steps {
        let now = unsigned(step, "time");
        let tries = record.as_ref().map(RetryRecord::next_tries).unwrap_or_default();
        let wanted = json!([step["asked_priority"], step["asked_retry_count"], step["asked_first_try_time"]]);
        expect_same("asked", &wanted, &json!([tries.priority, tries.count, tries.first_try_at]))?;
        let chosen = choose_workload(workloads, tries, now).map_err(|error| error.to_string())?;
        expect_version(step, Some(chosen))?;
        record = Some(match record {
            None => RetryRecord::begin(chosen.priority, now),
            Some(record) => record.note_agreement(chosen.priority, now),
        });
    }
    Ok(())
}

fn workloads(vector: &Value) -> Vec<Workload> {
    let as_workload = |entry: &Value| Workload {
        url: "svc".to_owned(),
        org: "org".to_owned(),
        version: entry["version"].as_str().unwrap_or_default().to_owned(),
        priority: WorkloadPriority {
            value: number(entry, "priority_value"),
            retries: number(entry, "retries"),
            retry_secs: number(entry, "retry_durations"),
            verified_secs: 0,
        },
        ..Workload::default()
    };
    vector["workloads"].as_array().into_iter().flatten().map(as_workload).collect()
}

fn expect_version(vector: &Value, found: Option<&Workload>) -> Result<(), String> {
    let version = found.map(|workload| workload.version.as_str());
    expect_same("selected_version", &vector["selected_version"], &json!(version))
}

fn number(value: &Value, member: &str) -> i64 {
    value[member].as_i64().unwrap_or_default()
}

fn unsigned(value: &Value, member: &str) -> u64 {
    value[member].as_u64().unwrap_or_default()
}
