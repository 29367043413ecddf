//! Deployment policies and patterns (exchange API 4.7, 4.8).

use std::collections::BTreeMap;

use evenkeel_ids::{PatternId, PolicyId};
use evenkeel_wire::exchange::deployment_policy::{DeploymentPoliciesResponse, DeploymentPolicyResponse};
use evenkeel_wire::exchange::pattern::{PatternResponse, PatternsResponse};
use evenkeel_wire::exchange::utility::ApiResponse;
use serde::Serialize;

use super::{MOST_BYTES, by_id, only};
use crate::{Client, ClientError, Path};

impl Client {
    /// All visible deployment policies of an organization, by `org/policy`.
    pub async fn list_deployment_policies(
        &self,
        org: &str,
    ) -> Result<BTreeMap<PolicyId, DeploymentPolicyResponse>, ClientError> {
        let found: Option<DeploymentPoliciesResponse> =
            self.get(Path::org(org, &["business", "policies"]).at_most(MOST_BYTES)).await?;
        Ok(by_id(found.unwrap_or_default().business_policy, PolicyId::from_text))
    }

    /// One deployment policy.
    pub async fn deployment_policy(
        &self,
        org: &str,
        policy: &str,
    ) -> Result<Option<DeploymentPolicyResponse>, ClientError> {
        let found: Option<DeploymentPoliciesResponse> =
            self.get(Path::org(org, &["business", "policies", policy])).await?;
        Ok(only(found.map(|found| found.business_policy)))
    }

    /// Creates a deployment policy.
    pub async fn create_deployment_policy<P: Serialize + ?Sized>(
        &self,
        org: &str,
        policy: &str,
        body: &P,
    ) -> Result<ApiResponse, ClientError> {
        self.post(Path::org(org, &["business", "policies", policy]), body).await
    }

    /// Replaces a deployment policy.
    pub async fn put_deployment_policy<P: Serialize + ?Sized>(
        &self,
        org: &str,
        policy: &str,
        body: &P,
    ) -> Result<ApiResponse, ClientError> {
        self.put(Path::org(org, &["business", "policies", policy]), body).await
    }

    /// All visible patterns of an organization, by `org/pattern`.
    pub async fn list_patterns(
        &self,
        org: &str,
    ) -> Result<BTreeMap<PatternId, PatternResponse>, ClientError> {
        let found: Option<PatternsResponse> =
            self.get(Path::org(org, &["patterns"]).at_most(MOST_BYTES)).await?;
        Ok(by_id(found.unwrap_or_default().patterns, PatternId::from_text))
    }

    /// One pattern.
    pub async fn pattern(&self, org: &str, pattern: &str) -> Result<Option<PatternResponse>, ClientError> {
        let found: Option<PatternsResponse> = self.get(Path::org(org, &["patterns", pattern])).await?;
        Ok(only(found.map(|found| found.patterns)))
    }

    /// Names of a pattern's signing keys.
    pub async fn list_pattern_keys(&self, org: &str, pattern: &str) -> Result<Vec<String>, ClientError> {
        Ok(self.get(Path::org(org, &["patterns", pattern, "keys"])).await?.unwrap_or_default())
    }

    /// One signing key of a pattern, as PEM text.
    pub async fn pattern_key(
        &self,
        org: &str,
        pattern: &str,
        key: &str,
    ) -> Result<Option<String>, ClientError> {
        self.get_text(Path::org(org, &["patterns", pattern, "keys", key])).await
    }

    /// Publishes a signing key of a pattern.
    pub async fn put_pattern_key(
        &self,
        org: &str,
        pattern: &str,
        key: &str,
        pem: &str,
    ) -> Result<ApiResponse, ClientError> {
        self.put_key(&Path::org(org, &["patterns", pattern, "keys", key]), pem).await
    }
}
