//! The API of an exchange: its operations as a router, and their fast path.

use std::iter;
use std::ops::ControlFlow;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use evenkeel_api::Part;
use evenkeel_http_server::middleware::Client;
use futures_util::future::BoxFuture;

use crate::operation::document::ServedDocument;
use crate::operation::fast_path::FastPath;
use crate::operation::router::HttpApi;
use crate::{Exchange, openapi, routes};

impl Exchange {
    /// The router of the exchange: everything under `/v1`, and the document forms of HA groups also without it.
    pub fn router(&self) -> Router {
        self.router_beside(&[], Router::new())
    }

    /// The same behind what `others` route, which are asked first, with what `parts` describe in the document.
    pub fn router_beside(&self, parts: &[fn() -> Part], others: Router) -> Router {
        let own: fn() -> Part = openapi::part;
        let document = ServedDocument::new(&openapi::ABOUT, iter::once(own).chain(parts.iter().copied()));
        let api = HttpApi::new(self, &routes::all(), &document);
        others.fallback(move |request: Request| api.clone().respond(request))
    }

    /// Breaks off with the response to a request of the fast path, from the other end of a connection; all
    /// others pass to the router.
    pub fn fast_path(
        &self,
    ) -> impl Fn(Request, &Client) -> ControlFlow<BoxFuture<'static, Response>, Request> + Send + Sync + 'static
    {
        let (exchange, fast_path) = (self.clone(), FastPath::of(&routes::all()));
        move |request, client| fast_path.respond(&exchange, request, client)
    }
}
