//! Audit records and the state of the exchange.

use evenkeel_wire::RawJson;
use evenkeel_wire::exchange::audit::{AuditQuery, AuditResponse, AuditVerifyQuery, AuditVerifyResponse};

use crate::{Client, ClientError, Path};

impl Client {
    /// One page of the audit records of an organization.
    pub async fn audit_records(&self, org: &str, query: &AuditQuery) -> Result<AuditResponse, ClientError> {
        self.get_existing(Path::org(org, &["audit"]).parameters(query)?).await
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
