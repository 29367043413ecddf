//! Agbots (exchange API 4.5) and the agbot's own API (agbot 3.3).

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};

use super::only;
use crate::{
    Answer, Client, ClientError, Path,
    model::{
        Agbot, AgbotAgreement, AgbotAgreementMap, AgbotMap, AgbotMessage, AgbotMessageList, AgreementService,
        Reply, ServedPattern, ServedPatternMap, ServedPolicy, ServedPolicyMap,
    },
};

fn agbot_path(org: &str, agbot: &str, rest: &[&str]) -> Path {
    rest.iter().fold(Path::org(org, &["agbots", agbot]), |path, segment| path.push(segment))
}

impl Client {
    /// All visible agbots of an organisation, by `org/agbot`.
    pub async fn list_agbots(&self, org: &str) -> Result<BTreeMap<String, Agbot>, ClientError> {
        let found: Option<AgbotMap> = self.get(Path::org(org, &["agbots"])).await?;
        Ok(found.unwrap_or_default().agbots)
    }

    /// One agbot.
    pub async fn agbot(&self, org: &str, agbot: &str) -> Result<Option<Agbot>, ClientError> {
        let found: Option<AgbotMap> = self.get(agbot_path(org, agbot, &[])).await?;
        Ok(only(found.map(|found| found.agbots)))
    }

    /// Creates or replaces an agbot.
    pub async fn put_agbot(&self, org: &str, agbot: &str, body: &Value) -> Result<Reply, ClientError> {
        self.put(agbot_path(org, agbot, &[]), body).await
    }

    /// Changes one attribute of an agbot.
    pub async fn patch_agbot(
        &self,
        org: &str,
        agbot: &str,
        attribute: &str,
        value: Value,
    ) -> Result<Reply, ClientError> {
        self.patch(agbot_path(org, agbot, &[]), &json!({ attribute: value })).await
    }

    /// Removes an agbot.
    pub async fn delete_agbot(&self, org: &str, agbot: &str) -> Result<bool, ClientError> {
        self.delete(agbot_path(org, agbot, &[])).await
    }

    /// Says that an agbot is alive.
    pub async fn heartbeat_agbot(&self, org: &str, agbot: &str) -> Result<Reply, ClientError> {
        self.post_empty(agbot_path(org, agbot, &["heartbeat"])).await
    }

    /// An agbot's agreements by id.
    pub async fn list_agbot_agreements(
        &self,
        org: &str,
        agbot: &str,
    ) -> Result<BTreeMap<String, AgbotAgreement>, ClientError> {
        let found: Option<AgbotAgreementMap> = self.get(agbot_path(org, agbot, &["agreements"])).await?;
        Ok(found.unwrap_or_default().agreements)
    }

    /// Creates or changes an agbot's agreement.
    pub async fn put_agbot_agreement(
        &self,
        org: &str,
        agbot: &str,
        agreement: &str,
        service: &AgreementService,
        state: &str,
    ) -> Result<Reply, ClientError> {
        let body = json!({"service": service, "state": state});
        self.put(agbot_path(org, agbot, &["agreements", agreement]), &body).await
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
        let found: Option<AgbotMessageList> = self.get(path).await?;
        Ok(found.unwrap_or_default().messages)
    }

    /// Puts a sealed envelope into an agbot's mailbox for `ttl_secs` seconds.
    pub async fn send_to_agbot(
        &self,
        org: &str,
        agbot: &str,
        message: &str,
        ttl_secs: u64,
    ) -> Result<Reply, ClientError> {
        self.post(agbot_path(org, agbot, &["msgs"]), &json!({"message": message, "ttl": ttl_secs})).await
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
        let found: Option<ServedPolicyMap> = self.get(agbot_path(org, agbot, &["businesspols"])).await?;
        Ok(found.unwrap_or_default().business_pols)
    }

    /// Lets an agbot serve a pattern, or all of an organisation (`*`).
    pub async fn add_served_pattern(
        &self,
        org: &str,
        agbot: &str,
        pattern: &ServedPattern,
    ) -> Result<Reply, ClientError> {
        let body = json!({
            "patternOrgid": pattern.pattern_orgid,
            "pattern": pattern.pattern,
            "nodeOrgid": pattern.node_orgid,
        });
        self.post(agbot_path(org, agbot, &["patterns"]), &body).await
    }

    /// Lets an agbot serve a policy, or all of an organisation (`*`).
    pub async fn add_served_policy(
        &self,
        org: &str,
        agbot: &str,
        policy: &ServedPolicy,
    ) -> Result<Reply, ClientError> {
        let body = json!({
            "businessPolOrgid": policy.business_pol_orgid,
            "businessPol": policy.business_pol,
            "nodeOrgid": policy.node_orgid,
        });
        self.post(agbot_path(org, agbot, &["businesspols"]), &body).await
    }

    /// The patterns an agbot serves.
    pub async fn list_served_patterns(
        &self,
        org: &str,
        agbot: &str,
    ) -> Result<BTreeMap<String, ServedPattern>, ClientError> {
        let found: Option<ServedPatternMap> = self.get(agbot_path(org, agbot, &["patterns"])).await?;
        Ok(found.unwrap_or_default().patterns)
    }

    /// Asks an agbot whether a group member may start its agent upgrade. The answer is positive only with status
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
            201 => Ok(answer.json::<Reply>()?.code == "201"),
            409 => Ok(false),
            _ => Err(answer.unexpected()),
        }
    }
}
