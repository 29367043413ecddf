//! A small fleet at a hub: an organization, agents as real processes, a service whose copies can be asked from outside.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_wire::agreement::PrivateKey;
use evenkeel_wire::signature;
use serde_json::{Value, json};

use super::wait::must;
use super::{Hub, Program, Scratch};

/// An organization `o` with agents of its nodes and a service `watch` for a policy `everywhere`.
pub struct Fleet {
    nodes: Vec<String>,
    agents: Vec<Program>,
    key: PrivateKey,
    sockets: PathBuf,
}

impl Fleet {
    /// Makes the organization and starts an agent for each node; the nodes form HA group `g`.
    pub async fn start(scratch: &Scratch, hub: &Hub, count: usize) -> Fleet {
        let sockets = scratch.join("sockets");
        must(std::fs::create_dir_all(&sockets), "a folder");
        created(hub.call("POST", "/orgs/o", Some(json!({"label": "o", "description": "o"}))).await);
        let nodes: Vec<String> = (1..=count).map(|number| format!("edge-{number}")).collect();
        let key = must(PrivateKey::generate(&mut rand::rng(), 2048), "a key");
        let mut fleet = Fleet { nodes, agents: Vec::new(), key, sockets };
        for node in fleet.nodes.clone() {
            let body = json!({"token": format!("secret-{node}"), "name": node, "pattern": "", "publicKey": "", "arch": arch()});
            created(hub.call("PUT", &format!("/orgs/o/nodes/{node}"), Some(body)).await);
            let token_file = scratch.join(&format!("{node}.token"));
            must(std::fs::write(&token_file, format!("secret-{node}")), "a token file");
            let data = scratch.join(&node);
            let arguments = [
                "agent",
                "--hub",
                &hub.url,
                "--org",
                "o",
                "--node-id",
                &node,
                "--token-file",
                &token_file.to_string_lossy(),
                "--driver",
                "process",
                "--data-dir",
                &data.to_string_lossy(),
                "--stop-services",
            ];
            fleet.agents.push(Program::start(scratch, &arguments, None));
        }
        created(hub.call("POST", "/orgs/o/hagroups/g", Some(json!({"members": fleet.nodes}))).await);
        fleet
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
        let signature = must(signature::sign(deployment, &self.key, &mut rand::rng()), "a signature");
        let service = json!({
            "label": version, "url": "watch", "version": version, "arch": arch(), "sharable": "multiple",
            "deployment": deployment, "deploymentSignature": signature,
        });
        created(hub.call("POST", "/orgs/o/services", Some(service)).await);
        let public = must(self.key.public_key(), "a public key").to_pem();
        let path = format!("{}/v1/orgs/o/services/watch_{version}_{}/keys/k.pem", hub.url, arch());
        let answer =
            hub.client.put(path).basic_auth("root/root", Some(hub.root_password())).body(public).send().await;
        assert_eq!(must(answer, "an answer").status().as_u16(), 201);
    }

    /// Wants the version on every member of the group.
    pub async fn want(&self, hub: &Hub, version: &str) {
        let policy = json!({
            "label": "everywhere",
            "service": {"name": "watch", "org": "o", "arch": arch(), "serviceVersions": [{"version": version}]},
            "constraints": ["openhorizon.hagroup == g"],
        });
        let path = "/orgs/o/business/policies/everywhere";
        let (status, _) = hub.call("GET", path, None).await;
        let method = if status == 200 { "PUT" } else { "POST" };
        created(hub.call(method, path, Some(policy)).await);
    }

    /// Which version answers on which node.
    pub fn versions(&self) -> BTreeMap<String, String> {
        self.nodes.iter().filter_map(|node| Some((node.clone(), self.ask(node)?))).collect()
    }

    /// Whether the version answers on every node.
    pub fn all_run(&self, version: &str) -> bool {
        let versions = self.versions();
        versions.len() == self.nodes.len() && versions.values().all(|one| one == version)
    }

    fn ask(&self, node: &str) -> Option<String> {
        let mut connection = UnixStream::connect(self.sockets.join(format!("{node}.sock"))).ok()?;
        connection.set_read_timeout(Some(Duration::from_millis(200))).ok()?;
        let mut text = String::new();
        connection.read_to_string(&mut text).ok()?;
        Some(text.split_whitespace().next()?.to_owned())
    }

    /// The agent of a node.
    pub fn agent(&mut self, index: usize) -> &mut Program {
        &mut self.agents[index]
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // Copies that an agent left behind end when the folder of their sockets is gone.
        let _ = std::fs::remove_dir_all(&self.sockets);
    }
}

fn created((status, body): (u16, Value)) {
    assert_eq!(status, 201, "{body}");
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
