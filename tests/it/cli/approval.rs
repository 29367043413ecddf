//! `hzn approval`: from the refusal of a write to the approved one.

use serde_json::{Value, json};

use super::{Hzn, policy, up};
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch};

#[tokio::test]
async fn refused_write_names_the_request_which_another_user_approves() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    hzn.set("HZN_ORG_ID", "o".to_owned());
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

fn hzn_of(hzn: &mut Hzn, name: &str) {
    hzn.set("HZN_EXCHANGE_USER_AUTH", format!("{name}:secret-{name}"));
}
