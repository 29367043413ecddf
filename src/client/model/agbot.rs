//! Agbots and what hangs below them (exchange API 4.5).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::AgreementService;

tolerant! {
    /// An agbot as the exchange shows it.
    pub struct Agbot {
        /// `org/agbot`.
        id: String,
        /// Organisation.
        orgid: String,
        /// Display name.
        name: String,
        /// Owner, `org/user`.
        owner: String,
        /// Unused.
        msg_end_point: String,
        /// Messaging key, base64.
        public_key: String,
        /// Last heartbeat.
        last_heartbeat: String,
    }
}

tolerant! {
    /// An agreement as an agbot records it in the exchange.
    pub struct AgbotAgreement {
        /// The service.
        service: AgreementService,
        /// State in words.
        state: String,
        /// Last change.
        last_updated: String,
    }
}

tolerant! {
    /// A message in an agbot's mailbox.
    pub struct AgbotMessage {
        /// Number of the message.
        msg_id: i64,
        /// Sender, `org/node`.
        node_id: String,
        /// Sender's key, base64.
        node_pub_key: String,
        /// Envelope, base64.
        message: String,
        /// When it was sent.
        time_sent: String,
        /// When it disappears.
        time_expires: String,
    }
}

tolerant! {
    /// Deployment policies that an agbot serves; `*` stands for all.
    pub struct ServedPolicy {
        /// Organisation of the policy.
        business_pol_orgid: String,
        /// Policy or `*`.
        business_pol: String,
        /// Organisation of the nodes.
        node_orgid: String,
        /// Last change.
        last_updated: String,
    }
}

tolerant! {
    /// Patterns that an agbot serves; `*` stands for all.
    pub struct ServedPattern {
        /// Organisation of the pattern.
        pattern_orgid: String,
        /// Pattern or `*`.
        pattern: String,
        /// Organisation of the nodes.
        node_orgid: String,
        /// Last change.
        last_updated: String,
    }
}

#[derive(Deserialize, Default)]
pub(crate) struct AgbotMap {
    #[serde(default)]
    pub agbots: BTreeMap<String, Agbot>,
}

#[derive(Deserialize, Default)]
pub(crate) struct AgbotAgreementMap {
    #[serde(default)]
    pub agreements: BTreeMap<String, AgbotAgreement>,
}

#[derive(Deserialize, Default)]
pub(crate) struct AgbotMessageList {
    #[serde(default)]
    pub messages: Vec<AgbotMessage>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServedPolicyMap {
    #[serde(default)]
    pub business_pols: BTreeMap<String, ServedPolicy>,
}

#[derive(Deserialize, Default)]
pub(crate) struct ServedPatternMap {
    #[serde(default)]
    pub patterns: BTreeMap<String, ServedPattern>,
}
