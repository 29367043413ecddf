//! The agbot's own API (agbot 3.3): agreements, reasons, rollouts, events and claims. It is called on the agbot's own address.

use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::agreement::{Agreements, AgreementsResponse};
use evenkeel_wire::agbot::blocklist::BlocklistQuery;
use evenkeel_wire::agbot::common::CommonCausesQuery;
use evenkeel_wire::agbot::event::EventsQuery;
use evenkeel_wire::agbot::plan::{DependencyWrite, PlanResponse, PlannedStopsResponse};
use evenkeel_wire::agbot::reason::{InertPolicy, ReasonsResponse};
use evenkeel_wire::agbot::rollout::RolloutsResponse;
use evenkeel_wire::agbot::status::AgbotStatus;
use evenkeel_wire::agbot::upgrade::UpgradesResponse;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};

use crate::client::encode;
use crate::{Client, ClientError, Path};

/// Reasons as the agbot sent them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReasonRecords {
    /// Documents without effect.
    pub inert_policies: Vec<InertPolicy>,
    /// Documents in which something can never work.
    pub questionable_policies: Vec<InertPolicy>,
    /// The pairs of node and policy.
    pub reasons: Vec<RawJson>,
}

/// Rollouts as the agbot sent them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct RolloutRecords {
    /// The rollouts.
    pub rollouts: Vec<RawJson>,
    /// The updates of policies with tasks.
    pub workloads: Vec<RawJson>,
    /// Reason why others were left as they are; only after an action.
    pub refused: Vec<String>,
}

/// Entries of the node blocklist as the agbot sent them.
#[derive(Deserialize, Default)]
#[serde(default)]
struct BlocklistRecords {
    entries: Vec<RawJson>,
}

/// Events as the agbot sent them.
#[derive(Deserialize, Default)]
#[serde(default)]
struct EventRecords {
    events: Vec<RawJson>,
}

fn list_path(org: &str, list: &str) -> Path {
    Path::org(org, &["agbot", list])
}

fn upgrades_path(org: &str, group: &str) -> Path {
    Path::org(org, &["hagroups", group, "upgrades"])
}

impl Client {
    /// The node blocklist of an organization, as the agbot sent it; `None` when the node does not exist.
    pub async fn blocklist_records(
        &self,
        org: &str,
        query: &BlocklistQuery,
    ) -> Result<Option<Vec<RawJson>>, ClientError> {
        let path = Path::org(org, &["blocklist"]).parameters(query)?;
        let found: Option<BlocklistRecords> = self.get(path).await?;
        Ok(found.map(|found| found.entries))
    }

    /// Clears entries of the node blocklist, and returns those that blocked their nodes; `None` when the node does not exist.
    pub async fn clear_blocklist(
        &self,
        org: &str,
        query: &BlocklistQuery,
    ) -> Result<Option<Vec<RawJson>>, ClientError> {
        let path = Path::org(org, &["blocklist"]).parameters(query)?;
        let response = self.send(Method::DELETE, &path, None).await?;
        match response.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => {
                Ok(Some(response.json::<BlocklistRecords>().unwrap_or_default().entries))
            }
            _ => Err(response.unexpected()),
        }
    }

    /// Health of the agbot.
    pub async fn agbot_status(&self) -> Result<AgbotStatus, ClientError> {
        self.get_existing(Path::new(&["agbot", "status"])).await
    }

    /// Health of the agbot, as it sent it.
    pub async fn agbot_status_record(&self) -> Result<RawJson, ClientError> {
        self.get_existing(Path::new(&["agbot", "status"])).await
    }

    /// Agreements with the nodes of an organization.
    pub async fn agbot_agreements(&self, org: &str) -> Result<Agreements, ClientError> {
        let found: AgreementsResponse = self.get_existing(list_path(org, "agreements")).await?;
        Ok(found.agreements)
    }

    /// States of the pairs of nodes and policies.
    pub async fn reasons(&self, org: &str) -> Result<ReasonsResponse, ClientError> {
        self.get_existing(list_path(org, "reasons")).await
    }

    /// State of each pair of node and policy, as the agbot sent it.
    pub async fn reason_records(&self, org: &str) -> Result<ReasonRecords, ClientError> {
        self.get_existing(list_path(org, "reasons")).await
    }

    /// Rollouts through the groups of an organization.
    pub async fn rollouts(&self, org: &str) -> Result<RolloutsResponse, ClientError> {
        self.get_existing(list_path(org, "rollouts")).await
    }

    /// Rollouts through the groups of an organization, as the agbot sent them.
    pub async fn rollout_records(&self, org: &str) -> Result<RolloutRecords, ClientError> {
        self.get_existing(list_path(org, "rollouts")).await
    }

    /// The rollout of a policy in detail, as the agbot sent it; `None` when there is none.
    pub async fn rollout_detail_record(
        &self,
        org: &str,
        policy: &str,
    ) -> Result<Option<RawJson>, ClientError> {
        self.get(Path::org(org, &["agbot", "rollouts", policy])).await
    }

    /// The values that selected nodes have in common, as the agbot sent them.
    pub async fn common_causes_record(
        &self,
        org: &str,
        query: &CommonCausesQuery,
    ) -> Result<RawJson, ClientError> {
        let path = Path::org(org, &["agbot", "nodes", "common"]).parameters(query)?;
        self.get_existing(path).await
    }

    /// Acts on the rollouts of a policy, in one group or in all: `pause`, `resume`, `abort`, `rollback` or `retry`. `None` when there is
    /// no such rollout (404).
    pub async fn act_on_rollouts(
        &self,
        org: &str,
        policy: &str,
        action: &str,
        group: Option<&str>,
    ) -> Result<Option<RolloutRecords>, ClientError> {
        let mut path = Path::org(org, &["agbot", "rollouts", policy, action]);
        if let Some(group) = group {
            path = path.query("group", group);
        }
        let response = self.send(Method::POST, &path, None).await?;
        match response.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(response.json().unwrap_or_default())),
            _ => Err(response.unexpected()),
        }
    }

    /// Returns the changes that a write of a deployment policy would cause; without a body those of the
    /// policy as stored. `None` when there is no such policy (404).
    pub async fn plan_deployment_policy<P: Serialize + ?Sized>(
        &self,
        org: &str,
        policy: &str,
        body: Option<&P>,
    ) -> Result<Option<PlanResponse>, ClientError> {
        let path = Path::org(org, &["business", "policies", policy, "plan"]);
        let json = body.map(encode).transpose()?;
        let response = self.send(Method::POST, &path, json).await?;
        match response.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => response.json().map(Some),
            _ => Err(response.unexpected()),
        }
    }

    /// Returns the instances that a write of an object that deployment policies depend on would stop; `None` if the
    /// agbot does not know the object (404).
    pub async fn plan_stops(
        &self,
        org: &str,
        write: &DependencyWrite,
    ) -> Result<Option<PlannedStopsResponse>, ClientError> {
        let path = Path::org(org, &["orchestration", "stops"]);
        let response = self.send(Method::POST, &path, Some(encode(write)?)).await?;
        match response.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => response.json().map(Some),
            _ => Err(response.unexpected()),
        }
    }

    /// Events of the agbot as it sent them, newest first.
    pub async fn event_records(&self, org: &str, query: &EventsQuery) -> Result<Vec<RawJson>, ClientError> {
        let path = list_path(org, "events").parameters(query)?;
        let found: EventRecords = self.get_existing(path).await?;
        Ok(found.events)
    }

    /// Claims of a group and the members that wait for them.
    pub async fn upgrades(&self, org: &str, group: &str) -> Result<UpgradesResponse, ClientError> {
        self.get_existing(upgrades_path(org, group)).await
    }

    /// Claims of a group and the members that wait for them, as the agbot sent them.
    pub async fn upgrades_record(&self, org: &str, group: &str) -> Result<RawJson, ClientError> {
        self.get_existing(upgrades_path(org, group)).await
    }

    /// Requests permission for the agent upgrade of a group member. It is granted only with status
    /// 201 and `code` "201"; call it on the agbot's own address with the node's credentials.
    pub async fn ask_node_management(
        &self,
        org: &str,
        group: &str,
        node: &str,
        policy: &str,
    ) -> Result<bool, ClientError> {
        let path = Path::new(&["org", org, "hagroup", group, "nodemanagement", node, policy]);
        let response = self.send(Method::POST, &path, None).await?;
        match response.status.as_u16() {
            201 => Ok(response.json::<ApiResponse>()?.code == "201"),
            409 => Ok(false),
            _ => Err(response.unexpected()),
        }
    }

    /// Releases the claims of a group, or only those of a member or of a policy; false when no such claim is
    /// held.
    pub async fn free_claims(
        &self,
        org: &str,
        group: &str,
        node: Option<&str>,
        policy: Option<&str>,
    ) -> Result<bool, ClientError> {
        let mut path = upgrades_path(org, group);
        if let Some(node) = node {
            path = path.push(node);
        }
        if let Some(policy) = policy {
            path = path.query("policy", policy);
        }
        self.delete(path).await
    }

    /// Records that nothing runs on a node that is down.
    pub async fn confirm_fence(&self, org: &str, node: &str) -> Result<ApiResponse, ClientError> {
        self.post_empty(Path::org(org, &["nodes", node, "actions", "fence-confirm"])).await
    }

    /// Records that the instance of an ended agreement no longer runs.
    pub async fn confirm_stop(&self, org: &str, agreement: &str) -> Result<ApiResponse, ClientError> {
        self.post_empty(Path::org(org, &["agbot", "agreements", agreement, "confirm-stop"])).await
    }
}
