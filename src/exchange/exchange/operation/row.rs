//! Rows of the table of operations, from which router, API document, access table, audit records and the fast path are made.

use std::sync::Arc;

use axum::Extension;
use axum::routing::MethodRouter;
pub use evenkeel_api::Content;
use evenkeel_api::{Documented, Endpoint, RequiredAccess, endpoint};
use http::Method;

use super::document::ServedDocument;
use super::pipeline::{Handler, Run, Typed};
use crate::Exchange;

/// One operation of the exchange.
pub type Operation = Endpoint<Carrier>;

/// Handler of an operation.
#[derive(Clone)]
pub struct Carrier(pub(crate) Kind);

#[derive(Clone)]
pub(crate) enum Kind {
    /// A handler behind credentials and the permission table.
    Typed(Arc<dyn Run>),
    /// A route that needs no credentials.
    Public(Box<MethodRouter<Exchange>>),
}

pub(crate) fn get<A: 'static, H: Handler<A>>(
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    operation(Method::GET, path, name, handler)
}

pub(crate) fn post<A: 'static, H: Handler<A>>(
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    operation(Method::POST, path, name, handler)
}

pub(crate) fn put<A: 'static, H: Handler<A>>(
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    operation(Method::PUT, path, name, handler)
}

pub(crate) fn patch<A: 'static, H: Handler<A>>(
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    operation(Method::PATCH, path, name, handler)
}

pub(crate) fn delete<A: 'static, H: Handler<A>>(
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    operation(Method::DELETE, path, name, handler)
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

fn operation<A: 'static, H: Handler<A>>(
    method: Method,
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    let access = RequiredAccess::Right(H::ACCESS.name());
    endpoint(method, path, name, access, Carrier(Kind::Typed(Arc::new(Typed::new(handler)))))
        .parameters(H::documented_parameters())
        .request(H::documented_body())
        .responses(H::documented_responses())
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
