//! `hzn approval`: from the refusal of a write to the approved one.

use serde_json::{Value, json};

use super::{Hzn, hub_with_two_nodes, policy, up};
use crate::support::fleet::Fleet;
use crate::support::wait::must;
use crate::support::{Hub, Scratch};

#[tokio::test]
async fn refused_write_names_the_request_which_another_user_approves() {
    let scratch = Scratch::new();
    let (hub, fleet, mut hzn) = hub_with_two_nodes(&scratch).await;
    for name in ["ann", "bob"] {
        hzn.done(&format!("exchange user create {name} secret-{name} e@example.com -A"));
    }
    hzn.write("policy.json", &policy(2));
    hzn.done("exchange deployment addpolicy everywhere -f policy.json");
    up(&hzn, "everywhere", 2).await;
    hzn.done("exchange orchestration settings set approval=changes");
    let shown = hzn.data("exchange orchestration settings show");
    assert_eq!(shown["approval"], "changes", "{shown}");

    hzn_of(&mut hzn, "ann");
    hzn.write("policy.json", &policy(1));
    let refused = hzn.refused(5, "exchange deployment addpolicy everywhere -f policy.json");
    assert!(refused.contains("approval-required") && refused.contains("hzn approval request"), "{refused}");
    let planned = hzn.run("plan everywhere -f policy.json");
    assert!(
        planned.status == 0 && planned.errors.contains("hzn approval request policy"),
        "{}",
        planned.errors
    );
    let refused = hzn.refused(1, "approval request policy everywhere --reason x");
    assert!(refused.contains("-f"), "{refused}");

    let mut outcome = Value::Null;
    for _ in 0..20 {
        hzn_of(&mut hzn, "ann");
        let made = hzn
            .data("approval request policy everywhere -f policy.json --reason ticket-9 --expires 2h --json");
        let id = made["id"].as_str().unwrap_or_default().to_owned();
        let refused = hzn.refused(5, &format!("approval approve {id}"));
        assert!(refused.contains("another user has to decide"), "{refused}");
        let waiting = hzn.run(&format!("approval show {id} --wait=1s"));
        assert_eq!(waiting.status, 13, "{}", waiting.errors);
        let refused = hzn.refused(5, &format!("approval apply {id}"));
        assert!(refused.contains("pending"), "{refused}");

        hzn_of(&mut hzn, "bob");
        let listed = hzn.data("approval list --state pending");
        assert_eq!(listed[0]["id"], id.as_str(), "{listed}");
        let text = hzn.run(&format!("approval show {id} --output table")).output;
        for part in ["requested by o/ann", "ticket-9", "- stop slot", "token: "] {
            assert!(text.contains(part), "{part}: {text}");
        }
        hzn.done(&format!("approval approve {id} --reason seen"));
        let applied = hzn.run(&format!("approval apply {id}"));
        if applied.status == 0 {
            assert_eq!(hzn.run(&format!("approval show {id} --wait=5s")).status, 0);
            outcome = hzn.data(&format!("approval show {id} --json"));
            hzn.refused(5, &format!("approval apply {id}"));
            break;
        }
        assert!(
            applied.errors.contains("has changed") && applied.errors.contains("request another"),
            "{}",
            applied.errors
        );
    }
    assert_eq!((&outcome["state"], &outcome["usedBy"]), (&json!("used"), &json!("o/bob")), "{outcome}");
    up(&hzn, "everywhere", 1).await;

    let made = hzn.data("approval request action everywhere restart --reason x --json");
    let id = made["id"].as_str().unwrap_or_default();
    hzn.done(&format!("approval cancel {id} --reason obsolete"));
    let ended = hzn.run(&format!("approval show {id} --wait=5s"));
    assert_eq!(ended.status, 11, "{}", ended.errors);
    hzn.refused(8, "approval show 01932f0e-7a5b-7cc3-98c4-dc0c0c07398f");
    hzn.done("approval request settings approval=none --reason x --dry-run");
    assert_eq!(hzn.data("approval list --state pending"), json!([]));
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// Documents of an HA group and of two deployment policies, which no node runs.
fn plant(label: &str) -> String {
    let policy = |name: &str| {
        json!({"kind": "policy", "name": name, "spec": {
            "label": label,
            "service": {"name": "watch", "org": "o", "arch": "*", "serviceVersions": [{"version": "1.0.0"}]},
            "constraints": ["site == nowhere"],
        }})
    };
    let group = json!({"kind": "hagroup", "name": "line", "spec": {"description": label, "members": []}});
    json!([group, policy("one"), policy("two")]).to_string()
}

/// Actions and approvals of the deployment policies, as `hzn apply` reports them.
fn steps(found: &Value) -> Vec<(String, String, String)> {
    let policies = found.as_array().into_iter().flatten().filter(|step| step["kind"] == "policy");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let shown = |step: &Value| {
        (text(&step["action"]), text(&step["approval"]["state"]), text(&step["approval"]["id"]))
    };
    policies.map(shown).collect()
}

#[tokio::test]
async fn documents_that_need_an_approval_are_requested_and_applied_when_they_are_approved() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    hzn.set("HZN_ORG_ID", "o".to_owned());
    for name in ["ann", "bob"] {
        hzn.done(&format!("exchange user create {name} secret-{name} e@example.com -A"));
    }
    hzn.done("exchange orchestration settings set approval=changes");
    hzn_of(&mut hzn, "ann");
    must(std::fs::write(scratch.join("plant.json"), plant("first")), "a file");
    let file = scratch.join("plant.json").display().to_string();
    let refused = hzn.refused(1, &format!("apply -f {file}"));
    assert!(refused.contains("--reason"), "{refused}");
    assert!(hzn.run("exchange hagroup list line").status != 0, "nothing was applied");
    let dry = hzn.run(&format!("apply -f {file} --reason ticket-9 --dry-run --output json"));
    assert_eq!(dry.status, 0, "{}", dry.errors);
    assert_eq!(hzn.data("approval list --state pending"), json!([]));

    let apply = format!("apply -f {file} --reason ticket-9 --output json");
    let asked = hzn.run(&apply);
    assert_eq!(asked.status, 14, "{}", asked.errors);
    let requested = steps(&must(serde_json::from_str(&asked.output), "JSON"));
    assert_eq!(requested.len(), 2, "{requested:?}");
    for (action, state, id) in &requested {
        assert_eq!((action.as_str(), state.as_str()), ("create", "pending"), "{requested:?}");
        assert!(asked.errors.contains(&format!("hzn approval approve {id}")), "{}", asked.errors);
    }
    assert!(asked.errors.contains("hzn apply -f "), "{}", asked.errors);
    assert_eq!(hzn.run("exchange hagroup list line").status, 0, "what needs no approval is applied");
    assert!(hzn.run("exchange deployment listpolicy one").status != 0);
    let again = hzn.run(&apply);
    assert_eq!(again.status, 14);
    let waiting = steps(&must(serde_json::from_str(&again.output), "JSON"));
    assert_eq!(waiting, requested, "nothing is requested twice");

    hzn_of(&mut hzn, "bob");
    hzn.done(&format!("approval approve {} --reason seen", requested[0].2));
    hzn_of(&mut hzn, "ann");
    let half = hzn.run(&apply);
    assert_eq!(half.status, 14, "{}", half.errors);
    let states: Vec<String> = steps(&must(serde_json::from_str(&half.output), "JSON"))
        .into_iter()
        .map(|(_, state, _)| state)
        .collect();
    assert_eq!(states, ["used", "pending"], "{}", half.errors);
    hzn_of(&mut hzn, "bob");
    hzn.done(&format!("approval approve {} --reason seen", requested[1].2));
    hzn_of(&mut hzn, "ann");
    let done = hzn.data(&format!("apply -f {file} --output json"));
    assert_eq!(steps(&done)[1].1, "used", "{done}");
    let unchanged = hzn.data(&format!("apply -f {file} --output json"));
    assert!(steps(&unchanged).iter().all(|(action, state, _)| action == "unchanged" && state.is_empty()));

    // The policy is written after the approval: another plan has to be approved.
    must(std::fs::write(scratch.join("plant.json"), plant("second")), "a file");
    let asked = hzn.run(&apply);
    let requested = steps(&must(serde_json::from_str(&asked.output), "JSON"));
    hzn_of(&mut hzn, "bob");
    for (_, _, id) in &requested {
        hzn.done(&format!("approval approve {id}"));
    }
    assert_eq!(
        hub.call("PATCH", "/orgs/o/business/policies/one", Some(json!({"label": "meanwhile"}))).await.0,
        201
    );
    hzn_of(&mut hzn, "ann");
    let stale = hzn.run(&format!("apply -f {file} --output json"));
    assert_eq!(stale.status, 14, "{}", stale.errors);
    let renewed = steps(&must(serde_json::from_str(&stale.output), "JSON"));
    assert_eq!((renewed[0].1.as_str(), renewed[1].1.as_str()), ("pending", "used"), "{renewed:?}");
    assert_ne!(renewed[0].2, requested[0].2);
    let reason = hzn.data(&format!("approval show {} --json", renewed[0].2))["reason"].clone();
    assert_eq!(reason, "ticket-9", "the reason stays");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

fn hzn_of(hzn: &mut Hzn, name: &str) {
    hzn.set("HZN_EXCHANGE_USER_AUTH", format!("{name}:secret-{name}"));
}
