//! Rows of the table of operations, from which router, API document, access table, audit records and the fast path are made.

use std::sync::Arc;

use axum::Extension;
use axum::routing::MethodRouter;
pub use evenkeel_api::Content;
use evenkeel_api::{Documented, Endpoint, RequiredAccess, Run, endpoint};
pub(crate) use evenkeel_api::{delete, get, patch, post, put};
use http::Method;

use super::document::ServedDocument;
use super::pipeline::ExchangeRequest;
use crate::Exchange;

/// One operation of the exchange.
pub type Operation = Endpoint<Carrier>;

/// Handler of an operation.
#[derive(Clone)]
pub struct Carrier(pub(crate) Kind);

#[derive(Clone)]
pub(crate) enum Kind {
    /// A handler behind credentials and the permission table.
    Typed(Arc<dyn Run<ExchangeRequest>>),
    /// A route that needs no credentials.
    Public(Box<MethodRouter<Exchange>>),
}

impl From<Arc<dyn Run<ExchangeRequest>>> for Carrier {
    fn from(handler: Arc<dyn Run<ExchangeRequest>>) -> Self {
        Carrier(Kind::Typed(handler))
    }
}

/// A GET without credentials, from what is served at all.
pub(crate) fn get_public<F, O>(path: &'static str, name: &'static str, handler: F) -> Operation
where
    F: Fn(&ServedDocument) -> O + Clone + Send + Sync + 'static,
    O: Documented,
{
    let route = axum::routing::get(move |Extension(document): Extension<ServedDocument>| {
        let response = handler(&document).into_response();
        async { response }
    });
    endpoint(Method::GET, path, name, RequiredAccess::Public, Carrier(Kind::Public(Box::new(route))))
        .responses(O::responses())
}

#[cfg(test)]
mod tests {
    use crate::routes;

    #[test]
    fn every_response_is_described() {
        for operation in routes::all() {
            let is_described = |status| operation.responses.iter().any(|response| response.status == status);
            assert!([200, 201, 204].into_iter().any(is_described), "{}", operation.operation);
            for response in &operation.responses {
                assert!(!response.description.is_empty(), "{} {}", operation.operation, response.status);
            }
        }
    }
}
