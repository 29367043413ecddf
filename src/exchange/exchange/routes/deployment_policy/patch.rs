//! Changing one attribute of a deployment policy.

use std::iter;

use evenkeel_access::{Permission, right};
use evenkeel_exchange_store::deployment_policy::{self, DeploymentPolicyRow};
use evenkeel_exchange_store::document_bytes::CountedDocument;
use evenkeel_store::PgConnection;
use evenkeel_wire::exchange::deployment_policy::{DeployedService, PatchDeploymentPolicy};
use evenkeel_wire::exchange::shared::{OneProperty, OneSecretBinding};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::user_input::UserInputService;
use serde_json::{Value, json};

use super::orchestration::{
    findings, require_agents, require_interval, require_lifecycles, require_no_cycle, require_same_form,
    stored_orchestration,
};
use super::write::{require_deployed_service, validate_service};
use super::{absent, change, extent};
use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::operation::{ExchangeRequest, Op, ResourcePath};
use crate::routes::document_bytes::SizeBefore;
use crate::routes::plan_approval::gate::{GatedRequest, GatedWrite, GivenApproval};
use crate::routes::reference::{Warned, WriteWarnings, require_user_input, seen_from};
use evenkeel_domain::orchestration::health_policy::Target;

/// The attribute that a request changes.
enum Attribute {
    Constraints(Vec<String>),
    Description(String),
    Label(String),
    Orchestration(Option<Value>),
    Properties(Vec<OneProperty>),
    SecretBinding(Vec<OneSecretBinding>),
    Service(DeployedService),
    UserInput(Vec<UserInputService>),
}

impl Attribute {
    /// Returns a document with this attribute, if anything can be wrong with it.
    fn document(&self) -> Value {
        match self {
            Self::Orchestration(document) => json!({"orchestration": document}),
            Self::Properties(properties) => json!({"properties": properties}),
            Self::SecretBinding(binding) => json!({"secretBinding": binding}),
            Self::Service(service) => json!({"service": service}),
            Self::UserInput(input) => json!({"userInput": input}),
            Self::Constraints(_) | Self::Description(_) | Self::Label(_) => Value::Null,
        }
    }
}

pub(super) async fn patch_deployment_policy(
    op: Op<ResourcePath, GivenApproval>,
    permission: Permission<right::DeploymentPolicyWrite>,
    Body(request): Body<PatchDeploymentPolicy>,
) -> Result<Warned<Created>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: ResourcePath { org, id },
        parameters: given,
    } = &op;
    let mut warnings = WriteWarnings::new(exchange);
    let basis = request.last_updated.clone();
    let (name, attribute) = first_attribute(org, id, request, &mut warnings)?;
    warnings.add(findings(exchange, (org, id), &attribute.document()).await?);
    let short = op
        .write(&permission, "deployment_policy.patch", async |mut tx| {
            let mut row = deployment_policy::lock(&mut tx, org, id).await?.ok_or_else(|| absent(org, id))?;
            let used =
                given.require(&mut tx, &GatedRequest { exchange, caller, org }, &GatedWrite::Other).await?;
            if basis.as_ref().is_some_and(|basis| *basis != wire_time(row.updated_at)) {
                let text =
                    format!("the deployment policy {org}/{id} was written since lastUpdated: read it again");
                return Err(ApiError::conflict(text));
            }
            require_references(&mut tx, &attribute, seen_from(caller, org)).await?;
            if let Attribute::Orchestration(next) = &attribute {
                require_same_form(&mut tx, (org, id), row.orchestration.as_ref(), next.as_ref()).await?;
                require_interval(&mut tx, org, next.as_ref(), Target::Workload).await?;
                require_agents(&mut tx, (org, id), next.as_ref()).await?;
                require_no_cycle(&mut tx, (org, id), next.as_ref()).await?;
            }
            apply(&mut row, &attribute);
            require_lifecycles(&row)?;
            row.updated_at = exchange.now();
            let size = SizeBefore::measure(&mut tx, CountedDocument::DeploymentPolicy, org, id).await?;
            deployment_policy::update(&mut tx, &row).await?;
            size.require_room(&mut tx, &exchange.settings(), org, id).await?;
            let written =
                row.orchestration.as_ref().filter(|_| matches!(attribute, Attribute::Orchestration(_)));
            let short = extent::warnings(&mut tx, (org, id), written).await?;
            tx.finish_with(iter::once(change(org, id, "modified")).chain(used), short)
        })
        .await?;
    Ok(warnings
        .on_with(created(format!("attribute '{name}' of business policy '{org}/{id}' updated")), short))
}

/// The first attribute present counts, in the order of the contract. The document `orchestration` has to hold in any case, as the
/// types of all other attributes have to.
fn first_attribute(
    org: &str,
    id: &str,
    request: PatchDeploymentPolicy,
    warnings: &mut WriteWarnings,
) -> Result<(&'static str, Attribute), ApiError> {
    let stored = |document: Value| stored_orchestration(org, id, &document);
    let orchestration = request.orchestration.map(|document| document.map(stored).transpose()).transpose()?;
    Ok(if let Some(constraints) = request.constraints {
        warnings.check("constraints", &constraints)?;
        ("constraints", Attribute::Constraints(constraints))
    } else if let Some(description) = request.description {
        ("description", Attribute::Description(description))
    } else if let Some(label) = request.label {
        ("label", Attribute::Label(label))
    } else if let Some(properties) = request.properties {
        ("properties", Attribute::Properties(properties))
    } else if let Some(binding) = request.secret_binding {
        ("secretBinding", Attribute::SecretBinding(binding))
    } else if let Some(service) = request.service {
        validate_service(&service)?;
        ("service", Attribute::Service(service))
    } else if let Some(input) = request.user_input {
        ("userInput", Attribute::UserInput(input))
    } else if let Some(orchestration) = orchestration {
        ("orchestration", Attribute::Orchestration(orchestration))
    } else {
        return Err(ApiError::invalid_input(
            "the body names no attribute of a business policy that can be changed",
        ));
    })
}

async fn require_references(
    conn: &mut PgConnection,
    attribute: &Attribute,
    seen_from: Option<&str>,
) -> Result<(), ApiError> {
    match attribute {
        Attribute::Service(service) => require_deployed_service(conn, service, seen_from).await,
        Attribute::UserInput(input) => require_user_input(conn, input, seen_from).await,
        _ => Ok(()),
    }
}

fn apply(row: &mut DeploymentPolicyRow, attribute: &Attribute) {
    match attribute {
        Attribute::Constraints(constraints) => row.constraints = json!(constraints),
        Attribute::Description(description) => row.description.clone_from(description),
        Attribute::Label(label) => row.label.clone_from(label),
        Attribute::Orchestration(document) => row.orchestration.clone_from(document),
        Attribute::Properties(properties) => row.properties = json!(properties),
        Attribute::SecretBinding(binding) => row.secret_binding = json!(binding),
        Attribute::Service(service) => row.service = json!(service),
        Attribute::UserInput(input) => row.user_input = json!(input),
    }
}
