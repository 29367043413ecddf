//! Decides by the permission table what a caller may do to a resource.

use evenkeel_access::{Access, Caller, Decision, Facts, MULTI_TENANT_ORG, Permission, Right, Role, Target};
use evenkeel_exchange_store::agreement;
use evenkeel_exchange_store::facts::{self, FactKind};
use evenkeel_exchange_store::permitted::Permitted;
use evenkeel_ids::NodeId;

use crate::feed::CREDENTIAL;
use crate::{ApiError, Exchange};

/// Returns what a right is about. Rights to lists and actions are about an organization, whatever else the path names; without one in
/// the path it is the caller's own.
pub(crate) fn target<'t, R: Right>(
    caller: &'t Caller,
    org: Option<&'t str>,
    id: Option<&'t str>,
) -> Target<'t> {
    match (R::ACCESS, org) {
        // There is one set of agent files, whatever organization the path names.
        (Access::AgentFilesRead | Access::AgentFilesWrite, _) => Target { org: MULTI_TENANT_ORG, id: None },
        (_, None) => Target { org: &caller.org, id: None },
        (Access::OrgRead | Access::OrgChange | Access::OrgDelete | Access::OrgSetSharedType, Some(org)) => {
            Target { org, id: Some(org) }
        }
        (
            Access::NodesRead | Access::NodesSearch | Access::NodeReportsRead | Access::HaGroupWrite,
            Some(org),
        ) => Target { org, id: None },
        (_, Some(org)) => Target { org, id },
    }
}

/// The kind of resource that a right is about.
fn kind(access: Access) -> FactKind {
    match access {
        Access::OrgRead
        | Access::OrgChange
        | Access::OrgCreate
        | Access::OrgDelete
        | Access::OrgSetSharedType
        | Access::UsersList
        | Access::HaGroupWrite
        | Access::AgentFilesRead
        | Access::AgentFilesWrite
        | Access::AdminStatus
        | Access::AdminOrgStatus
        | Access::MaxChangeId
        | Access::AdminAction
        | Access::MyOrgs
        | Access::AuditRead
        | Access::PlanApprovalsRead
        | Access::PlanApprovalWrite
        | Access::ActionRecord => FactKind::Org,
        Access::UserRead
        | Access::UserCreate
        | Access::UserWrite
        | Access::PasswordWrite
        | Access::ApiKeyRead
        | Access::ApiKeyWrite => FactKind::User,
        Access::NodesRead
        | Access::NodeRead
        | Access::NodeMessagesRead
        | Access::NodeWrite
        | Access::NodeOrchestrationWrite
        | Access::NodeTaskPublish
        | Access::NodeTaskReport
        | Access::NodeReport
        | Access::NodeMessage
        | Access::NodesSearch
        | Access::NodeReportsRead => FactKind::Node,
        Access::AgbotApprove
        | Access::AgbotApprovalsRead
        | Access::AgbotRead
        | Access::AgbotMessagesRead
        | Access::AgbotWrite
        | Access::AgbotMessage
        | Access::AgreementConfirm => FactKind::Agbot,
        Access::ServicesList
        | Access::ServiceRead
        | Access::ServiceSecretsRead
        | Access::ServiceRevisionsRead
        | Access::ServiceCreate
        | Access::ServiceWrite => FactKind::Service,
        Access::PatternsList
        | Access::PatternRead
        | Access::PatternRevisionsRead
        | Access::PatternCreate
        | Access::PatternWrite => FactKind::Pattern,
        Access::DeploymentPolicyRead | Access::DeploymentPolicyCreate | Access::DeploymentPolicyWrite => {
            FactKind::DeploymentPolicy
        }
        Access::ManagementPolicyRead | Access::ManagementPolicyWrite => FactKind::ManagementPolicy,
    }
}

/// Asks for a right to a target.
///
/// # Errors
/// 403 with the words of the contract, or 404 when the caller may not learn whether the resource exists.
pub(crate) async fn authorize<R: Right>(
    exchange: &Exchange,
    caller: &Caller,
    target: Target<'_>,
) -> Result<Permission<R>, ApiError> {
    let kind = kind(R::ACCESS);
    let granted = match (Permission::decide(caller, target), target.id) {
        (Err(Decision::NeedsFacts), Some(id)) => {
            // Large: the future of every poll would grow with it.
            let facts = Box::pin(exchange.facts_for(caller, R::ACCESS, (target.org, id))).await?;
            match Permission::decide_with_facts(caller, target, facts.as_ref()) {
                // A resource that was just deleted is not secret: the operation responds as in the caller's
                // own organization.
                Err(Decision::NotFound) if exchange.feed().remembers(target.org, id, resource_word(kind)) => {
                    let gone = Facts { owner: None, is_public: false, is_deployed: false };
                    Permission::decide_with_facts(caller, target, Some(&gone))
                }
                granted => granted,
            }
        }
        (granted, _) => granted,
    };
    granted.map_err(|decision| refused(R::ACCESS, decision, caller, target))
}

/// Decides in the transaction of a write what was decided before it began: since then the target may have got another owner, or have been
/// created by another caller. The target stays as it is until the end of the transaction.
///
/// # Errors
/// As [`authorize`].
pub(crate) async fn decide_again<R>(tx: &mut Permitted<R>) -> Result<(), ApiError> {
    let Some(condition) = tx.condition() else { return Ok(()) };
    let (org, id) = condition.target();
    let facts = facts::lock_facts(tx, kind(condition.access()), org, id).await?;
    match condition.decide(facts.as_ref()) {
        Decision::Allow => Ok(()),
        decision => {
            Err(refused(condition.access(), decision, condition.caller(), Target { org, id: Some(id) }))
        }
    }
}

fn refused(access: Access, decision: Decision, caller: &Caller, target: Target<'_>) -> ApiError {
    let name = match target.id {
        None => format!("{}/*", target.org),
        Some(_) if kind(access) == FactKind::Org => target.org.to_owned(),
        Some(id) => format!("{}/{id}", target.org),
    };
    if decision == Decision::NotFound {
        return ApiError::not_found(format!("resource '{name}' not found"));
    }
    let (verb, word) = access.words();
    ApiError::access_denied(format!(
        "Access denied: '{caller}' does not have authorization: {verb} {word}={name}"
    ))
}

impl Exchange {
    /// Loads what a decision about a caller needs to know.
    async fn facts_for(
        &self,
        caller: &Caller,
        access: Access,
        (org, id): (&str, &str),
    ) -> Result<Option<Facts>, ApiError> {
        let facts = self.facts(kind(access), org, id).await?;
        let asks_for_deployed = access == Access::ServiceSecretsRead && caller.role == Role::Node;
        let Some(facts) = facts else { return Ok(None) };
        if facts.is_public || !asks_for_deployed {
            return Ok(Some(facts));
        }
        let node = NodeId::new(&caller.org, &caller.id);
        let is_deployed = self
            .database()
            .read(async |connection| agreement::is_deployed(connection, &node, (org, id)).await)
            .await?;
        Ok(Some(Facts { is_deployed, ..facts }))
    }

    /// Loads what a permission decision needs to know of a resource; `None` when it does not exist.
    ///
    /// # Errors
    /// When the store is unavailable.
    pub(crate) async fn facts(&self, kind: FactKind, org: &str, id: &str) -> Result<Option<Facts>, ApiError> {
        let found = self
            .database()
            .read(async |connection| facts::find_facts(connection, kind, org, id).await)
            .await?;
        Ok(found)
    }
}

/// The word of the feed for a kind of resource; accounts appear there only as credentials.
fn resource_word(kind: FactKind) -> &'static str {
    match kind {
        FactKind::Org => "org",
        FactKind::User => CREDENTIAL,
        FactKind::Node => "node",
        FactKind::Agbot => "agbot",
        FactKind::Service => "service",
        FactKind::Pattern => "pattern",
        FactKind::DeploymentPolicy => "policy",
        FactKind::ManagementPolicy => "mgmtpolicy",
    }
}
