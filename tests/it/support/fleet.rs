//! A small fleet at a hub: an organization, agents as real processes, a service whose copies can be asked from outside.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_wire::signature;
use serde_json::{Value, json};

use super::link::Link;
use super::prepared::{self, KEY};
use super::wait::{eventually, must};
use super::{Hub, Machine, Program, Scratch};

/// An organization `o` with agents of its nodes and a service `watch` for a policy `everywhere`.
pub struct Fleet {
    nodes: Vec<String>,
    agents: Vec<Program>,
    sockets: PathBuf,
}

impl Fleet {
    /// Makes the organization and starts an agent for each node; the nodes form HA group `g`.
    pub async fn start(scratch: &Scratch, hub: &Hub, count: usize) -> Fleet {
        Self::start_with(scratch, hub, count, &[]).await
    }

    /// The same with more options for the agents.
    pub async fn start_with(scratch: &Scratch, hub: &Hub, count: usize, options: &[&str]) -> Fleet {
        created(hub.call("POST", "/orgs/o", Some(json!({"label": "o", "description": "o"}))).await);
        Fleet::join_with(scratch, hub, count, options).await
    }

    /// The same in an organization `o` that exists.
    pub async fn join(scratch: &Scratch, hub: &Hub, count: usize) -> Fleet {
        Self::join_with(scratch, hub, count, &[]).await
    }

    async fn join_with(scratch: &Scratch, hub: &Hub, count: usize, options: &[&str]) -> Fleet {
        let sockets = scratch.join("sockets");
        must(std::fs::create_dir_all(&sockets), "a directory");
        let nodes: Vec<String> = (1..=count).map(|number| format!("edge-{number}")).collect();
        let mut fleet = Fleet { nodes, agents: Vec::new(), sockets };
        for node in fleet.nodes.clone() {
            let body = json!({"token": format!("secret-{node}"), "name": node, "pattern": "", "publicKey": "", "arch": arch()});
            created(hub.call("PUT", &format!("/orgs/o/nodes/{node}"), Some(body)).await);
            let token_file = scratch.join(&format!("{node}.token"));
            must(std::fs::write(&token_file, format!("secret-{node}")), "a token file");
            fleet.agents.push(start_agent(scratch, &hub.url, &node, options));
        }
        created(hub.call("POST", "/orgs/o/hagroups/g", Some(json!({"members": fleet.nodes}))).await);
        for node in &fleet.nodes {
            registered(hub, node).await;
        }
        fleet
    }

    /// Makes one more node, of a pattern, and starts its agent.
    pub async fn add_node_of_pattern(&mut self, scratch: &Scratch, hub: &Hub, node: &str, pattern: &str) {
        let body = json!({"token": format!("secret-{node}"), "name": node, "pattern": pattern, "publicKey": "", "arch": arch()});
        created(hub.call("PUT", &format!("/orgs/o/nodes/{node}"), Some(body)).await);
        let token_file = scratch.join(&format!("{node}.token"));
        must(std::fs::write(&token_file, format!("secret-{node}")), "a token file");
        self.nodes.push(node.to_owned());
        self.agents.push(start_agent(scratch, &hub.url, node, &[]));
    }

    /// Starts an agent again that ended.
    pub fn restart_agent(&mut self, scratch: &Scratch, hub: &Hub, index: usize) {
        self.restart_agent_with(scratch, hub, index, &[]);
    }

    /// The same with more options.
    pub fn restart_agent_with(&mut self, scratch: &Scratch, hub: &Hub, index: usize, options: &[&str]) {
        self.agents[index] = start_agent(scratch, &hub.url, &self.nodes[index], options);
    }

    /// The same with these addresses of the hub.
    pub fn restart_agent_at(&mut self, scratch: &Scratch, addresses: &str, index: usize) {
        self.agents[index] = start_agent(scratch, addresses, &self.nodes[index], &[]);
    }

    /// The same; the agent reaches the hub by a path that can be cut.
    pub fn restart_agent_behind(&mut self, scratch: &Scratch, link: &Link, index: usize) {
        let node = &self.nodes[index];
        self.agents[index] = link.enter(|| start_agent(scratch, &link.url, node, &[]));
    }

    /// Publishes a version of the service.
    pub async fn publish(&self, hub: &Hub, version: &str) {
        let program = env!("CARGO_BIN_EXE_evenkeel");
        let command = json!([program, "demo-service", "--sockets", self.sockets, "--version", version]);
        let deployment = json!({"services": {"watch": {"command": command}}}).to_string();
        self.publish_deployment(hub, version, &deployment).await;
    }

    /// Publishes a version of the service whose program ends at once.
    pub async fn publish_broken(&self, hub: &Hub, version: &str) {
        let deployment = json!({"services": {"watch": {"command": ["/bin/false"]}}}).to_string();
        self.publish_deployment(hub, version, &deployment).await;
    }

    async fn publish_deployment(&self, hub: &Hub, version: &str, deployment: &str) {
        self.publish_service(hub, "watch", version, deployment, json!({})).await;
    }

    /// Publishes any service; `more` are further members of its definition.
    pub async fn publish_service(&self, hub: &Hub, url: &str, version: &str, deployment: &str, more: Value) {
        let signature = must(signature::sign(deployment, &KEY, &mut rand::rng()), "a signature");
        let mut service = json!({
            "label": version, "url": url, "version": version, "arch": arch(), "sharable": "multiple",
            "deployment": deployment, "deploymentSignature": signature,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            service[name] = value.clone();
        }
        created(hub.call("POST", "/orgs/o/services", Some(service)).await);
        let public = must(KEY.public_key(), "a public key").to_pem();
        let path = format!("{}/v1/orgs/o/services/{url}_{version}_{}/keys/k.pem", hub.url, arch());
        let response =
            hub.client.put(path).basic_auth("root/root", Some(hub.root_password())).body(public).send().await;
        assert_eq!(must(response, "a response").status().as_u16(), 201);
    }

    /// Wants the version on every member of the group.
    pub async fn want(&self, hub: &Hub, version: &str) {
        self.want_with(hub, version, json!({})).await;
    }

    /// Wants the version on every member of the group; `more` are further members of the policy.
    pub async fn want_with(&self, hub: &Hub, version: &str, more: Value) {
        let mut policy = json!({
            "label": "everywhere",
            "service": {"name": "watch", "org": "o", "arch": arch(), "serviceVersions": [{"version": version}]},
            "constraints": ["openhorizon.hagroup == g"],
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            policy[name] = value.clone();
        }
        let path = "/orgs/o/business/policies/everywhere";
        let (status, _) = hub.call("GET", path, None).await;
        let method = if status == 200 { "PUT" } else { "POST" };
        created(hub.call(method, path, Some(policy)).await);
    }

    /// Returns the version that responds on each node.
    pub fn versions(&self) -> BTreeMap<String, String> {
        self.nodes.iter().filter_map(|node| Some((node.clone(), self.ask(node)?.0))).collect()
    }

    /// Returns the process that responds on each node.
    pub fn processes(&self) -> BTreeMap<String, i32> {
        self.nodes.iter().filter_map(|node| Some((node.clone(), self.ask(node)?.1))).collect()
    }

    /// Returns the number of running copies on this machine, whether requested or not.
    pub fn instances(&self) -> usize {
        let sockets = self.sockets.to_string_lossy().into_owned();
        let directories = must(std::fs::read_dir("/proc"), "the process table");
        let pids = directories.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains("demo-service") && line.contains(&sockets)
        })
        .count()
    }

    /// Returns true if the version responds on every node.
    pub fn all_run(&self, version: &str) -> bool {
        let versions = self.versions();
        versions.len() == self.nodes.len() && versions.values().all(|one| one == version)
    }

    fn ask(&self, node: &str) -> Option<(String, i32)> {
        let mut connection = UnixStream::connect(self.sockets.join(format!("{node}.sock"))).ok()?;
        connection.set_read_timeout(Some(Duration::from_millis(200))).ok()?;
        let mut text = String::new();
        connection.read_to_string(&mut text).ok()?;
        let mut words = text.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    }

    /// Starts another agent with the identity of a node and a data directory of its own.
    pub fn second_agent(scratch: &Scratch, hub: &Hub, index: usize) -> Program {
        let node = format!("edge-{}", index + 1);
        start_agent_in(scratch, (&hub.url, &node), &format!("{node}-second"), &[])
    }

    /// Starts an agent with the identity of a node on another machine, with this data directory below `scratch`.
    pub fn agent_on(
        &self,
        machine: &Machine,
        scratch: &Scratch,
        hub: &Hub,
        (index, data): (usize, &str),
    ) -> Program {
        let arguments = arguments(scratch, (&hub.url, &self.nodes[index]), data, &[]);
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Program::start_by(scratch, &machine.words(), &words, None)
    }

    /// The agent of a node.
    pub fn agent(&mut self, index: usize) -> &mut Program {
        &mut self.agents[index]
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // Copies that an agent left behind end when the directory of their sockets is gone.
        let _ = std::fs::remove_dir_all(&self.sockets);
    }
}

fn start_agent(scratch: &Scratch, url: &str, node: &str, options: &[&str]) -> Program {
    start_agent_in(scratch, (url, node), node, options)
}

/// See [`start_agent`]; in a directory of this name.
fn start_agent_in(scratch: &Scratch, hub: (&str, &str), data: &str, options: &[&str]) -> Program {
    prepared::give_key(&scratch.join(data));
    let arguments = arguments(scratch, hub, data, options);
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Program::start(scratch, &words, None)
}

/// The arguments of an agent. Options replace what they name besides the hub.
fn arguments(scratch: &Scratch, (url, node): (&str, &str), data: &str, options: &[&str]) -> Vec<String> {
    let token_file = scratch.join(&format!("{node}.token"));
    let data = scratch.join(data);
    let arguments = [
        "agent",
        "--hub",
        url,
        "--org",
        "o",
        "--node-id",
        node,
        "--token-file",
        &token_file.to_string_lossy(),
        "--data-dir",
        &data.to_string_lossy(),
        "--stop-services",
    ];
    let usual = |name: &'static str, value: &'static str| match options.contains(&name) {
        true => Vec::new(),
        false => vec![name, value],
    };
    let (driver, listen) = (usual("--driver", "process"), usual("--api-listen", "off"));
    [&arguments, &*driver, &*listen, options].concat().into_iter().map(str::to_owned).collect()
}

/// Waits until the agent of a node has registered it: what is written afterwards finds all nodes.
async fn registered(hub: &Hub, node: &str) {
    let path = format!("/orgs/o/nodes/{node}");
    eventually(&format!("{node} is registered"), || async {
        let (_, body) = hub.call("GET", &path, None).await;
        let found = &body["nodes"][format!("o/{node}")];
        found["publicKey"].as_str().is_some_and(|key| !key.is_empty()).then_some(())
    })
    .await;
}

fn created((status, body): (u16, Value)) {
    assert_eq!(status, 201, "{body}");
}

/// The architecture of this machine in the words of the exchange.
pub fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
