//! The demo's resources at the hub, created through the public API.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_client::{Client, ClientError, Credentials, HealthSubject, HttpSettings, Transport};
use evenkeel_ids::NodeId;
use evenkeel_runtime::files::random_secret;
use evenkeel_wire::agbot::action::ActionRequest;
use evenkeel_wire::agbot::health::HealthReport;
use evenkeel_wire::agreement::PrivateKey;
use evenkeel_wire::exchange::ha_group::PutHaGroup;
use evenkeel_wire::exchange::node::{NodeResponse, PutNode};
use evenkeel_wire::exchange::node_orchestration::PatchNodeOrchestration;
use evenkeel_wire::exchange::node_report::NodeMonitorState;
use evenkeel_wire::exchange::node_task::NodeTask;
use evenkeel_wire::exchange::organization::PutOrganization;
use evenkeel_wire::exchange::user::PutUser;
use evenkeel_wire::signature;
use serde_json::{Value, json};

/// Organization of the demo.
pub const ORG: &str = "plant";
/// HA group of the demo.
pub const GROUP: &str = "line-1";
/// The user who owns everything.
const USER: &str = "operator";
/// Name of the service.
const SERVICE: &str = "watch";
const POLICY: &str = "watch-everywhere";
/// Time after which the version that does not work ends.
const FAIL_AFTER_SECS: &str = "2";
const KEY_BITS: usize = 2048;

/// The hub, seen by the demo's user.
pub struct Fleet {
    user: Client,
    key: PrivateKey,
    password: String,
    arch: String,
}

/// Nodes that the demo's policy selects, and the way it is carried out.
pub struct Deployment {
    policy: &'static str,
    label: &'static str,
    constraints: Vec<String>,
    orchestration: Option<Value>,
}

impl Deployment {
    /// One instance on every member of the group.
    pub fn group() -> Deployment {
        let constraints = vec![format!("openhorizon.hagroup == {GROUP}")];
        Deployment {
            policy: POLICY,
            label: "Watch on every member of the group",
            constraints,
            orchestration: None,
        }
    }

    /// As many instances, on any node, as these settings want.
    pub fn orchestrated(orchestration: Value) -> Deployment {
        Deployment {
            policy: POLICY,
            label: "Watch",
            constraints: Vec::new(),
            orchestration: Some(orchestration),
        }
    }

    /// The same by a policy with another name.
    pub fn named(self, policy: &'static str) -> Deployment {
        Deployment { policy, ..self }
    }
}

/// A call to the hub, as root.
pub fn root_client(url: &str, password: &str) -> Result<Client, ClientError> {
    let transport = Transport::http(HttpSettings::new(url))?;
    Client::new(transport, "/v1", Credentials::new("root", "root", password))
}

impl Fleet {
    /// Creates organization and user.
    pub async fn create(root: &Client, arch: &str) -> Result<Fleet, ClientError> {
        let password = random_secret().expose().clone();
        let org = PutOrganization {
            label: "Plant".to_owned(),
            description: "Organization of the demo".to_owned(),
            ..PutOrganization::default()
        };
        root.create_org(ORG, &org).await?;
        let user = PutUser {
            password: Some(password.clone()),
            email: Some("operator@plant.example".to_owned()),
            admin: true,
            ..PutUser::default()
        };
        root.create_user(ORG, USER, &user).await?;
        let key = PrivateKey::generate(&mut rand::rng(), KEY_BITS)
            .map_err(|error| ClientError::Request(error.to_string()))?;
        Ok(Fleet {
            user: root.with_credentials(Credentials::new(ORG, USER, &password))?,
            key,
            password,
            arch: arch.to_owned(),
        })
    }

    /// Returns the login of the demo's user.
    pub fn login(&self) -> (String, &str) {
        (format!("{ORG}/{USER}"), &self.password)
    }

    /// Creates a node and returns its token.
    pub async fn create_node(&self, node: &str) -> Result<String, ClientError> {
        let token = format!("ek1.{}", random_secret().expose());
        let body = PutNode {
            token: Some(token.clone()),
            name: node.to_owned(),
            node_type: Some("device".to_owned()),
            pattern: Some(String::new()),
            public_key: Some(String::new()),
            arch: Some(self.arch.clone()),
            ..PutNode::default()
        };
        self.user.put_node(&NodeId::new(ORG, node), &body, true).await?;
        Ok(token)
    }

    /// Forms the HA group.
    pub async fn create_group(&self, nodes: &[String]) -> Result<(), ClientError> {
        let group = PutHaGroup {
            description: Some("Watches line 1".to_owned()),
            members: Some(nodes.to_vec()),
            ..PutHaGroup::default()
        };
        self.user.create_ha_group(ORG, GROUP, &group).await?;
        Ok(())
    }

    /// Publishes a version of the service, signed.
    pub async fn publish_service(&self, version: &str, sockets: &Path) -> Result<(), ClientError> {
        self.publish(version, sockets, &[]).await
    }

    /// The same of a version that ends with an error soon after its start.
    pub async fn publish_broken_service(&self, version: &str, sockets: &Path) -> Result<(), ClientError> {
        self.publish(version, sockets, &["--fail-after-secs", FAIL_AFTER_SECS]).await
    }

    async fn publish(&self, version: &str, sockets: &Path, options: &[&str]) -> Result<(), ClientError> {
        let program = std::env::current_exe().map_err(|error| ClientError::Request(error.to_string()))?;
        let (program, sockets) = (json!(program), json!(sockets));
        let mut command = vec![
            program,
            json!("demo-service"),
            json!("--sockets"),
            sockets,
            json!("--version"),
            json!(version),
        ];
        command.extend(options.iter().map(|option| json!(option)));
        let deployment = json!({"services": {SERVICE: {"command": command}}}).to_string();
        let signature = signature::sign(&deployment, &self.key, &mut rand::rng())
            .map_err(|error| ClientError::Request(error.to_string()))?;
        let service = json!({
            "label": format!("Watch {version}"), "url": SERVICE, "version": version, "arch": self.arch,
            "sharable": "multiple", "public": false, "deployment": deployment, "deploymentSignature": signature,
        });
        self.user.create_service(ORG, &service).await?;
        let public = self.key.public_key().map_err(|error| ClientError::Request(error.to_string()))?;
        let id = format!("{SERVICE}_{version}_{}", self.arch);
        self.user.put_service_key(ORG, &id, "demo.pem", &public.to_pem()).await?;
        Ok(())
    }

    /// Deploys a version.
    pub async fn create_policy(&self, version: &str, deployment: &Deployment) -> Result<(), ClientError> {
        self.user.create_deployment_policy(ORG, deployment.policy, &self.policy(version, deployment)).await?;
        Ok(())
    }

    /// Wants another version.
    pub async fn change_policy(&self, version: &str, deployment: &Deployment) -> Result<(), ClientError> {
        self.user.put_deployment_policy(ORG, deployment.policy, &self.policy(version, deployment)).await?;
        Ok(())
    }

    /// Returns whether every agent has reported what runs on its node.
    pub async fn is_idle(&self) -> Result<bool, ClientError> {
        let nodes = self.user.list_nodes(ORG).await?;
        let state = |node: &NodeResponse| node.orchestration_status.as_ref().map(|one| one.monitor_state);
        Ok(nodes.values().all(|node| state(node) == Some(NodeMonitorState::Idle)))
    }

    /// Requests an action on the policy.
    pub async fn act(&self, action: &str, node: Option<&str>) -> Result<(), ClientError> {
        let request = ActionRequest { node: node.map(str::to_owned), ..ActionRequest::default() };
        self.user.act_on_policy(ORG, POLICY, action, &request).await.map(drop)
    }

    /// Lets instances be checked as often as this.
    pub async fn allow_check_interval(&self, seconds: u64) -> Result<(), ClientError> {
        let settings = json!({"healthCheckIntervalMinSeconds": seconds});
        self.user.patch_org_orchestration(ORG, &settings).await.map(drop)
    }

    /// Returns the number of instances that their agents found healthy.
    pub async fn checked_count(&self, nodes: &[String]) -> Result<usize, ClientError> {
        let mut count = 0;
        for node in nodes {
            let tasks = self.user.list_node_tasks(&NodeId::new(ORG, node)).await?.unwrap_or_default();
            let is_healthy =
                |task: &NodeTask| task.health.as_ref().is_some_and(|one| one.healthy == Some(true));
            count += tasks.iter().filter(|task| is_healthy(task)).count();
        }
        Ok(count)
    }

    /// Puts a node into an upgrade domain.
    pub async fn set_upgrade_domain(&self, node: &str, domain: &str) -> Result<(), ClientError> {
        let change = PatchNodeOrchestration {
            upgrade_domain: Some(domain.to_owned()),
            ..PatchNodeOrchestration::default()
        };
        self.user.patch_node_orchestration(&NodeId::new(ORG, node), &change).await.map(drop)
    }

    /// Reports that the instance on a node is in error, as a watchdog does.
    pub async fn report_error(&self, node: &str, why: &str) -> Result<(), ClientError> {
        let subject =
            HealthSubject::Instance { org: ORG.to_owned(), policy: POLICY.to_owned(), node: node.to_owned() };
        let report = HealthReport {
            source_id: "watchdog".to_owned(),
            property: "measurements".to_owned(),
            health_state: "Error".to_owned(),
            description: Some(why.to_owned()),
            ..HealthReport::default()
        };
        self.user.report_health(&subject, &report).await.map(drop)
    }

    /// Returns the state of the policy's update with its message.
    pub async fn update_state(&self) -> Result<String, ClientError> {
        let path = evenkeel_client::Path::org(ORG, &["business", "policies", POLICY, "orchestration"]);
        let found: Option<Value> = self.user.get(path).await?;
        let text = |member: &str| found.as_ref()?.get("update")?.get(member)?.as_str();
        Ok([text("state"), text("message")].into_iter().flatten().collect::<Vec<_>>().join(": "))
    }

    /// Returns the placement of the policy on each node, in words.
    pub async fn reasons(&self) -> Result<BTreeMap<String, String>, ClientError> {
        let found: Option<Value> =
            self.user.get(evenkeel_client::Path::org(ORG, &["agbot", "reasons"])).await?;
        let reasons = found.as_ref().and_then(|found| found.get("reasons")?.as_array());
        let text =
            |reason: &Value, member: &str| reason.get(member).and_then(Value::as_str).map(str::to_owned);
        let of_node = |reason: &Value| {
            let node = text(reason, "node")?;
            let id = node.split_once('/').map_or(node.as_str(), |(_, id)| id);
            Some((id.to_owned(), without_instants(&text(reason, "text")?).to_owned()))
        };
        Ok(reasons.into_iter().flatten().filter_map(of_node).collect())
    }

    fn policy(&self, version: &str, deployment: &Deployment) -> Value {
        let mut policy = json!({
            "label": deployment.label,
            "service": {"name": SERVICE, "org": ORG, "arch": self.arch, "serviceVersions": [{"version": version}]},
            "constraints": deployment.constraints,
        });
        if let Some(orchestration) = &deployment.orchestration {
            policy["orchestration"] = orchestration.clone();
        }
        policy
    }
}

/// The beginning of a sentence before the instants that it names, which would change it all the time.
fn without_instants(text: &str) -> &str {
    let ends = [" since 2", ", at most until 2", "; waiting until 2", " until 2"];
    let end = ends.iter().filter_map(|end| text.find(end)).min();
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_shown_without_instants() {
        assert_eq!(without_instants("runs version 2.0.0"), "runs version 2.0.0");
        assert_eq!(
            without_instants("the service runs and is watched until 2026-11-22T23:35:25Z"),
            "the service runs and is watched"
        );
        assert_eq!(
            without_instants("busy on plant/edge-1 since 2026-11-22, at most until 2026-11-22"),
            "busy on plant/edge-1"
        );
    }
}
