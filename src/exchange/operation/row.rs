//! Rows of the table of operations, from which router, API document, access table, audit records and the fast path are made.

use std::sync::Arc;

use axum::routing::MethodRouter;
pub use evenkeel_api::Content;
use evenkeel_api::{Endpoint, endpoint};
use http::Method;

use super::pipeline::{Handler, Run, Typed};
use crate::Exchange;

/// One operation of the exchange.
pub type Operation = Endpoint<Carrier>;

/// What carries an operation out.
#[derive(Clone)]
pub struct Carrier(pub(crate) Kind);

#[derive(Clone)]
pub(crate) enum Kind {
    /// A handler behind credentials and the permission table.
    Typed(Arc<dyn Run>),
    /// A route that needs no credentials.
    Public(Box<MethodRouter<Exchange>>),
}

/// A GET.
pub(crate) fn get<A: 'static, H: Handler<A>>(
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    operation(Method::GET, path, name, handler)
}

/// A POST.
pub(crate) fn post<A: 'static, H: Handler<A>>(
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    operation(Method::POST, path, name, handler)
}

/// A PUT.
pub(crate) fn put<A: 'static, H: Handler<A>>(
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    operation(Method::PUT, path, name, handler)
}

/// A PATCH.
pub(crate) fn patch<A: 'static, H: Handler<A>>(
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    operation(Method::PATCH, path, name, handler)
}

/// A DELETE.
pub(crate) fn delete<A: 'static, H: Handler<A>>(
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    operation(Method::DELETE, path, name, handler)
}

/// A GET without credentials.
pub(crate) fn get_public(
    path: &'static str,
    name: &'static str,
    handler: MethodRouter<Exchange>,
) -> Operation {
    endpoint(Method::GET, path, name, Carrier(Kind::Public(Box::new(handler)))).public()
}

fn operation<A: 'static, H: Handler<A>>(
    method: Method,
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    endpoint(method, path, name, Carrier(Kind::Typed(Arc::new(Typed::new(handler)))))
        .parameters(H::documented_parameters())
        .request(H::documented_body())
}
