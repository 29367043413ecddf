//! What the audit record knows of the request that runs in this task.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::middleware::Next;
use axum::response::Response;
use evenkeel_access::{Caller, ROOT_ORG, Role};
use evenkeel_exchange_store::audit::{NewAuditRecord, Subject};
use http::request::Parts;
use http::{Method, StatusCode};
use jiff::Timestamp;

use super::subject::{is_created_whole, subject};
use crate::endpoint::Endpoint;
use crate::{ApiError, Exchange};

/// Longest text that a record takes over from a request.
const TEXT_LIMIT: usize = 2048;
const REQUEST_ID: &str = "x-request-id";

tokio::task_local! {
    static CURRENT: Arc<AuditedRequest>;
}

/// What a record says of an operation.
#[derive(Debug, Clone, Copy)]
struct Operation {
    name: &'static str,
    /// Status of its success.
    status: u16,
}

/// An operation that is recorded, under one of its paths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuditedOperation {
    operation: Operation,
    /// The path with its parameters by name.
    template: &'static str,
}

impl AuditedOperation {
    /// Every write but those that say why not.
    pub(crate) fn of(endpoint: &Endpoint, template: &'static str) -> Option<AuditedOperation> {
        let success = endpoint.answers.iter().map(|answer| answer.status).find(|status| *status < 300);
        let operation = Operation { name: endpoint.operation, status: success.unwrap_or(200) };
        endpoint.is_audited().then_some(AuditedOperation { operation, template })
    }
}

/// One request that writes.
#[derive(Debug)]
pub(crate) struct AuditedRequest {
    caller: Arc<Caller>,
    address: String,
    id: String,
    method: Method,
    operation: Operation,
    org: String,
    resource: String,
    subject: Option<Subject>,
    is_recorded: AtomicBool,
}

impl AuditedRequest {
    /// The request that this task carries out, if it is one that is recorded.
    pub(crate) fn current() -> Option<Arc<AuditedRequest>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    async fn of(
        audited: AuditedOperation,
        parts: &mut Parts,
        caller: Arc<Caller>,
        address: String,
    ) -> Option<AuditedRequest> {
        let AuditedOperation { operation, template } = audited;
        // What is not UTF-8 is refused by the handler, and so writes nothing.
        let parameters = RawPathParams::from_request_parts(parts, &()).await.ok()?;
        let parameters: Vec<String> = parameters.iter().map(|(_, value)| value.to_owned()).collect();
        let is_of_org = template.contains("{organization}");
        let org = parameters.first().filter(|_| is_of_org).map_or(ROOT_ORG, String::as_str);
        let id = parts.headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Some(AuditedRequest {
            address,
            id: cut(id),
            method: parts.method.clone(),
            operation,
            org: cut(org),
            resource: cut(below_version(parts.uri.path())),
            subject: subject(template, &parameters),
            is_recorded: AtomicBool::new(false),
            caller,
        })
    }

    /// The resource that the path names.
    pub(crate) fn subject(&self) -> Option<&Subject> {
        self.subject.as_ref()
    }

    /// Whether success means that there was nothing before.
    pub(crate) fn finds_nothing(&self) -> bool {
        self.method == Method::POST
            && self.operation.name.starts_with("create_")
            && self.subject.as_ref().is_some_and(|subject| is_created_whole(subject.kind))
    }

    /// Whether success means that there is nothing any more.
    pub(crate) fn leaves_nothing(&self) -> bool {
        self.method == Method::DELETE && self.operation.name != "remove_ha_group_node"
    }

    /// The record of success.
    pub(crate) fn record(&self, at: Timestamp, state_before: Option<Vec<u8>>) -> NewAuditRecord {
        self.record_of(at, self.operation.status, state_before)
    }

    fn record_of(&self, at: Timestamp, status: u16, state_before: Option<Vec<u8>>) -> NewAuditRecord {
        NewAuditRecord {
            org: self.org.clone(),
            recorded_at: at,
            caller: self.caller.to_string(),
            caller_role: role_word(&self.caller),
            address: self.address.clone(),
            request: self.id.clone(),
            method: self.method.to_string(),
            operation: self.operation.name,
            resource: self.resource.clone(),
            status: i16::try_from(status).unwrap_or_default(),
            state_before,
        }
    }

    /// Notes that a transaction has committed with the record.
    pub(crate) fn note_recorded(&self) {
        self.is_recorded.store(true, Ordering::Relaxed);
    }
}

/// Runs a request of a known caller, and sees to it that a write is recorded.
pub(crate) async fn run(
    exchange: &Exchange,
    operation: AuditedOperation,
    request: Request,
    next: Next,
) -> Response {
    let Some(caller) = request.extensions().get::<Arc<Caller>>().cloned() else {
        return next.run(request).await;
    };
    let address = exchange.trusted_proxies().client(request.extensions(), request.headers());
    let address = address.map(|address| address.to_string()).unwrap_or_default();
    let (mut parts, body) = request.into_parts();
    let audited = AuditedRequest::of(operation, &mut parts, caller, address).await;
    let request = Request::from_parts(parts, body);
    let Some(audited) = audited.map(Arc::new) else { return next.run(request).await };
    let response = CURRENT.scope(audited.clone(), next.run(request)).await;
    if audited.is_recorded.load(Ordering::Relaxed) {
        return response;
    }
    let status = response.status();
    let record = || audited.record_of(exchange.now(), status.as_u16(), None);
    if status == StatusCode::FORBIDDEN {
        exchange.auditor().note_refused(record());
    } else if status.is_success() {
        // It wrote nothing to the database (settings, caches), so there was no transaction to put the record into.
        if let Err(error) = exchange.auditor().write(exchange.database(), &[record()]).await {
            return axum::response::IntoResponse::into_response(ApiError::from(error));
        }
    }
    response
}

/// Carries out what a login itself writes: the account that a person of an identity provider gets here.
pub(crate) async fn run_login<T>(
    caller: Caller,
    address: Option<IpAddr>,
    work: impl Future<Output = T>,
) -> T {
    let parameters = [caller.org.clone(), caller.id.clone()];
    let request = AuditedRequest {
        address: address.map(|address| address.to_string()).unwrap_or_default(),
        id: String::new(),
        method: Method::PUT,
        operation: Operation { name: "provide_account", status: 200 },
        org: cut(&caller.org),
        resource: cut(&format!("/orgs/{}/users/{}", caller.org, caller.id)),
        subject: subject("/orgs/{organization}/users/{username}", &parameters),
        is_recorded: AtomicBool::new(false),
        caller: Arc::new(caller),
    };
    CURRENT.scope(Arc::new(request), work).await
}

fn below_version(path: &str) -> &str {
    path.strip_prefix("/v1").unwrap_or(path)
}

/// The word of a record for a kind of caller.
fn role_word(caller: &Caller) -> &'static str {
    match caller.role {
        Role::Root => "root",
        Role::HubAdmin => "hub administrator",
        Role::OrgAdmin => "organization administrator",
        Role::User => "user",
        Role::Node => "node",
        Role::Agbot => "agbot",
    }
}

/// A text that the database can hold, not longer than a record allows.
fn cut(text: &str) -> String {
    let mut end = text.len().min(TEXT_LIMIT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace('\0', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        let long = "é".repeat(TEXT_LIMIT);
        assert_eq!(cut(&long).len(), TEXT_LIMIT);
        assert_eq!(cut(&format!("x{long}")).len(), TEXT_LIMIT - 1);
        assert_eq!(cut("a\0b"), "ab");
    }

    #[test]
    fn every_write_is_recorded_or_says_why_not() {
        for endpoint in crate::routes::all().iter().filter(|endpoint| endpoint.method != Method::GET) {
            for path in &endpoint.paths {
                let is_recorded = AuditedOperation::of(endpoint, path).is_some();
                assert_eq!(is_recorded, endpoint.unaudited.is_none(), "{}", endpoint.operation);
            }
        }
    }
}
