//! A good request for every operation: what its path names and what its body holds.

use evenkeel_api::{Content, Operation};
use http::Method;
use serde_json::{Value, json};

use super::world::{MARK, SHARED, World};

/// Id of a request for an approval, by the owner of the policy that it is about.
pub const PLAN_APPROVAL: &str = "01932f0e-7a5b-7cc3-98c4-dc0c0c07398f";

/// A write that a second person approves.
fn write_to_approve() -> Value {
    json!({"write": {"kind": "policyAction", "policy": "pol", "action": "restart", "request": {}}, "reason": "r"})
}

/// Target of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aim {
    /// Organization in the path.
    pub org: &'static str,
    /// `private` or `public`: which service or pattern.
    pub name: &'static str,
}

/// The path of an operation with its names filled in.
pub fn path(world: &World, endpoint: &Operation, template: &str, aim: Aim) -> String {
    template
        .split('/')
        .map(|segment| match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(name) => value(world, endpoint.operation, template, name, aim),
            None => segment.to_owned(),
        })
        .collect::<Vec<_>>()
        .join("/")
}

fn value(world: &World, operation: &str, template: &str, name: &str, aim: Aim) -> String {
    let is_new = operation.starts_with("create_");
    match name {
        "organization" if operation == "create_organization" => "fresh".to_owned(),
        "organization" if template.ends_with("AgentFileVersion") => SHARED.to_owned(),
        "organization" => aim.org.to_owned(),
        "username" if operation == "create_user" => "fresh".to_owned(),
        "username" => "olga".to_owned(),
        "keyid" => world.number(aim.org, "apikey").to_owned(),
        "node" if operation == "add_ha_group_node" => "n2".to_owned(),
        "node" => "n1".to_owned(),
        "agreementbot" => "bot".to_owned(),
        "agreement" => {
            format!("{}-{}", if template.contains("/agbots/") { "agbot" } else { "node" }, aim.org)
        }
        "msgid" => {
            let kind = if template.contains("/agbots/") { "agbot message" } else { "node message" };
            world.number(aim.org, kind).to_owned()
        }
        "entry" if template.contains("pattern") => format!("{0}_private_{0}", aim.org),
        "entry" => format!("{0}_pol_{0}", aim.org),
        "service" => format!("{}.svc_1.0.0_amd64", aim.name),
        "key" => "key.pem".to_owned(),
        "dockauth" => world.number(aim.org, &format!("{} dockauth", aim.name)).to_owned(),
        "pattern" | "policy" | "managementpolicy" | "hagroup" if is_new => "fresh".to_owned(),
        "pattern" => aim.name.to_owned(),
        "policy" => "pol".to_owned(),
        "task" => "task".to_owned(),
        "command" => "command".to_owned(),
        "agbotorganization" => aim.org.to_owned(),
        "servedkind" => "deploymentPolicy".to_owned(),
        "managementpolicy" => "pol".to_owned(),
        "hagroup" => "grp".to_owned(),
        "nmp" => "pol".to_owned(),
        "action" => "pause".to_owned(),
        "unit" => "all".to_owned(),
        "view" => "view".to_owned(),
        "matter" => "0".repeat(32),
        "revision" => "1".to_owned(),
        "approval" => PLAN_APPROVAL.to_owned(),
        other => panic!("the access table does not know what {{{other}}} of {operation} is"),
    }
}

/// The path of a service.
pub fn service_path(org: &str, name: &str) -> String {
    format!("/orgs/{org}/services/{name}.svc_1.0.0_amd64")
}

/// A service to publish.
pub fn service(name: &str, label: &str, is_public: bool) -> Value {
    json!({
        "label": label, "public": is_public, "url": format!("{name}.svc"), "version": "1.0.0", "arch": "amd64",
        "sharable": "multiple",
    })
}

/// A pattern to publish.
pub fn pattern(org: &str, label: &str, is_public: bool) -> Value {
    let versions = json!([{"version": "1.0.0"}]);
    json!({"label": label, "public": is_public, "services": [{
        "serviceUrl": "public.svc", "serviceOrgid": org, "serviceArch": "amd64", "serviceVersions": versions,
    }]})
}

/// A deployment policy to publish.
pub fn deployment_policy(org: &str) -> Value {
    let versions = json!([{"version": "1.0.0"}]);
    json!({"label": MARK, "service": {"name": "public.svc", "org": org, "arch": "amd64", "serviceVersions": versions}})
}

/// Returns the desired state of a task, as an agbot writes it.
pub fn node_task(org: &str) -> Value {
    json!({"policy": format!("{org}/pol"), "unit": "all", "specVersion": 1, "desiredState": "running", "fencing": 0,
           "supervision": {"command": {"id": "command", "op": "START"}}})
}

/// Returns the objects that an organization gets besides users, nodes, agbots, services and patterns, in this
/// order.
pub fn parts(org: &str) -> Vec<(Method, String, Value)> {
    let workload = json!({"orgid": org, "pattern": "", "url": MARK});
    let post = |rest: &str, body: Value| (Method::POST, format!("/orgs/{org}/{rest}"), body);
    let put = |rest: &str, body: Value| (Method::PUT, format!("/orgs/{org}/{rest}"), body);
    let served_pattern = json!({"patternOrgid": org, "pattern": "private", "nodeOrgid": org});
    let served_policy = json!({"businessPolOrgid": org, "businessPol": "pol", "nodeOrgid": org});
    vec![
        post("business/policies/pol", deployment_policy(org)),
        post("managementpolicies/pol", json!({"label": MARK})),
        post("hagroups/grp", json!({"description": MARK, "members": ["n1"]})),
        put("nodes/n1/policy", json!({"label": MARK})),
        put("nodes/n1/status", json!({"connectivity": {MARK: true}})),
        put("nodes/n1/errors", json!({"errors": [MARK]})),
        put("nodes/n1/managementStatus/pol", json!({"agentUpgradePolicyStatus": {"scheduledTime": MARK}})),
        put(&format!("nodes/n1/agreements/node-{org}"), json!({"agreementService": workload, "state": MARK})),
        put(&format!("agbots/bot/agreements/agbot-{org}"), json!({"service": workload, "state": MARK})),
        post("agbots/bot/patterns", served_pattern),
        post("agbots/bot/businesspols", served_policy),
        put("nodes/n1/orchestration/spec", json!({"availability": "active", "upgradeDomain": MARK})),
        put("orchestration", json!({"readyPeriodSeconds": 5})),
    ]
}

/// The body of an operation; `None` for those that need none.
pub fn body(endpoint: &Operation, aim: Aim) -> Option<Value> {
    match &endpoint.request {
        Content::None => None,
        optional if optional.is_optional() => None,
        Content::Text(_) => Some(json!("key")),
        Content::Json(_) => Some(json_body(endpoint.operation, aim)),
    }
}

/// The good body of an operation that reads JSON.
pub fn body_of(operation: &str, aim: Aim) -> Value {
    json_body(operation, aim)
}

fn json_body(operation: &str, aim: Aim) -> Value {
    let org = aim.org;
    let workload = json!({"orgid": org, "pattern": "", "url": "u"});
    match operation {
        "create_organization" | "replace_organization" => json!({"label": "l", "description": "d"}),
        "patch_organization" | "patch_service" | "patch_pattern" | "patch_deployment_policy" => {
            json!({"label": "l"})
        }
        "list_my_organizations" => json!([{"id": "1", "name": "n", "description": "d", "createdOn": "now"}]),
        "poll_changes" => json!({"changeId": 0, "maxRecords": 1000}),
        "delete_changes" => json!({"resources": []}),
        "replace_saved_view" => json!({"state": "down"}),
        "acknowledge_matter" => json!({"reason": "r"}),
        "confirm_agreement" => json!({"agreementId": format!("agbot-{org}")}),
        "replace_agent_files" => json!({"agentSoftwareVersions": ["1.0.0"]}),
        "set_configuration" => json!({"varPath": "api.limits.maxNodes", "value": "45000"}),
        "create_user" | "replace_user" => json!({"password": "p", "email": "e"}),
        "patch_user" => json!({"email": "e"}),
        "change_password" => json!({"newPassword": "new"}),
        "create_api_key" => json!({}),
        "create_fencing_number" => json!({"above": 0}),
        "replace_node" => json!({"name": "n"}),
        "patch_node" => json!({"arch": "arm"}),
        "replace_node_orchestration" | "patch_node_orchestration" => json!({"availability": "drain"}),
        "replace_org_orchestration" | "patch_org_orchestration" => json!({"readyPeriodSeconds": 5}),
        "report_node" => json!({"monitorState": "idle"}),
        "replace_node_task" => node_task(org),
        "report_node_task" => json!({"state": "running", "seq": 1, "at": "2026-03-01T08:20:30Z"}),
        "report_node_command" => json!({"result": "ok"}),
        "report_node_task_health" => json!({"healthy": true}),
        "report_node_lifecycle" => json!({
            "event": "POWER_OFF", "state": "exited", "instance_id": "c", "timestamp": "2026-03-01T08:20:30Z",
            "publisher": "docker:n1", "taskId": "task",
        }),
        "replace_node_policy" | "replace_service_policy" => json!({"label": "l"}),
        "replace_node_status" => json!({"connectivity": {}}),
        "replace_node_errors" => json!({"errors": []}),
        "replace_management_status" => json!({"agentUpgradePolicyStatus": {"scheduledTime": "t"}}),
        "replace_node_agreement" => json!({"agreementService": workload, "state": "s"}),
        "replace_agbot_agreement" => json!({"service": workload, "state": "s"}),
        "change_service_config_state" => json!({"org": "", "url": "", "configState": "suspended"}),
        "create_node_message" | "create_agbot_message" => json!({"message": "m", "ttl": 60}),
        "replace_agbot" => json!({"token": "t", "name": "n", "publicKey": "k"}),
        "patch_agbot" => json!({"name": "n"}),
        "ask_for_upgrade" => json!({"nmp": "pol"}),
        "create_served_pattern" => json!({"patternOrgid": org, "pattern": "*", "nodeOrgid": org}),
        "create_served_policy" => json!({"businessPolOrgid": org, "businessPol": "*", "nodeOrgid": org}),
        "create_service" => service("fresh", "l", false),
        "replace_service" => service(aim.name, "l", aim.name == "public"),
        "create_service_dockauth" | "replace_service_dockauth" => json!({"registry": "r", "token": "t"}),
        "create_pattern" => pattern(org, "l", false),
        "replace_pattern" => pattern(org, "l", aim.name == "public"),
        "create_deployment_policy" | "replace_deployment_policy" | "plan_deployment_policy" => {
            deployment_policy(org)
        }
        "create_plan_approval" => {
            let plan = json!({"token": "t", "summary": "s", "lines": [], "others": 0});
            json!({"request": write_to_approve(), "plan": plan})
        }
        "request_plan_approval" => write_to_approve(),
        "approve_plan" | "reject_plan" | "cancel_plan_approval" => json!({"reason": "r"}),
        "use_plan_approval" => json!({"token": "t"}),
        "plan_stops" => json!({"nodePolicy": {"node": "n1", "policy": {"constraints": ["a == b"]}}}),
        "create_management_policy" | "replace_management_policy" => json!({"label": "l"}),
        "create_ha_group" => json!({"members": ["n2"]}),
        "update_ha_group" => json!({"members": ["n1"]}),
        "create_ha_group_document" => json!({"name": "fresh", "members": ["n2"]}),
        "replace_ha_group_document" => json!({"name": "grp", "members": ["n1"]}),
        "act_on_policy" | "recover_ha_group" => json!({}),
        "record_action" => json!({
            "action": "0190a1b2-c3d4-4e5f-8a9b-0c1d2e3f4a5c", "operation": "act_on_policy", "method": "POST",
            "resource": format!("/orgs/{org}/business/policies/p/actions/freeze"), "status": 202,
        }),
        "report_org_health"
        | "report_node_health"
        | "report_group_health"
        | "report_policy_health"
        | "report_unit_health"
        | "report_instance_health" => json!({"sourceId": "s", "property": "p", "healthState": "Ok"}),
        "search_nodes_by_policy" => json!({"changedSince": 0}),
        "search_nodes_by_pattern" => json!({"serviceUrl": "public.svc"}),
        "search_pattern_node_health" | "search_node_health" => json!({"lastTime": ""}),
        "search_nodes_by_service" => {
            json!({"orgid": org, "serviceURL": "u", "serviceVersion": "1.0.0", "serviceArch": "amd64"})
        }
        other => panic!("the access table does not know a body for {other}"),
    }
}
