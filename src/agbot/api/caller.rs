//! Who calls the agbot's API: whoever the exchange knows by these credentials.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_client::{ClientError, Credentials};
use http::{HeaderMap, StatusCode, header};

use crate::context::Context;

/// Reads Basic credentials from the request.
pub(super) fn credentials(headers: &HeaderMap) -> Option<Credentials> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (name, secret) = text.split_once(':')?;
    let (org, id) = name.split_once('/')?;
    (!org.is_empty() && !id.is_empty() && !secret.is_empty()).then(|| Credentials::new(org, id, secret))
}

/// What the exchange says of credentials.
pub(super) enum Verdict {
    /// They are good for reading this node.
    Good(Box<evenkeel_client::model::Node>),
    /// Good, but the node is not there or not the caller's.
    NotTheNode,
    /// Not good, with the answer for it.
    Refused(StatusCode, String),
}

/// Reads a node with the caller's own credentials: that is the proof of who calls.
pub(super) async fn read_node(context: &Context, caller: Credentials, org: &str, node: &str) -> Verdict {
    let client = match context.client.with_credentials(caller) {
        Ok(client) => client,
        Err(error) => return Verdict::Refused(StatusCode::UNAUTHORIZED, error.to_string()),
    };
    match client.node(org, node).await {
        Ok(Some(node)) => Verdict::Good(Box::new(node)),
        Ok(None) | Err(ClientError::Status { status: 403 | 404, .. }) => Verdict::NotTheNode,
        Err(ClientError::Status { status: 401, .. }) => Verdict::Refused(
            StatusCode::UNAUTHORIZED,
            "the exchange does not accept the credentials".to_owned(),
        ),
        Err(error) => Verdict::Refused(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

/// Whether the caller administrates the organization: root, or an administrator of it. Answers the caller's name.
pub(super) async fn may_administrate(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
) -> Result<String, (StatusCode, String)> {
    let refused = |why: &str| (StatusCode::UNAUTHORIZED, why.to_owned());
    let caller = credentials(headers).ok_or_else(|| refused("credentials of the exchange are needed"))?;
    let name = format!("{}/{}", caller.org, caller.id);
    let forbidden = || (StatusCode::FORBIDDEN, format!("an administrator of organization '{org}' is needed"));
    let client =
        context.client.with_credentials(caller.clone()).map_err(|error| refused(&error.to_string()))?;
    match client.user(&caller.org, &caller.id).await {
        Ok(Some(_)) if name == "root/root" => Ok(name),
        Ok(Some(user)) if user.admin && caller.org == org => Ok(name),
        Ok(_) | Err(ClientError::Status { status: 403 | 404, .. }) => Err(forbidden()),
        Err(ClientError::Status { status: 401, .. }) => {
            Err(refused("the exchange does not accept the credentials"))
        }
        Err(error) => Err((StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
    }
}

/// Whether the caller may read nodes of the organization: proves that it is somebody of it.
pub(super) async fn may_read_org(
    context: &Context,
    headers: &HeaderMap,
    org: &str,
) -> Result<(), (StatusCode, String)> {
    let Some(caller) = credentials(headers) else {
        return Err((StatusCode::UNAUTHORIZED, "credentials of the exchange are needed".to_owned()));
    };
    let client = context
        .client
        .with_credentials(caller)
        .map_err(|error| (StatusCode::UNAUTHORIZED, error.to_string()))?;
    match client.list_ha_groups(org).await {
        Ok(_) => Ok(()),
        Err(ClientError::Status { status: 401, .. }) => {
            Err((StatusCode::UNAUTHORIZED, "the exchange does not accept the credentials".to_owned()))
        }
        Err(ClientError::Status { status: 403, .. }) => {
            Err((StatusCode::FORBIDDEN, format!("reading nodes of organization '{org}' is needed")))
        }
        Err(error) => Err((StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
    }
}
