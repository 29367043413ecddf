//! Facts about a writing request for the audit record.
//!
//! Nothing of a body, a credential or a token is in a record. Source: docs/adr/0012-audit-records-are-sealed-afterwards.md.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use evenkeel_access::{AssignedRole, Caller, ROOT_ORG, Role};
use evenkeel_api::{AuditFacts, AuditedOperation, Effect};
use evenkeel_exchange_store::audit::NewAuditRecord;
use evenkeel_exchange_store::audit_state::{AuditedResource, Subject};
use evenkeel_exchange_store::document_revision::NewRevision;
use http::{Method, StatusCode};
use jiff::Timestamp;

use super::reason::Reason;
use crate::settings::RevisionSettings;
use crate::{ApiError, Exchange};

/// Longest text that a record takes over from a request.
const TEXT_LIMIT: usize = 2048;

/// One request that writes.
#[derive(Debug)]
pub(crate) struct AuditedRequest {
    caller: Arc<Caller>,
    address: String,
    facts: AuditFacts,
    org: String,
    subject: Option<AuditedResource>,
    /// Reason that the caller gave.
    reason: Reason,
    is_recorded: AtomicBool,
}

impl AuditedRequest {
    /// The request of an operation.
    ///
    /// # Errors
    /// 400 when its reason cannot be recorded.
    pub(crate) fn new(
        operation: AuditedOperation,
        request: &Request,
        path: &[String],
        caller: Arc<Caller>,
        address: Option<IpAddr>,
    ) -> Result<AuditedRequest, ApiError> {
        Ok(AuditedRequest {
            address: address.map(|address| address.to_string()).unwrap_or_default(),
            facts: AuditFacts::of(operation, request.method(), request.uri(), request.headers()),
            org: cut(path.first().map_or(ROOT_ORG, String::as_str)),
            subject: subject(operation.subject.and_then(Subject::named), path),
            reason: Reason::of(request.headers())?,
            is_recorded: AtomicBool::new(false),
            caller,
        })
    }

    /// The request of a caller who was identified again.
    pub(crate) fn by(self, caller: Arc<Caller>) -> AuditedRequest {
        AuditedRequest { caller, ..self }
    }

    /// Returns the request of a login itself, which writes the account of a user of an identity provider.
    pub(crate) fn of_login(caller: Caller, address: Option<IpAddr>) -> AuditedRequest {
        let path = [caller.org.clone(), caller.id.clone()];
        let operation = AuditedOperation {
            name: "provide_account",
            status: 200,
            subject: Some(Subject::Account.into()),
            effect: Effect::Changes,
        };
        AuditedRequest {
            address: address.map(|address| address.to_string()).unwrap_or_default(),
            facts: AuditFacts {
                operation,
                method: Method::PUT,
                resource: format!("/orgs/{}/users/{}", caller.org, caller.id),
                request: String::new(),
            },
            org: cut(&caller.org),
            subject: subject(Some(Subject::Account), &path),
            reason: Reason::default(),
            is_recorded: AtomicBool::new(false),
            caller: Arc::new(caller),
        }
    }

    /// The resource that the path names.
    pub(crate) fn subject(&self) -> Option<&AuditedResource> {
        self.subject.as_ref()
    }

    /// Returns true if success means that the resource did not exist before.
    pub(crate) fn finds_nothing(&self) -> bool {
        self.facts.operation.effect == Effect::Creates
    }

    /// Returns true if success means that the resource no longer exists.
    pub(crate) fn leaves_nothing(&self) -> bool {
        self.facts.operation.effect == Effect::Removes
    }

    /// Returns true if the write of a document is that of a person, so that it gets a revision. A node's change of its policy is one as
    /// well: a user makes it with the node's credentials; its first policy, which a registration writes, is not.
    pub(crate) fn revises(&self, subject: &AuditedResource, has_document: bool) -> bool {
        // With the organization its revisions end, too.
        let is_lasting = !(subject.kind == Subject::Organization && self.leaves_nothing());
        let is_of_person = match self.caller.role {
            Role::Node => subject.kind == Subject::NodePolicy && has_document,
            _ => self.caller.is_person(),
        };
        subject.kind.has_revisions() && is_lasting && is_of_person
    }

    /// The revision that the write adds if it changes the document.
    pub(crate) fn revision<'a>(
        &'a self,
        before: Option<&'a str>,
        settings: &RevisionSettings,
        now: Timestamp,
    ) -> NewRevision<'a> {
        NewRevision {
            before,
            reason: self.reason.text(),
            limits: settings.limits,
            kept_since: settings.kept_since(now),
        }
    }

    /// The record of success.
    pub(crate) fn record(&self, at: Timestamp, state_before: Option<Vec<u8>>) -> NewAuditRecord {
        self.record_of(at, self.facts.operation.status, state_before)
    }

    fn record_of(&self, at: Timestamp, status: u16, state_before: Option<Vec<u8>>) -> NewAuditRecord {
        let AuditFacts { operation, method, resource, request } = &self.facts;
        NewAuditRecord {
            org: self.org.clone(),
            recorded_at: at,
            caller: self.caller.to_string(),
            caller_role: role_text(&self.caller),
            address: self.address.clone(),
            request: cut(request),
            method: method.to_string(),
            operation: Cow::Borrowed(operation.name),
            resource: cut(resource),
            status: i16::try_from(status).unwrap_or_default(),
            state_before,
        }
    }

    /// Notes that a transaction has committed with the record.
    pub(crate) fn note_recorded(&self) {
        self.is_recorded.store(true, Ordering::Relaxed);
    }

    /// Records a request whose transaction did not.
    pub(crate) async fn settle(&self, exchange: &Exchange, response: Response) -> Response {
        if self.is_recorded.load(Ordering::Relaxed) {
            return response;
        }
        let status = response.status();
        let record = || self.record_of(exchange.now(), status.as_u16(), None);
        if status == StatusCode::FORBIDDEN && exchange.limiter().admits_refusal(&self.caller) {
            exchange.auditor().note_refused(record());
        } else if status == StatusCode::FORBIDDEN {
            exchange.auditor().note_left_out();
        } else if status.is_success() {
            // It wrote nothing to the database (settings, caches), so there was no transaction to put the record into.
            if let Err(error) = exchange.auditor().write(exchange.database(), &[record()]).await {
                return ApiError::from(error).into_response();
            }
        }
        response
    }
}

/// The resource of a write, from the values in its path: an organization, a resource of it and a part of that; `None` when the path does
/// not name it, or when it has no state of its own (messages, actions).
fn subject(kind: Option<Subject>, path: &[String]) -> Option<AuditedResource> {
    let (kind, org) = (kind?, path.first()?.clone());
    let (id, part) = match kind {
        Subject::Organization | Subject::AgentFileVersion => (org.clone(), String::new()),
        // The member is in the group: its own name is not part of the state.
        Subject::HaGroup => (path.get(1)?.clone(), String::new()),
        _ => (path.get(1)?.clone(), path.get(2).cloned().unwrap_or_default()),
    };
    Some(AuditedResource { kind, org, id, part })
}

/// The text of a record for a kind of caller. It names the API key of a login: another account may have created the
/// key.
pub(crate) fn role_text(caller: &Caller) -> Cow<'static, str> {
    match &caller.api_key {
        Some(key) => Cow::Owned(format!("{} with API key {key}", role_word(caller))),
        None => Cow::Borrowed(role_word(caller)),
    }
}

fn role_word(caller: &Caller) -> &'static str {
    match caller.role {
        Role::Root => "root",
        Role::HubAdmin => "hub administrator",
        Role::OrgAdmin => "organization administrator",
        Role::User => match caller.assigned_role() {
            None => "user",
            Some(AssignedRole::Viewer) => "user limited to viewer",
            Some(AssignedRole::Deployer(_)) => "user limited to deployer",
        },
        Role::Node => "node",
        Role::Agbot => "agbot",
        Role::UnapprovedAgbot => "unapproved agbot",
        Role::Viewer => "viewer",
        Role::Deployer => "deployer",
    }
}

/// A text that the database can hold, not longer than a record allows.
pub(crate) fn cut(text: &str) -> String {
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
    fn record_names_the_api_key_of_a_login() {
        let person = Caller::new(Role::OrgAdmin, "o", "a");
        assert_eq!(role_text(&person), "organization administrator");
        let by_key = Caller { api_key: Some("7d1".into()), ..person };
        assert_eq!(role_text(&by_key), "organization administrator with API key 7d1");
        assert_eq!(by_key.to_string(), "o/a");
        let limited = Caller { api_key: Some("7d1".into()), ..Caller::new(Role::User, "o", "u") };
        let limited = limited.limited(None, Some(AssignedRole::Viewer));
        assert_eq!(role_text(&limited), "user limited to viewer with API key 7d1");
        let viewer = Caller::new(Role::User, "o", "v").limited(Some(AssignedRole::Viewer), None);
        assert_eq!(role_text(&viewer), "viewer");
    }

    #[test]
    fn rows_name_known_kinds() {
        for operation in crate::routes::all() {
            let name = operation.subject.unwrap_or("organization");
            assert!(Subject::named(name).is_some_and(|kind| <&str>::from(kind) == name), "{name}");
        }
    }

    #[test]
    fn every_write_is_recorded_or_says_why_not() {
        for operation in crate::routes::all().iter().filter(|operation| operation.method != Method::GET) {
            let is_recorded = AuditedOperation::of(operation).is_some();
            assert_eq!(is_recorded, operation.unaudited.is_none(), "{}", operation.operation);
        }
    }

    #[test]
    fn member_of_a_group_is_no_part_of_its_state() {
        let path = ["o", "a", "b"].map(str::to_owned);
        let part = |kind: Subject| subject(Some(kind), &path).map(|subject| (subject.id, subject.part));
        assert_eq!(part(Subject::HaGroup), Some(("a".to_owned(), String::new())));
        assert_eq!(part(Subject::NodeAgreement), Some(("a".to_owned(), "b".to_owned())));
        assert_eq!(part(Subject::Organization), Some(("o".to_owned(), String::new())));
        assert_eq!(subject(None, &path), None);
    }
}
