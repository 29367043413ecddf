//! Changing one attribute of a service.

use evenkeel_access::{Permission, right};
use evenkeel_domain::review;
use evenkeel_exchange_store::document_bytes::CountedDocument;
use evenkeel_exchange_store::service::{self, ServiceRow};
use evenkeel_wire::exchange::service::{PatchService, RequiredService};
use serde_json::{Value, json};

use super::change;
use super::get::absent;
use super::write::{require_required_services, require_sharable};
use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::operation::{ExchangeRequest, Op, ResourcePath};
use crate::routes::document_bytes::SizeBefore;
use crate::routes::reference::{Warned, WriteWarnings};

/// The attribute that a request changes.
enum Attribute {
    Label(String),
    Description(String),
    Public(bool),
    Documentation(String),
    Sharable(String),
    MatchHardware(Value),
    RequiredServices(Vec<RequiredService>),
    UserInput(Value),
    Deployment(String),
    DeploymentSignature(String),
    ImageStore(Value),
}

impl Attribute {
    /// Returns a document with this attribute, if anything can be wrong with it.
    fn document(&self) -> Value {
        match self {
            Self::RequiredServices(required) => json!({"requiredServices": required}),
            Self::UserInput(user_input) => json!({"userInput": user_input}),
            Self::Deployment(deployment) => json!({"deployment": deployment}),
            _ => Value::Null,
        }
    }
}

pub(super) async fn patch_service(
    op: Op<ResourcePath>,
    permission: Permission<right::ServiceWrite>,
    Body(request): Body<PatchService>,
) -> Result<Warned<Created>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = &op;
    let (name, attribute) = first_attribute(request)?;
    let mut warnings = WriteWarnings::new(exchange);
    warnings.add(review::service(&attribute.document()));
    op.write(&permission, "service.patch", async |mut tx| {
        let mut row = service::lock(&mut tx, org, id).await?.ok_or_else(|| absent(org, id))?;
        if let Attribute::RequiredServices(required) = &attribute {
            require_required_services(&mut tx, required).await?;
        }
        apply(&mut row, &attribute);
        row.updated_at = exchange.now();
        let size = SizeBefore::measure(&mut tx, CountedDocument::Service, org, id).await?;
        service::update(&mut tx, &row).await?;
        size.require_room(&mut tx, &exchange.settings(), org, id).await?;
        tx.finish([change(org, id, "service", "modified", row.is_public)])
    })
    .await?;
    Ok(warnings.on(created(format!("attribute '{name}' of service '{org}/{id}' updated"))))
}

/// The first attribute present counts, in the order of the contract.
fn first_attribute(request: PatchService) -> Result<(&'static str, Attribute), ApiError> {
    let is_of_id = request.url.is_some() || request.version.is_some() || request.arch.is_some();
    Ok(if let Some(label) = request.label {
        ("label", Attribute::Label(label))
    } else if let Some(description) = request.description {
        ("description", Attribute::Description(description))
    } else if let Some(public) = request.public {
        ("public", Attribute::Public(public))
    } else if let Some(documentation) = request.documentation {
        ("documentation", Attribute::Documentation(documentation))
    } else if is_of_id {
        return Err(ApiError::invalid_input(
            "url, version and arch make the id of a service and cannot be changed",
        ));
    } else if let Some(sharable) = request.sharable {
        require_sharable(&sharable)?;
        ("sharable", Attribute::Sharable(sharable))
    } else if let Some(match_hardware) = request.match_hardware {
        ("matchHardware", Attribute::MatchHardware(Value::Object(match_hardware)))
    } else if let Some(required) = request.required_services {
        ("requiredServices", Attribute::RequiredServices(required))
    } else if let Some(user_input) = request.user_input {
        ("userInput", Attribute::UserInput(Value::Array(user_input)))
    } else if let Some(deployment) = request.deployment {
        ("deployment", Attribute::Deployment(deployment))
    } else if let Some(signature) = request.deployment_signature {
        ("deploymentSignature", Attribute::DeploymentSignature(signature))
    } else if let Some(image_store) = request.image_store {
        ("imageStore", Attribute::ImageStore(Value::Object(image_store)))
    } else if request.cluster_deployment.is_some() || request.cluster_deployment_signature.is_some() {
        return Err(ApiError::invalid_input("clusterDeployment is changed by replacing the service"));
    } else {
        return Err(ApiError::invalid_input("the body names no attribute of a service that can be changed"));
    })
}

fn apply(row: &mut ServiceRow, attribute: &Attribute) {
    match attribute {
        Attribute::Label(label) => row.label.clone_from(label),
        Attribute::Description(description) => row.description.clone_from(description),
        Attribute::Public(public) => row.is_public = *public,
        Attribute::Documentation(documentation) => row.documentation.clone_from(documentation),
        Attribute::Sharable(sharable) => row.sharable.clone_from(sharable),
        Attribute::MatchHardware(match_hardware) => row.match_hardware.clone_from(match_hardware),
        Attribute::RequiredServices(required) => row.required_services = json!(required),
        Attribute::UserInput(user_input) => row.user_input.clone_from(user_input),
        Attribute::Deployment(deployment) => row.deployment.clone_from(deployment),
        Attribute::DeploymentSignature(signature) => row.deployment_signature.clone_from(signature),
        Attribute::ImageStore(image_store) => row.image_store.clone_from(image_store),
    }
}
