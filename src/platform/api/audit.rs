//! Facts about a request for its audit record: nothing of a body, a credential or a token is among them.

use http::{HeaderMap, Method, Uri};

use crate::{Effect, Operation, PREFIX};

const REQUEST_ID: &str = "x-request-id";

/// Audit facts of an operation.
#[derive(Debug, Clone, Copy)]
pub struct AuditedOperation {
    /// Name of the operation.
    pub name: &'static str,
    /// Status of its success.
    pub status: u16,
    /// Kind of the resource whose state the record shows; none for actions and messages.
    pub subject: Option<&'static str>,
    /// What becomes of that resource.
    pub effect: Effect,
}

impl AuditedOperation {
    /// Every write, except those that state why not.
    #[must_use]
    pub fn of(operation: &Operation) -> Option<AuditedOperation> {
        let success = operation.responses.iter().map(|response| response.status).find(|status| *status < 300);
        let audited = AuditedOperation {
            name: operation.operation,
            status: success.unwrap_or(200),
            subject: operation.subject,
            effect: operation.effect,
        };
        operation.is_audited().then_some(audited)
    }
}

/// Audit facts of one request.
#[derive(Debug, Clone)]
pub struct AuditFacts {
    /// What is asked for.
    pub operation: AuditedOperation,
    /// HTTP method.
    pub method: Method,
    /// Path without the prefix.
    pub resource: String,
    /// Id of the request; empty without one.
    pub request: String,
}

impl AuditFacts {
    /// The facts of a request of an operation.
    #[must_use]
    pub fn of(operation: AuditedOperation, method: &Method, uri: &Uri, headers: &HeaderMap) -> AuditFacts {
        let path = uri.path();
        let request = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
        AuditFacts {
            operation,
            method: method.clone(),
            resource: path.strip_prefix(PREFIX).unwrap_or(path).to_owned(),
            request: request.unwrap_or_default().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::{RequiredAccess, endpoint};

    #[test]
    fn only_writes_have_facts_and_name_what_becomes_of_their_resource() {
        let of = |method| {
            let row = endpoint(method, "/nodes/{node}", "act", RequiredAccess::Public, ());
            AuditedOperation::of(&row).map(|operation| operation.effect)
        };
        assert_eq!(of(Method::GET), None);
        assert_eq!(of(Method::PUT), Some(Effect::Changes));
        assert_eq!(of(Method::DELETE), Some(Effect::Removes));
        let row = endpoint(Method::POST, "/nodes", "create", RequiredAccess::Public, ()).creates();
        assert_eq!(AuditedOperation::of(&row).map(|operation| operation.effect), Some(Effect::Creates));
        assert!(AuditedOperation::of(&row.unaudited("it only reads")).is_none());
    }

    #[test]
    fn resource_is_the_path_without_the_prefix() {
        let row = endpoint(Method::PUT, "/orgs/{organization}", "act", RequiredAccess::Public, ());
        let operation = AuditedOperation::of(&row).expect("a write");
        let headers = HeaderMap::from_iter([(
            http::header::HeaderName::from_static(REQUEST_ID),
            HeaderValue::from_static("r1"),
        )]);
        let uri = Uri::from_static("/v1/orgs/o?force=true");
        let facts = AuditFacts::of(operation, &Method::PUT, &uri, &headers);
        assert_eq!((facts.resource.as_str(), facts.request.as_str()), ("/orgs/o", "r1"));
        let without =
            AuditFacts::of(operation, &Method::PUT, &Uri::from_static("/orgs/o"), &HeaderMap::new());
        assert_eq!((without.resource.as_str(), without.request.as_str()), ("/orgs/o", ""));
    }
}
