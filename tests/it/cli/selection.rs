//! Saved views, one change of every node of a selection, and problems that somebody acknowledges.

use serde_json::{Value, json};

use super::Hzn;
use crate::support::{Hub, Scratch, eventually};

#[tokio::test]
async fn nodes_of_a_view_are_changed_and_problems_acknowledged() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "", "description": ""}))).await.0, 201);
    for number in 1..=3 {
        let node = json!({"token": "secret-n", "name": "n", "pattern": "", "publicKey": "", "arch": "amd64"});
        let path = format!("/orgs/o/nodes/n{number}");
        assert_eq!(hub.call("PUT", &path, Some(node)).await.0, 201);
        let policy = json!({"properties": [{"name": "line", "value": number}], "constraints": []});
        assert_eq!(hub.call("PUT", &format!("{path}/policy"), Some(policy)).await.0, 201);
    }
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    hzn.set("HZN_ORG_ID", "o".to_owned());
    let saved = hzn.run("exchange view save first --filter line<3 --description two");
    assert_eq!(saved.status, 0, "{}", saved.errors);
    assert_eq!(hzn.data("exchange view list")[0]["filter"], "line<3");
    eventually("the agbot knows the nodes", async || {
        let found = hub.call("GET", "/orgs/o/agbot/nodes?count=true&filter=line%20%3C%203", None).await.1;
        (found["count"] == 2).then_some(())
    })
    .await;

    let unselected = hzn.run("exchange node each drain -f");
    assert!(
        unselected.status == 1 && unselected.errors.contains("no selection is given"),
        "{}",
        unselected.errors
    );
    let missing = hzn.run("exchange node each drain -f --view none");
    assert_ne!(missing.status, 0, "{}", missing.errors);
    let outcomes = hzn.data("exchange node each drain -f --view first");
    assert_eq!(outcomes, json!([{"node": "o/n1", "outcome": "done"}, {"node": "o/n2", "outcome": "done"}]));
    let availability = async |node: &str| {
        let path = format!("/orgs/o/nodes/{node}/orchestration");
        hub.call("GET", &path, None).await.1["spec"]["availability"].clone()
    };
    assert_eq!((availability("n2").await, availability("n3").await), (json!("drain"), json!("active")));
    let refused = hzn.run("exchange node each tag shift=2 -f --node n3 --node gone");
    assert!(refused.status == 5 && refused.errors.contains("1 of 2 nodes"), "{}", refused.errors);
    let outcomes: Value = serde_json::from_str(&refused.output).expect("JSON");
    assert_eq!((&outcomes[0]["node"], &outcomes[1]["outcome"]), (&json!("o/gone"), &json!("done")));
    assert_ne!(outcomes[0]["outcome"], "done");
    let policy = hub.call("GET", "/orgs/o/nodes/n3/policy", None).await.1;
    let properties = policy["properties"].as_array().cloned().unwrap_or_default();
    let pairs: Vec<_> = properties.iter().map(|one| (one["name"].clone(), one["value"].clone())).collect();
    assert_eq!(pairs, [(json!("line"), json!(3)), (json!("shift"), json!(2))]);

    assert_eq!(hzn.run("exchange view remove first").status, 0);
    assert_ne!(hzn.run("exchange view remove first").status, 0);
    assert_eq!(hzn.data("agbot attention list"), json!([]));
    assert_ne!(hzn.run("agbot attention acknowledge 0123 --because known").status, 0);
}

#[tokio::test]
async fn entries_that_an_agbot_serves_are_selected_by_their_members() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    for org in ["o", "p"] {
        assert_eq!(
            hub.call("POST", &format!("/orgs/{org}"), Some(json!({"label": "", "description": ""}))).await.0,
            201
        );
    }
    let agbot = json!({"token": "secret-agbot", "name": "a", "publicKey": ""});
    assert_eq!(hub.call("PUT", "/orgs/o/agbots/a", Some(agbot)).await.0, 201);
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    hzn.set("HZN_ORG_ID", "o".to_owned());
    for (name, nodes) in [("camera", "o"), ("camera", "p"), ("gate", "p")] {
        hzn.done(&format!("exchange agbot adddeploymentpol a o {name} {nodes}"));
        hzn.done(&format!("exchange agbot addpattern a o {name} {nodes}"));
    }
    for (list, member) in [("listdeploymentpol", "businessPol"), ("listpattern", "pattern")] {
        let names = |found: &Value| found.as_object().expect("entries").keys().cloned().collect::<Vec<_>>();
        assert_eq!(
            hzn.data(&format!("exchange agbot {list} a")).as_object().map(serde_json::Map::len),
            Some(3)
        );
        let found = hzn.data(&format!("exchange agbot {list} a --filter nodeOrgid==p"));
        assert_eq!(names(&found), ["o_camera_p", "o_gate_p"]);
        let found =
            hzn.data(&format!("exchange agbot {list} a --filter {member}==camera --after o_camera_o"));
        assert_eq!(names(&found), ["o_camera_p"]);
        let first = hzn.run(&format!("exchange agbot {list} a --limit 1"));
        assert!(first.status == 0 && first.errors.contains("--after o_camera_o"), "{}", first.errors);
        assert_eq!(hzn.data(&format!("exchange agbot {list} a --filter nodeOrgid==p --count")), json!(2));
        hzn.refused(5, &format!("exchange agbot {list} a --filter nodeOrgid=="));
    }
    hzn.refused(8, "exchange agbot listpattern none --filter pattern==x");
    assert_eq!(hub.stop().await, 0);
}
