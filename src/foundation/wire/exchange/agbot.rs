//! Agbots on the wire. Source: exchange-api 4.5.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::lenient;
use super::node_part::AgreementWorkload;

/// Replaces or creates an agbot.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutAgbot {
    /// Secret.
    #[serde(deserialize_with = "lenient::text")]
    pub token: String,
    /// Display name.
    #[serde(deserialize_with = "lenient::text")]
    pub name: String,
    /// Address of the agbot, for information.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub msg_end_point: Option<String>,
    /// Key for messages to the agbot; may be empty.
    #[serde(deserialize_with = "lenient::text")]
    pub public_key: String,
}

/// Changes one attribute of an agbot: the first that is given.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PatchAgbot {
    /// Secret.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Display name.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Address of the agbot, for information.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub msg_end_point: Option<String>,
    /// Key for messages to the agbot.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
}

response! {
    /// An agbot.
    pub struct AgbotResponse {
        /// `org/agbot`.
        id: String,
        /// Last heartbeat.
        last_heartbeat: String,
        /// Address of the agbot, for information.
        msg_end_point: String,
        /// Display name.
        name: String,
        /// Organization.
        orgid: String,
        /// `org/user`.
        owner: String,
        /// Key for messages to the agbot.
        public_key: String,
        /// Masked.
        token: FixedText,
    }
}

response! {
    /// Agbots by `org/agbot`.
    pub struct AgbotsResponse {
        /// The agbots.
        agbots: BTreeMap<String, AgbotResponse>,
        /// Always 0.
        last_index: i32,
        paged
    }
}

/// Filters of the agbot list: patterns with `%` and `_`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct AgbotsQuery {
    /// Pattern of `org/agbot`.
    pub idfilter: Option<String>,
    /// Pattern of the name.
    pub name: Option<String>,
    /// Pattern of `org/user`.
    pub owner: Option<String>,
}

/// Records an agreement of an agbot.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutAgbotAgreement {
    /// Workload of the agreement.
    #[serde(deserialize_with = "lenient::object")]
    pub service: AgreementWorkload,
    /// State as the agbot names it; empty is not active.
    #[serde(deserialize_with = "lenient::text")]
    pub state: String,
}

/// Query of a write of an agbot's agreement.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct AgbotAgreementQuery {
    /// The node that the agreement is with, as `org/node`. The node may then read the data that the service needs.
    pub node: Option<String>,
}

response! {
    /// An agreement of an agbot.
    pub struct AgbotAgreement {
        /// Workload of the agreement.
        #[schema(value_type = AgreementWorkload)]
        service: Box<RawValue>,
        /// State.
        state: String,
        /// Last change.
        last_updated: String,
        /// Always empty.
        data_last_received: FixedText,
    }
}

response! {
    /// Agreements of an agbot by id.
    pub struct AgbotAgreementsResponse {
        /// The agreements.
        agreements: BTreeMap<String, AgbotAgreement>,
        /// Always 0.
        last_index: i32,
        paged
    }
}

/// Makes an agbot serve a pattern; `*` is every one.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PostServedPattern {
    /// Organization of the pattern.
    #[serde(deserialize_with = "lenient::text")]
    pub pattern_orgid: String,
    /// The pattern or `*`.
    #[serde(deserialize_with = "lenient::text")]
    pub pattern: String,
    /// Organization of the nodes; that of the pattern when absent.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub node_orgid: Option<String>,
}

response! {
    /// A pattern that an agbot serves.
    pub struct ServedPattern {
        /// When it was added.
        last_updated: String,
        /// Organization of the nodes.
        node_orgid: String,
        /// The pattern or `*`.
        pattern: String,
        /// Organization of the pattern.
        pattern_orgid: String,
    }
}

response! {
    /// Patterns that an agbot serves, by `patternOrg_pattern_nodeOrg`.
    pub struct ServedPatternsResponse {
        /// The patterns.
        patterns: BTreeMap<String, ServedPattern>,
    }
}

/// Filters of served patterns: patterns with `%` and `_`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct ServedPatternsQuery {
    /// Pattern of the pattern's name.
    pub deployment_pattern: Option<String>,
    /// Pattern of the pattern's organization.
    pub deployment_pattern_organization: Option<String>,
    /// Pattern of the nodes' organization.
    pub node_organization: Option<String>,
    /// True: only entries that other agbots yield to, which an administrator of the nodes confirmed.
    pub confirmed: Option<bool>,
}

/// Filters of served deployment policies: patterns with `%` and `_`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct ServedPoliciesQuery {
    /// Pattern of the policy's name.
    pub deployment_policy: Option<String>,
    /// Pattern of the policy's organization.
    pub deployment_policy_organization: Option<String>,
    /// Pattern of the nodes' organization.
    pub node_organization: Option<String>,
    /// True: only entries that other agbots yield to, which an administrator of the nodes confirmed.
    pub confirmed: Option<bool>,
}

/// Makes an agbot serve a deployment policy; `*` is every one.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PostServedPolicy {
    /// Organization of the policy.
    #[serde(deserialize_with = "lenient::text")]
    pub business_pol_orgid: String,
    /// The policy or `*`.
    #[serde(deserialize_with = "lenient::text")]
    pub business_pol: String,
    /// Organization of the nodes.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub node_orgid: Option<String>,
}

response! {
    /// A deployment policy that an agbot serves.
    pub struct ServedPolicy {
        /// Organization of the policy.
        business_pol_orgid: String,
        /// The policy or `*`.
        business_pol: String,
        /// When it was added.
        last_updated: String,
        /// Organization of the nodes.
        node_orgid: String,
    }
}

response! {
    /// Deployment policies that an agbot serves, by `policyOrg_policy_nodeOrg`.
    pub struct ServedPoliciesResponse {
        /// The policies.
        business_pols: BTreeMap<String, ServedPolicy>,
    }
}

/// Asks whether an agreement is active.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfirmAgreement {
    /// Id of the agreement.
    #[serde(deserialize_with = "lenient::text")]
    pub agreement_id: String,
}
