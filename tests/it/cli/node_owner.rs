//! The owner of a machine registers its node, sees its service run and takes it away again.

use serde_json::{Value, json};

use super::Hzn;
use crate::support::{Hub, Program, Scratch, eventually, free_address};

const ARCH: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };

#[tokio::test]
async fn node_is_registered_runs_its_service_and_is_unregistered() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    let address = free_address();
    let data = scratch.join("agent");
    let data = data.to_string_lossy();
    let agent =
        ["agent", "--hub", &hub.url, "--driver", "process", "--data-dir", &data, "--api-listen", &address];
    let _agent = Program::start(&scratch, &agent, None);
    let mark = data.to_string();
    hzn.set("HORIZON_URL", format!("http://{address}"));
    prepare(&mut hzn);
    eventually("the agent responds", || async { (hzn.run("status").status == 0).then_some(()) }).await;
    assert_eq!(hzn.data("node list")["configstate"]["state"], "unconfigured");
    hzn.refused(5, "service list");

    hzn.done("register -n n1:token-of-n1 --policy policy.json --ha-group solo -s cam -t 50");
    let node = hzn.data("node list");
    assert_eq!((&node["id"], &node["configstate"]["state"]), (&json!("n1"), &json!("configured")));
    assert!(!hzn.run("node list").output.contains("token-of-n1"));
    assert_eq!(hzn.data("exchange hagroup list solo")["acme/solo"]["members"], json!(["n1"]));
    assert_eq!(hzn.data("service list")[0]["url"], "cam");
    assert_eq!(hzn.run("service log cam").output, "watching\n");
    assert_eq!(hzn.run("service log acme/cam -n 0").output, "");
    let instance = hzn.data("service list -l")[0]["instance_id"].as_str().expect("an id").to_owned();
    assert_eq!(hzn.run(&format!("service log {instance} -c cam")).output, "watching\n");
    hzn.refused(8, "service log typo");
    assert!(hzn.refused(5, "service log cam -c typo").contains("only cam"));
    assert_eq!(hzn.data("deploycheck all -b cameras")["compatible"], json!(true));
    let of_agent = hzn.data("agreement list");
    let of_hub = hzn.data("agbot agreement list --node n1");
    assert_eq!(of_agent[0]["current_agreement_id"], of_hub[0]["current_agreement_id"]);
    let runs = eventually("the agbot sees the service run", || async {
        let text = hzn.data("explain n1 cameras")["agbot"]["text"].as_str().map(str::to_owned);
        text.filter(|text| text.contains("runs version 1.0.0"))
    });
    runs.await;
    assert_eq!(processes_of("sleep\u{0}600", &mark).len(), 1);
    hzn.refused(5, "register -n n1:token-of-n1");
    hzn.refused(1, "unregister");
    hzn.done("unregister -f -r");
    assert_eq!(hzn.data("node list")["configstate"]["state"], "unconfigured");
    hzn.refused(8, "exchange node list n1");
    assert_eq!(hzn.data("agreement list"), json!([]));
    // Nothing of it is left, neither at the hub nor on the machine.
    eventually("the hub has no agreement with it, and no such node", || async {
        (hzn.run("agbot agreement list --node n1").status == 8).then_some(())
    })
    .await;
    assert_eq!(hzn.data("exchange hagroup list solo")["acme/solo"]["members"], json!([]));
    assert!(processes_of("sleep\u{0}600", &mark).is_empty(), "its process is gone");
    let left: Vec<_> = std::fs::read_dir(scratch.join("agent"))
        .expect("the data directory stays")
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| name.ends_with(".pem") || name == "registration-token")
        .collect();
    assert!(left.is_empty(), "keys and token are removed: {left:?}");
}

/// Processes with a text in their command line whose environment or working directory names the agent's data directory.
fn processes_of(command: &str, data: &str) -> Vec<i32> {
    let directories = std::fs::read_dir("/proc").expect("the process table");
    let pids = directories.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let directory = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(command) && directory.to_string_lossy().starts_with(data)
    })
    .collect()
}

fn prepare(hzn: &mut Hzn) {
    hzn.done("exchange org create acme -d plant");
    hzn.done("exchange user create ann secret ann@acme.com -A");
    hzn.set("HZN_EXCHANGE_USER_AUTH", "ann:secret".to_owned());
    assert_eq!(hzn.run("key create -l 2048").status, 0);
    hzn.write(
        "service.json",
        &json!({
            "url": "cam", "version": "1.0.0", "arch": ARCH,
            "deployment": {"services": {"cam": {"command": ["/bin/sh", "-c", "echo watching; exec sleep 600"]}}},
        }),
    );
    hzn.done("exchange service publish -f service.json");
    hzn.write("policy.json", &json!({"properties": [{"name": "site", "value": "north"}]}));
    let policy: Value = json!({
        "label": "cameras",
        "service": {"name": "cam", "org": "acme", "arch": "*", "serviceVersions": [{"version": "1.0.0"}]},
        "constraints": ["site == north"],
    });
    hzn.write("deployment.json", &policy);
    hzn.done("exchange deployment addpolicy cameras -f deployment.json");
}
