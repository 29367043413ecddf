//! Changing one attribute of a pattern.

use evenkeel_access::{Caller, Permission, right};
use evenkeel_domain::review;
use evenkeel_exchange_store::document_bytes::CountedDocument;
use evenkeel_exchange_store::pattern::{self, PatternRow};
use evenkeel_store::PgConnection;
use evenkeel_wire::exchange::pattern::{PatchPattern, PatternService};
use evenkeel_wire::exchange::shared::OneSecretBinding;
use evenkeel_wire::exchange::user_input::UserInputService;
use serde_json::{Value, json};

use super::write::{require_deployed_services, require_shared_type, validate_services};
use super::{absent, change};
use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::operation::{ExchangeRequest, Op, ResourcePath};
use crate::routes::document_bytes::SizeBefore;
use crate::routes::reference::{Warned, WriteWarnings, require_user_input, seen_from};

/// The attribute that a request changes.
enum Attribute {
    AgreementProtocols(Vec<Value>),
    ClusterNamespace(String),
    Description(String),
    Label(String),
    Public(bool),
    SecretBinding(Vec<OneSecretBinding>),
    Services(Vec<PatternService>),
    UserInput(Vec<UserInputService>),
}

impl Attribute {
    /// Returns a document with this attribute, if anything can be wrong with it.
    fn document(&self) -> Value {
        match self {
            Self::SecretBinding(binding) => json!({"secretBinding": binding}),
            Self::Services(services) => json!({"services": services}),
            Self::UserInput(input) => json!({"userInput": input}),
            _ => Value::Null,
        }
    }
}

pub(super) async fn patch_pattern(
    op: Op<ResourcePath>,
    permission: Permission<right::PatternWrite>,
    Body(request): Body<PatchPattern>,
) -> Result<Warned<Created>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = &op;
    validate_services(request.services.as_deref().unwrap_or_default())?;
    let (name, attribute) = first_attribute(request)?;
    let mut warnings = WriteWarnings::new(exchange);
    warnings.add(review::pattern(&attribute.document()));
    op.write(&permission, "pattern.patch", async |mut tx| {
        let mut row = pattern::lock(&mut tx, org, id).await?.ok_or_else(|| absent(org, id))?;
        require_references(&mut tx, caller, org, &attribute).await?;
        apply(&mut row, &attribute);
        row.updated_at = exchange.now();
        let size = SizeBefore::measure(&mut tx, CountedDocument::Pattern, org, id).await?;
        pattern::update(&mut tx, &row).await?;
        size.require_room(&mut tx, &exchange.settings(), org, id).await?;
        tx.finish([change(org, id, "modified", row.is_public)])
    })
    .await?;
    Ok(warnings.on(created(format!("attribute '{name}' of pattern '{org}/{id}' updated"))))
}

/// The first attribute present counts, in the order of the contract.
fn first_attribute(request: PatchPattern) -> Result<(&'static str, Attribute), ApiError> {
    Ok(if let Some(protocols) = request.agreement_protocols {
        ("agreementProtocols", Attribute::AgreementProtocols(protocols))
    } else if let Some(namespace) = request.cluster_namespace {
        ("clusterNamespace", Attribute::ClusterNamespace(namespace))
    } else if let Some(description) = request.description {
        ("description", Attribute::Description(description))
    } else if let Some(label) = request.label {
        ("label", Attribute::Label(label))
    } else if let Some(public) = request.public {
        ("public", Attribute::Public(public))
    } else if let Some(binding) = request.secret_binding {
        ("secretBinding", Attribute::SecretBinding(binding))
    } else if let Some(services) = request.services {
        ("services", Attribute::Services(services))
    } else if let Some(input) = request.user_input {
        ("userInput", Attribute::UserInput(input))
    } else {
        return Err(ApiError::invalid_input("the body names no attribute of a pattern that can be changed"));
    })
}

async fn require_references(
    conn: &mut PgConnection,
    caller: &Caller,
    org: &str,
    attribute: &Attribute,
) -> Result<(), ApiError> {
    match attribute {
        Attribute::Public(true) => require_shared_type(conn, org).await,
        Attribute::Services(services) => {
            require_deployed_services(conn, services, seen_from(caller, org)).await
        }
        Attribute::UserInput(input) => require_user_input(conn, input, seen_from(caller, org)).await,
        _ => Ok(()),
    }
}

fn apply(row: &mut PatternRow, attribute: &Attribute) {
    match attribute {
        Attribute::AgreementProtocols(protocols) => row.agreement_protocols = json!(protocols),
        Attribute::ClusterNamespace(namespace) => row.cluster_namespace.clone_from(namespace),
        Attribute::Description(description) => row.description.clone_from(description),
        Attribute::Label(label) => row.label.clone_from(label),
        Attribute::Public(public) => row.is_public = *public,
        Attribute::SecretBinding(binding) => row.secret_binding = json!(binding),
        Attribute::Services(services) => row.services = json!(services),
        Attribute::UserInput(input) => row.user_input = json!(input),
    }
}
