//! Values that selected nodes have in common, and one rollout in detail.

use serde_json::json;

use super::Hzn;
use crate::support::{Hub, Scratch, eventually};

#[tokio::test]
async fn selected_nodes_are_compared_and_a_missing_rollout_is_named() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "", "description": ""}))).await.0, 201);
    for number in 0..9 {
        let path = format!("/orgs/o/nodes/n{number}");
        let node = json!({"token": "secret-n", "name": "n", "pattern": "", "publicKey": "", "arch": "amd64"});
        assert_eq!(hub.call("PUT", &path, Some(node)).await.0, 201);
        let site = if number < 3 { "north" } else { "south" };
        let properties = json!([{"name": "site", "value": site}, {"name": "disk", "value": site}]);
        let policy = json!({"properties": properties, "constraints": []});
        assert_eq!(hub.call("PUT", &format!("{path}/policy"), Some(policy)).await.0, 201);
    }
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    hzn.set("HZN_ORG_ID", "o".to_owned());
    let found = eventually("all nodes are known", || async {
        let found = hzn.data("exchange node common --filter site==north");
        (found["whole"] == 9 && found["failing"] == 3).then_some(found)
    })
    .await;
    assert_eq!(found["causes"][0]["value"], "north", "{found}");
    let table = hzn.run("exchange node common --filter site==north --output table");
    assert!(table.output.contains("3/3") && table.output.contains("3/9"), "{}", table.output);
    assert!(table.errors.contains("3 of 9 nodes are selected"), "{}", table.errors);
    assert_eq!(hzn.data("exchange node common")["failing"], 0, "no node is down");
    assert!(hzn.run("exchange node common --filter site===").status != 0, "it is no constraint");
    let missing = hzn.refused(8, "rollout show nothing");
    assert!(missing.contains("o/nothing"), "{missing}");
    assert_eq!(hub.stop().await, 0);
}
