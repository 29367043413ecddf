//! Audit records and the state of the exchange.

use evenkeel_wire::RawJson;
use evenkeel_wire::exchange::audit::{
    AuditQuery, AuditResponse, AuditVerifyQuery, AuditVerifyResponse, PostActionRecord,
};

use crate::{Client, ClientError, Path};

impl Client {
    /// One page of the audit records of an organization.
    pub async fn audit_records(&self, org: &str, query: &AuditQuery) -> Result<AuditResponse, ClientError> {
        self.get_existing(Path::org(org, &["audit"]).parameters(query)?).await
    }

    /// Records an action of the caller whose credentials are passed on; false when the exchange keeps no such records.
    pub async fn record_action(&self, org: &str, record: &PostActionRecord) -> Result<bool, ClientError> {
        match self.post(Path::org(org, &["audit", "actions"]), record).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.status(), Some(404 | 405)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lets the exchange check the chain of its audit records.
    pub async fn verify_audit_records(
        &self,
        org: &str,
        query: &AuditVerifyQuery,
    ) -> Result<AuditVerifyResponse, ClientError> {
        self.get_existing(Path::org(org, &["audit", "verify"]).parameters(query)?).await
    }

    /// Number of objects at the exchange, as it sent it.
    pub async fn exchange_status_record(&self) -> Result<RawJson, ClientError> {
        self.get_existing(Path::new(&["admin", "status"])).await
    }
}
