//! Agbots (exchange API 4.5).

use std::collections::BTreeMap;

use evenkeel_ids::{AgbotId, NodeId};
use evenkeel_wire::exchange::agbot::{
    AgbotResponse, AgbotsResponse, PatchAgbot, PostServedPattern, PostServedPolicy, PutAgbot,
    PutAgbotAgreement, ServedPattern, ServedPatternsResponse, ServedPoliciesResponse, ServedPolicy,
};
use evenkeel_wire::exchange::agbot_approval::{AgbotApproval, FencingResponse, PostFencing};
use evenkeel_wire::exchange::message::{AgbotMessage, AgbotMessagesResponse, PostMessage};
use evenkeel_wire::exchange::utility::ApiResponse;
use evenkeel_wire::page::PageQuery;
use serde_json::Value;

use super::message::MessagePage;
use super::record::member_records;
use super::{MOST_BYTES, by_id, only};
use crate::{Client, ClientError, Path, RecordsPage};

fn agbot_path(org: &str, agbot: &str, rest: &[&str]) -> Path {
    rest.iter().fold(Path::org(org, &["agbots", agbot]), |path, segment| path.push(segment))
}

fn served_path(org: &str, agbot: &str, kind: &str, is_confirmed: bool) -> Path {
    let path = agbot_path(org, agbot, &[kind]);
    if is_confirmed { path.query("confirmed", "true") } else { path }
}

impl Client {
    /// All visible agbots of an organization, by `org/agbot`.
    pub async fn list_agbots(&self, org: &str) -> Result<BTreeMap<AgbotId, AgbotResponse>, ClientError> {
        let found: Option<AgbotsResponse> = self.get(Path::org(org, &["agbots"]).at_most(MOST_BYTES)).await?;
        Ok(by_id(found.unwrap_or_default().agbots, AgbotId::from_text))
    }

    /// One agbot.
    pub async fn agbot(&self, org: &str, agbot: &str) -> Result<Option<AgbotResponse>, ClientError> {
        let found: Option<AgbotsResponse> = self.get(agbot_path(org, agbot, &[])).await?;
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

    /// Creates or changes an agbot's agreement with a node.
    pub async fn put_agbot_agreement(
        &self,
        agbot: &AgbotId,
        agreement: &str,
        node: &NodeId,
        body: &PutAgbotAgreement,
    ) -> Result<ApiResponse, ClientError> {
        // Third-party exchanges ignore the parameter, and would refuse an unknown member of the body.
        let path = agbot_path(agbot.org(), agbot.name(), &["agreements", agreement]);
        self.put(path.query("node", node.as_str()), body).await
    }

    /// Returns the approval of an agbot; `None` when the exchange knows none.
    pub async fn agbot_approval(&self, org: &str, agbot: &str) -> Result<Option<AgbotApproval>, ClientError> {
        self.get(agbot_path(org, agbot, &["approval"])).await
    }

    /// Approves an agbot.
    pub async fn approve_agbot(&self, org: &str, agbot: &str) -> Result<ApiResponse, ClientError> {
        self.put(agbot_path(org, agbot, &["approval"]), &serde_json::json!({})).await
    }

    /// Requests a fencing number above `above` for the leases of an agbot; `None` from third-party exchanges, which do not support it.
    pub async fn fencing_number(
        &self,
        org: &str,
        agbot: &str,
        above: i64,
    ) -> Result<Option<i64>, ClientError> {
        let path = agbot_path(org, agbot, &["fencing"]);
        let given: Option<FencingResponse> = self.search(path, &PostFencing { above }).await?;
        Ok(given.map(|given| given.fencing))
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

    /// Lists a page of an agbot's mailbox, oldest first.
    pub async fn list_agbot_messages(
        &self,
        org: &str,
        agbot: &str,
        page: MessagePage,
    ) -> Result<Vec<AgbotMessage>, ClientError> {
        let path = page.of(agbot_path(org, agbot, &["msgs"]));
        let found: Option<AgbotMessagesResponse> = self.get(path).await?;
        Ok(found.unwrap_or_default().messages)
    }

    /// One message of an agbot's mailbox; `None` if it no longer exists.
    pub async fn agbot_message(
        &self,
        org: &str,
        agbot: &str,
        id: i64,
    ) -> Result<Option<AgbotMessage>, ClientError> {
        let found: Option<AgbotMessagesResponse> =
            self.get(agbot_path(org, agbot, &["msgs", &id.to_string()])).await?;
        Ok(found.and_then(|found| found.messages.into_iter().next()))
    }

    /// Puts a sealed envelope into an agbot's mailbox.
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

    /// The deployment policies that an agbot serves; with `is_confirmed` only those to which other agbots yield.
    /// Third-party exchanges have no confirmations and return all.
    pub async fn list_served_policies(
        &self,
        org: &str,
        agbot: &str,
        is_confirmed: bool,
    ) -> Result<BTreeMap<String, ServedPolicy>, ClientError> {
        let path = served_path(org, agbot, "businesspols", is_confirmed);
        let found: Option<ServedPoliciesResponse> = self.get(path).await?;
        Ok(found.unwrap_or_default().business_pols)
    }

    /// A page of the deployment policies that an agbot serves, as the exchange sent them, or all of them for an empty query; `None` for
    /// status 404.
    pub async fn served_policy_records(
        &self,
        org: &str,
        agbot: &str,
        query: &PageQuery,
    ) -> Result<Option<RecordsPage>, ClientError> {
        self.served_records(agbot_path(org, agbot, &["businesspols"]), "businessPols", query).await
    }

    /// The same of the patterns that an agbot serves.
    pub async fn served_pattern_records(
        &self,
        org: &str,
        agbot: &str,
        query: &PageQuery,
    ) -> Result<Option<RecordsPage>, ClientError> {
        self.served_records(agbot_path(org, agbot, &["patterns"]), "patterns", query).await
    }

    async fn served_records(
        &self,
        path: Path,
        member: &str,
        query: &PageQuery,
    ) -> Result<Option<RecordsPage>, ClientError> {
        let found: Option<Value> = self.get(path.parameters(query)?).await?;
        Ok(found.map(|found| RecordsPage::new(found, |found| member_records(Some(found), member))))
    }

    /// Stops an agbot from serving a policy, named `policyOrg_policy_nodeOrg`; false if it did not serve it.
    pub async fn delete_served_policy(
        &self,
        org: &str,
        agbot: &str,
        entry: &str,
    ) -> Result<bool, ClientError> {
        self.delete(agbot_path(org, agbot, &["businesspols", entry])).await
    }

    /// Stops an agbot from serving a pattern, named `patternOrg_pattern_nodeOrg`; false if it did not serve it.
    pub async fn delete_served_pattern(
        &self,
        org: &str,
        agbot: &str,
        entry: &str,
    ) -> Result<bool, ClientError> {
        self.delete(agbot_path(org, agbot, &["patterns", entry])).await
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

    /// The patterns an agbot serves, as [`Client::list_served_policies`].
    pub async fn list_served_patterns(
        &self,
        org: &str,
        agbot: &str,
        is_confirmed: bool,
    ) -> Result<BTreeMap<String, ServedPattern>, ClientError> {
        let path = served_path(org, agbot, "patterns", is_confirmed);
        let found: Option<ServedPatternsResponse> = self.get(path).await?;
        Ok(found.unwrap_or_default().patterns)
    }
}
