//! Agbots (exchange API 4.5) and the agbot's own API (agbot 3.3).

use std::collections::BTreeMap;

use evenkeel_wire::exchange::agbot::{
    AgbotAnswer, AgbotsAnswer, PatchAgbot, PostServedPattern, PostServedPolicy, PutAgbot, PutAgbotAgreement,
    ServedPattern, ServedPatternsAnswer, ServedPoliciesAnswer, ServedPolicy,
};
use evenkeel_wire::exchange::message::{AgbotMessage, AgbotMessagesAnswer, PostMessage};
use evenkeel_wire::exchange::utility::ApiResponse;
use http::Method;

use super::only;
use crate::{Answer, Client, ClientError, Path};

fn agbot_path(org: &str, agbot: &str, rest: &[&str]) -> Path {
    rest.iter().fold(Path::org(org, &["agbots", agbot]), |path, segment| path.push(segment))
}

impl Client {
    /// All visible agbots of an organization, by `org/agbot`.
    pub async fn list_agbots(&self, org: &str) -> Result<BTreeMap<String, AgbotAnswer>, ClientError> {
        let found: Option<AgbotsAnswer> = self.get(Path::org(org, &["agbots"])).await?;
        Ok(found.unwrap_or_default().agbots)
    }

    /// One agbot.
    pub async fn agbot(&self, org: &str, agbot: &str) -> Result<Option<AgbotAnswer>, ClientError> {
        let found: Option<AgbotsAnswer> = self.get(agbot_path(org, agbot, &[])).await?;
        Ok(only(found.map(|found| found.agbots)))
    }

    /// Creates or replaces an agbot.
    pub async fn put_agbot(
        &self,
        org: &str,
        agbot: &str,
        body: &PutAgbot,
    ) -> Result<ApiResponse, ClientError> {
        self.put(agbot_path(org, agbot, &[]), body).await
    }

    /// Changes one attribute of an agbot.
    pub async fn patch_agbot(
        &self,
        org: &str,
        agbot: &str,
        change: &PatchAgbot,
    ) -> Result<ApiResponse, ClientError> {
        self.patch(agbot_path(org, agbot, &[]), change).await
    }

    /// Creates or changes an agbot's agreement.
    pub async fn put_agbot_agreement(
        &self,
        org: &str,
        agbot: &str,
        agreement: &str,
        body: &PutAgbotAgreement,
    ) -> Result<ApiResponse, ClientError> {
        self.put(agbot_path(org, agbot, &["agreements", agreement]), body).await
    }

    /// Removes an agbot's agreement.
    pub async fn delete_agbot_agreement(
        &self,
        org: &str,
        agbot: &str,
        agreement: &str,
    ) -> Result<bool, ClientError> {
        self.delete(agbot_path(org, agbot, &["agreements", agreement])).await
    }

    /// At most `most` messages of an agbot's mailbox, oldest first.
    pub async fn list_agbot_messages(
        &self,
        org: &str,
        agbot: &str,
        most: u32,
    ) -> Result<Vec<AgbotMessage>, ClientError> {
        let path = agbot_path(org, agbot, &["msgs"]).query("maxmsgs", &most.to_string());
        let found: Option<AgbotMessagesAnswer> = self.get(path).await?;
        Ok(found.unwrap_or_default().messages)
    }

    /// Puts a sealed envelope into an agbot's mailbox .
    pub async fn send_to_agbot(
        &self,
        org: &str,
        agbot: &str,
        message: &PostMessage,
    ) -> Result<ApiResponse, ClientError> {
        self.post(agbot_path(org, agbot, &["msgs"]), message).await
    }

    /// Removes a message from an agbot's mailbox.
    pub async fn delete_agbot_message(&self, org: &str, agbot: &str, id: i64) -> Result<bool, ClientError> {
        self.delete(agbot_path(org, agbot, &["msgs", &id.to_string()])).await
    }

    /// The deployment policies an agbot serves.
    pub async fn list_served_policies(
        &self,
        org: &str,
        agbot: &str,
    ) -> Result<BTreeMap<String, ServedPolicy>, ClientError> {
        let found: Option<ServedPoliciesAnswer> = self.get(agbot_path(org, agbot, &["businesspols"])).await?;
        Ok(found.unwrap_or_default().business_pols)
    }

    /// Lets an agbot serve a pattern, or all of an organization (`*`).
    pub async fn add_served_pattern(
        &self,
        org: &str,
        agbot: &str,
        pattern: &PostServedPattern,
    ) -> Result<ApiResponse, ClientError> {
        self.post(agbot_path(org, agbot, &["patterns"]), pattern).await
    }

    /// Lets an agbot serve a policy, or all of an organization (`*`).
    pub async fn add_served_policy(
        &self,
        org: &str,
        agbot: &str,
        policy: &PostServedPolicy,
    ) -> Result<ApiResponse, ClientError> {
        self.post(agbot_path(org, agbot, &["businesspols"]), policy).await
    }

    /// The patterns an agbot serves.
    pub async fn list_served_patterns(
        &self,
        org: &str,
        agbot: &str,
    ) -> Result<BTreeMap<String, ServedPattern>, ClientError> {
        let found: Option<ServedPatternsAnswer> = self.get(agbot_path(org, agbot, &["patterns"])).await?;
        Ok(found.unwrap_or_default().patterns)
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
        let answer: Answer = self.send(Method::POST, &path, None).await?;
        match answer.status.as_u16() {
            201 => Ok(answer.json::<ApiResponse>()?.code == "201"),
            409 => Ok(false),
            _ => Err(answer.unexpected()),
        }
    }

    /// Frees the claims of a group, or only those of a member or of a policy; false when nobody holds such a claim.
    pub async fn free_claims(
        &self,
        org: &str,
        group: &str,
        node: Option<&str>,
        policy: Option<&str>,
    ) -> Result<bool, ClientError> {
        let mut path = Path::org(org, &["hagroups", group, "upgrades"]);
        if let Some(node) = node {
            path = path.push(node);
        }
        if let Some(policy) = policy {
            path = path.query("policy", policy);
        }
        self.delete(path).await
    }

    /// Records that the instance of an agreement that ended does not run any more.
    pub async fn confirm_stop(&self, org: &str, agreement: &str) -> Result<ApiResponse, ClientError> {
        self.post_empty(Path::org(org, &["agbot", "agreements", agreement, "confirm-stop"])).await
    }
}
