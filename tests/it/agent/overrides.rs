//! Deployment overrides of policies: variables that replace those of the service.

use evenkeel_wire::signature;
use serde_json::json;

use crate::support::fleet::{Fleet, arch};
use crate::support::prepared::KEY;
use crate::support::wait::must;
use crate::support::{Hub, Scratch, eventually};

#[tokio::test]
async fn overrides_reach_the_environment_and_a_change_of_them_too() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-monitor-secs", "1", "--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    let file = scratch.join("mode");
    let script = format!("echo \"$MODE $LEVEL\" > {}; exec sleep 100", file.display());
    let deployment = json!({"services": {"watch": {
        "command": ["/bin/sh", "-c", script], "environment": ["MODE=base", "LEVEL=1"],
    }}});
    fleet.publish_service(&hub, "watch", "1.0.0", &deployment.to_string(), json!({})).await;
    let written = || std::fs::read_to_string(&file).unwrap_or_default();
    for mode in ["first", "second"] {
        let overrides = json!({"services": {"watch": {"environment": [format!("MODE={mode}")]}}}).to_string();
        let proof = must(signature::sign(&overrides, &KEY, &mut rand::rng()), "a signature");
        let version = json!({
            "version": "1.0.0", "deployment_overrides": overrides, "deployment_overrides_signature": proof,
        });
        let service = json!({"name": "watch", "org": "o", "arch": arch(), "serviceVersions": [version]});
        fleet.want_with(&hub, "1.0.0", json!({"service": service})).await;
        eventually("the instance has the overridden variable", || async {
            (written() == format!("{mode} 1\n")).then_some(())
        })
        .await;
    }
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
