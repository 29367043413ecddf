//! Settings of an organization for its workloads and nodes: shown with the defaults, replaced and patched by administrators.

use serde_json::{Value, json};

use super::api::{Api, ROOT};
use crate::support::TestDatabase;

const ADMIN: &str = "o/admin:pa";
const USER: &str = "o/u:pu";
const PATH: &str = "/orgs/o/orchestration";

async fn start() -> (TestDatabase, Api) {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    api.make_node(USER, "o", "n").await;
    (database, api)
}

#[tokio::test]
async fn defaults_are_shown_and_a_patch_changes_what_it_names() {
    let (_database, api) = start().await;
    let defaults = json!({
        "readyPeriodSeconds": 16, "rejoinGracePeriodSeconds": 90, "nodeDownAfterSeconds": 180, "orphanAfterSeconds": 86400,
        "metricsMaxAgeSeconds": 300, "oldTaskTimeoutSeconds": 60, "taskHistoryRetentionLimit": 5,
        "maintenanceGracePeriodSeconds": 60, "agentUpgradeGraceSeconds": 1800,
        "reportGraceSeconds": 60, "systemReportTtlSeconds": 65, "systemReportIntervalSeconds": 30, "upgradeBlockedErrorAfterSeconds": 600,
        "healthEvaluation": {
            "considerWarningAsError": false, "maxPercentUnhealthyNodes": 0, "maxPercentUnhealthyWorkloads": 0,
            "maxPercentUnhealthyUnits": 0, "maxPercentUnhealthyInstances": 0
        },
        "maintenanceGracePeriodSeconds": 60, "agentUpgradeGraceSeconds": 1800,
        "blocklist": {
            "failureThreshold": 5, "windowSeconds": 300, "baseSeconds": 300, "factor": 2, "maxSeconds": 3600, "resetAfterSeconds": 300
        },
        "healthCheckIntervalMinSeconds": 60, "healthCheckIntervalMaxSeconds": 3600,
        "constraintPriorities": {
            "PlacementConstraint": 0, "NodeCapacity": 0, "Affinity": 0, "FaultDomain": 0, "UpgradeDomain": 1, "PreferredLocation": 2
        },
        "nodeBufferPercentage": {}, "bufferUse": "upgrade", "rebalanceIntervalSeconds": 300,
        "eventRetention": 200_000, "approval": "none",
    });
    let shown = async |given: bool| {
        let path = if given { format!("{PATH}?given=true") } else { PATH.to_owned() };
        api.expect(200, USER, "GET", &path, Value::Null).await
    };
    assert_eq!((shown(false).await, shown(true).await), (defaults.clone(), json!({})));
    api.expect(201, ADMIN, "PUT", PATH, json!({"readyPeriodSeconds": 3, "orphanAfterSeconds": 9})).await;
    api.expect(201, ADMIN, "PATCH", PATH, json!({"readyPeriodSeconds": null, "nodeDownAfterSeconds": 7}))
        .await;
    let given = json!({"orphanAfterSeconds": 9, "nodeDownAfterSeconds": 7, "lastUpdatedBy": "o/admin"});
    assert_eq!(shown(true).await, given);
    assert_eq!(shown(false).await["readyPeriodSeconds"], 16);
    // The organization itself is written without touching them.
    api.expect(201, ADMIN, "PUT", "/orgs/o", json!({"label": "l", "description": "d"})).await;
    assert_eq!(shown(false).await["nodeDownAfterSeconds"], 7);
    api.expect(201, ADMIN, "PUT", PATH, json!({})).await;
    assert_eq!(shown(false).await, defaults, "PUT replaces all of it");
}

#[tokio::test]
async fn what_cannot_be_honoured_is_refused_by_name_and_changes_nothing() {
    let (_database, api) = start().await;
    api.expect(201, ADMIN, "PUT", PATH, json!({"readyPeriodSeconds": 3})).await;
    for (body, rule) in [
        (json!({"readyPeriodSeconds": 3601}), "readyPeriodSeconds must be an integer from 0 to 3600"),
        (json!({"readyPeriodSeconds": "1"}), "readyPeriodSeconds must be an integer"),
        (
            json!({"readyPeriodSecond": 1}),
            "readyPeriodSecond is not known; readyPeriodSeconds was probably meant",
        ),
        (
            json!({"readyPeriodSeconds": 5, "blocklist": {"factor": 0}}),
            "blocklist.factor must be an integer from 1 to 100",
        ),
        (
            json!({"readyPeriodSeconds": 5, "bufferUse": "never"}),
            "bufferUse must be upgrade or upgrade-and-failure",
        ),
        (
            json!({"readyPeriodSeconds": 5, "eventRetention": 0}),
            "eventRetention must be an integer from 1 to 1000000",
        ),
    ] {
        for method in ["PUT", "PATCH"] {
            let refused = api.expect(400, ADMIN, method, PATH, body.clone()).await;
            assert!(refused["msg"].as_str().is_some_and(|text| text.contains(rule)), "{refused}");
        }
    }
    for login in [USER, "o/n:token-n"] {
        api.expect(403, login, "PUT", PATH, json!({})).await;
        api.expect(403, login, "PATCH", PATH, json!({})).await;
    }
    assert_eq!(api.expect(200, USER, "GET", PATH, Value::Null).await["readyPeriodSeconds"], 3);
    api.expect(404, ROOT, "GET", "/orgs/other/orchestration", Value::Null).await;
}

#[tokio::test]
async fn feed_shows_a_change_to_those_who_ask_for_extensions() {
    let (_database, api) = start().await;
    api.expect(201, ADMIN, "PATCH", PATH, json!({"nodeDownAfterSeconds": 7})).await;
    let sees = async |login: &str, extensions: bool| {
        let body = json!({"changeId": 1, "maxRecords": 1000, "extensions": extensions});
        let found = api.expect(201, login, "POST", "/orgs/o/changes", body).await;
        found["changes"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["resource"] == "orgorchestration"))
    };
    assert!(sees(ADMIN, true).await);
    assert!(!sees(ADMIN, false).await && !sees("o/n:token-n", true).await);
}
