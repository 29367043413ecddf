//! Example projects of Open Horizon with rewritten files: published, checked and deployed as their Makefiles do it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::Hzn;
use crate::support::fleet::{Fleet, arch};
use crate::support::wait::must;
use crate::support::{Hub, Scratch, eventually, free_address};

/// A project, as its Makefile and `hzn.json` describe it.
struct Project {
    directory: &'static str,
    /// Directory of its files below that one.
    files: &'static str,
    definition: &'static str,
    service: &'static str,
    version: &'static str,
    /// Variables that the Makefile exports besides the service.
    exported: &'static [(&'static str, &'static str)],
    /// True if a configuration file names the service.
    has_configuration: bool,
    /// True if the node has user input of its own.
    has_user_input: bool,
}

const PLAIN: Project = Project {
    directory: "",
    files: "",
    definition: "service.definition.json",
    service: "",
    version: "1.0.0",
    exported: &[],
    has_configuration: false,
    has_user_input: false,
};

/// Deployed by a policy, each to a node with the policy of the project.
const BY_POLICY: [Project; 7] = [
    Project {
        directory: "web-helloworld-python",
        definition: "service.json",
        service: "web-helloworld-python",
        exported: &[("SERVICE_CONTAINER", "openhorizon/web-helloworld-python:1.0.0")],
        ..PLAIN
    },
    Project {
        directory: "service-homeassistant",
        service: "service-homeassistant",
        version: "0.0.1",
        exported: &[
            ("DOCKER_IMAGE_BASE", "homeassistant/home-assistant"),
            ("DOCKER_IMAGE_VERSION", "latest"),
            ("MY_TIME_ZONE", "Europe/Berlin"),
        ],
        ..PLAIN
    },
    Project {
        directory: "service-fledge",
        files: "horizon/",
        service: "service-fledge",
        exported: &[("SERVICE_ORG_ID", "o")],
        ..PLAIN
    },
    Project {
        directory: "service-minecraft",
        files: "horizon/",
        service: "service-minecraft",
        exported: &[("SERVICE_ORG_ID", "o"), ("MINECRAFT_SERVER_PORT", "25565")],
        ..PLAIN
    },
    Project {
        directory: "service-ollama",
        files: "horizon/",
        service: "service-ollama",
        version: "0.1.0",
        ..PLAIN
    },
    Project { directory: "service-edgelake", service: "service-edgelake", version: "1.3.5", ..PLAIN },
    Project {
        directory: "cpu2evtstreams",
        files: "horizon/",
        service: "ibm.cpu2evtstreams",
        version: "1.4.3",
        exported: &[("EVTSTREAMS_API_KEY", "key of the broker")],
        has_configuration: true,
        has_user_input: true,
        ..PLAIN
    },
];

/// Deployed by a pattern.
const BY_PATTERN: [(Project, &str); 3] = [
    (
        Project {
            directory: "helloMMS",
            files: "horizon/",
            service: "ibm.hello-mms",
            version: "1.1.0",
            has_configuration: true,
            ..PLAIN
        },
        "pattern-ibm.hello-mms-ARCH",
    ),
    (
        Project {
            directory: "service-speak-ip",
            definition: "service.json",
            service: "speak-ip",
            exported: &[
                ("PATTERN_NAME", "pattern-speak-ip"),
                ("SERVICE_CONTAINER", "openhorizon/speak-ip:1.0.0"),
            ],
            ..PLAIN
        },
        "pattern-speak-ip",
    ),
    (
        Project {
            directory: "fft_client",
            files: "horizon/",
            service: "ibm.fft-client",
            version: "1.0.7",
            has_configuration: true,
            ..PLAIN
        },
        "pattern-ibm.fft-client",
    ),
];

/// Needed by others.
const NEEDED: [Project; 3] = [
    Project {
        directory: "cpu_percent",
        files: "horizon/",
        service: "ibm.cpu",
        has_configuration: true,
        ..PLAIN
    },
    Project { directory: "gps", files: "horizon/", service: "ibm.gps", has_configuration: true, ..PLAIN },
    Project {
        directory: "fft_server",
        files: "horizon/",
        service: "ibm.fft-server",
        has_configuration: true,
        ..PLAIN
    },
];

impl Project {
    fn file(&self, name: &str) -> String {
        format!("{}/tests/projects/{}/{}{name}", env!("CARGO_MANIFEST_DIR"), self.directory, self.files)
    }

    fn id(&self) -> String {
        format!("o/{}_{}_{}", self.service, self.version, arch())
    }

    /// Runs commands with what the Makefile exports.
    fn make(&self, hzn: &mut Hzn, commands: &[String]) {
        let known = hzn.settings.clone();
        let named = [("SERVICE_NAME", self.service), ("SERVICE_VERSION", self.version)];
        let named = named.iter().filter(|_| !self.has_configuration);
        for (name, value) in named.chain(self.exported) {
            hzn.set(name, (*value).to_owned());
        }
        for command in commands {
            let response = hzn.run(command);
            assert_eq!(response.status, 0, "{}: hzn {command}: {}", self.directory, response.errors);
        }
        hzn.settings = known;
    }

    fn publish(&self) -> String {
        format!("exchange service publish -O -P -f {}", self.file(self.definition))
    }
}

/// Deploys a project by its policy to a node.
fn deploy(project: &Project, hzn: &mut Hzn, node: &str) {
    let file = |name: &str| project.file(name);
    let mut checked = format!(
        "deploycheck all -t device -B {} --service={} --service-pol={} --node-pol={}",
        file("deployment.policy.json"),
        file(project.definition),
        file("service.policy.json"),
        file("node.policy.json"),
    );
    if project.has_user_input {
        // Its service requires memory, which the agent adds to the policy of the node.
        let _ = write!(checked, " --node-ui={}", file("userinput.json"));
    } else {
        checked.push_str(" --exit-code");
    }
    let mut commands = vec![
        project.publish(),
        format!("exchange service addpolicy -f {} {}", file("service.policy.json"), project.id()),
        checked,
        format!("exchange node addpolicy -f {} {node}", file("node.policy.json")),
        format!(
            "exchange deployment addpolicy -f {} o/policy-{}_{}",
            file("deployment.policy.json"),
            project.service,
            project.version
        ),
    ];
    if project.has_user_input {
        commands.push(format!("userinput add -f {}", file("userinput.json")));
    }
    project.make(hzn, &commands);
}

/// The services that a node reports as running.
async fn running(hub: &Hub, node: &str) -> BTreeSet<String> {
    let (_, body) = hub.call("GET", &format!("/orgs/o/nodes/{node}/status"), None).await;
    let services = body["services"].as_array().cloned().unwrap_or_default();
    let is_running = |one: &&Value| one["containerStatus"][0]["state"] == "running";
    let url = |one: &Value| one["serviceUrl"].as_str().unwrap_or_default().to_owned();
    services.iter().filter(is_running).map(url).collect()
}

/// Lets the agent of a node serve its local API to the command line.
async fn serve_locally(fleet: &mut Fleet, scratch: &Scratch, hub: &Hub, (index, hzn): (usize, &mut Hzn)) {
    let address = free_address();
    fleet.agent(index).signal(Signal::SIGTERM);
    assert_eq!(fleet.agent(index).wait().await, 0);
    fleet.restart_agent_with(scratch, hub, index, &["--api-listen", &address]);
    hzn.set("HORIZON_URL", format!("http://{address}"));
    eventually("the agent serves its local API", || async {
        (hzn.run("node list").status == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn example_projects_are_published_checked_and_deployed() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let mut fleet = Fleet::start(&scratch, &hub, BY_POLICY.len()).await;
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    let with_input = BY_POLICY.iter().position(|project| project.has_user_input).expect("one has user input");
    serve_locally(&mut fleet, &scratch, &hub, (with_input, &mut hzn)).await;
    hzn.set("HZN_ORG_ID", "o".to_owned());
    hzn.done("exchange user create ann first-secret ann@o.com -A");
    hzn.set("HZN_EXCHANGE_USER_AUTH", "ann:first-secret".to_owned());
    assert_eq!(hzn.run("key create -l 2048 o ann@o.com").status, 0);
    for project in &NEEDED {
        project.make(&mut hzn, &[project.publish()]);
    }
    let mut expected: Vec<(String, BTreeSet<String>)> = Vec::new();
    for (index, project) in BY_POLICY.iter().enumerate() {
        let node = format!("edge-{}", index + 1);
        deploy(project, &mut hzn, &node);
        let needed: &[&str] =
            if project.directory == "cpu2evtstreams" { &["ibm.cpu", "ibm.gps"] } else { &[] };
        let all = needed.iter().copied().chain([project.service]).map(str::to_owned).collect();
        expected.push((node, all));
    }
    for (index, (project, pattern)) in BY_PATTERN.iter().enumerate() {
        let pattern = pattern.replace("ARCH", arch());
        let commands =
            [project.publish(), format!("exchange pattern publish -f {}", project.file("pattern.json"))];
        project.make(&mut hzn, &commands);
        let stored = hzn.data("exchange pattern list");
        assert!(
            stored.as_array().is_some_and(|names| names.contains(&Value::from(format!("o/{pattern}")))),
            "{stored}"
        );
        let node = format!("pattern-{index}");
        fleet.add_node_of_pattern(&scratch, &hub, &node, &format!("o/{pattern}")).await;
        let needed: &[&str] = if project.directory == "fft_client" { &["ibm.fft-server"] } else { &[] };
        let all = needed.iter().copied().chain([project.service]).map(str::to_owned).collect();
        expected.push((node, all));
    }
    for (node, services) in &expected {
        let runs = || async {
            let found = running(&hub, node).await;
            (found == *services).then_some(())
        };
        eventually(&format!("{services:?} on {node}"), runs).await;
    }
    text_of_a_command_is_left_as_it_is(&hzn);
}

/// Variables of a shell in a deployment are not those of the file.
fn text_of_a_command_is_left_as_it_is(hzn: &Hzn) {
    let id = BY_POLICY[0].id();
    let stored = hzn.data(&format!("exchange service list {id}"));
    let deployment = stored[&id]["deployment"].as_str().unwrap_or_default();
    let deployment: Value = must(serde_json::from_str(deployment), "a deployment");
    let container = &deployment["services"]["web-helloworld-python"];
    assert_eq!(container["command"][2], "for f in 1; do echo $f of $HZN_DEVICE_ID; done; exec sleep 600");
    assert_eq!(container["image"], "openhorizon/web-helloworld-python:1.0.0");
}

/// The properties of the policy of the node.
async fn properties(hub: &Hub) -> Vec<(String, Value)> {
    let (_, policy) = hub.call("GET", "/orgs/o/nodes/edge-1/policy", None).await;
    let found = policy["properties"].as_array().cloned().unwrap_or_default();
    found
        .iter()
        .map(|one| (one["name"].as_str().unwrap_or_default().to_owned(), one["value"].clone()))
        .collect()
}

/// Waits until the policy of the node has the properties of its machine, and others as they were written.
async fn has_built_ins(hub: &Hub, how: &str, own: Option<&str>) {
    eventually(&format!("the built-in properties are there after {how}"), || async {
        let found = properties(hub).await;
        let has = |name: &str| found.iter().any(|(one, _)| one == name);
        let memory = found.iter().find(|(name, _)| name == "openhorizon.memory")?.1.as_u64()?;
        let is_complete = memory > 1 && has("openhorizon.cpu") && has("openhorizon.arch");
        (is_complete && own.is_none_or(has)).then_some(())
    })
    .await;
}

/// The agent adds and corrects the properties of its machine whenever the policy of its node is replaced.
#[tokio::test]
async fn built_in_properties_of_a_node_stay_whoever_replaces_its_policy() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let mut fleet = Fleet::start(&scratch, &hub, 1).await;
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    hzn.set("HZN_ORG_ID", "o".to_owned());
    serve_locally(&mut fleet, &scratch, &hub, (0, &mut hzn)).await;
    has_built_ins(&hub, "the registration", None).await;
    let policy = |name: &str| json!({"properties": [{"name": name, "value": 1}], "constraints": []});
    for (file, command) in [
        ("exchange", "exchange node addpolicy -f exchange.json edge-1"),
        ("local", "policy update -f local.json"),
    ] {
        hzn.write(&format!("{file}.json"), &policy(file));
        hzn.done(command);
        has_built_ins(&hub, command, Some(file)).await;
    }
    hzn.done("exchange node removepolicy -f edge-1");
    has_built_ins(&hub, "the removal of the policy", None).await;
    let wrong =
        json!({"properties": [{"name": "site", "value": "x"}, {"name": "openhorizon.memory", "value": 1}]});
    let (status, body) = hub.call("PUT", "/orgs/o/nodes/edge-1/policy", Some(wrong)).await;
    assert_eq!(status, 201, "{body}");
    has_built_ins(&hub, "a replacement by the API", Some("site")).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
