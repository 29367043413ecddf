//! The fast path of what every agent sends all the time: change polls and heartbeats get to their handlers without a router.
//!
//! Finding them among all routes would cost more than executing them. Requests that are not plain take the
//! router, which ends in the same functions and reports errors.

use std::ops::ControlFlow;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use evenkeel_api::{MAX_ID, PREFIX, PathValues, Positions, Run};
use evenkeel_http_server::middleware::Client;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::Method;

use super::negotiation::Accepted;
use super::pipeline::{ExchangeRequest, received};
use super::router::{finished, unpanicked};
use super::row::{Kind, Operation};
use crate::auth::Authenticated;
use crate::{ApiError, Exchange, auth};

/// The operations of the fast path.
pub(crate) struct FastPath(Vec<Route>);

struct Route {
    method: Method,
    /// The segments of the path below the prefix; `None` for a parameter.
    segments: Vec<Option<&'static str>>,
    handler: Arc<dyn Run<ExchangeRequest>>,
}

impl FastPath {
    /// The operations whose rows ask for it.
    pub(crate) fn of(operations: &[Operation]) -> FastPath {
        FastPath(operations.iter().filter(|operation| operation.is_fast).filter_map(Route::of).collect())
    }

    /// Breaks off with the response to a request of the fast path, from the other end of a connection; all
    /// others pass to the router.
    pub(crate) fn respond(
        &self,
        exchange: &Exchange,
        request: Request,
        client: &Client,
    ) -> ControlFlow<BoxFuture<'static, Response>, Request> {
        match self.find(request.method(), request.uri().path()) {
            Some((handler, values)) => ControlFlow::Break(
                respond(handler.clone(), exchange.clone(), request, values, client.clone()).boxed(),
            ),
            None => ControlFlow::Continue(request),
        }
    }

    /// The operation that a request asks for, with the parameters in its path.
    fn find(&self, method: &Method, path: &str) -> Option<(&Arc<dyn Run<ExchangeRequest>>, Positions)> {
        let mut found = self.0.iter().filter(|route| route.method == *method);
        found.find_map(|route| Some((&route.handler, route.values(path)?)))
    }
}

impl Route {
    fn of(operation: &Operation) -> Option<Route> {
        let Kind::Typed(handler) = &operation.handler().0 else { return None };
        let path = operation.paths.first()?.strip_prefix('/')?;
        let name = |segment: &'static str| (!segment.starts_with('{')).then_some(segment);
        let segments = path.split('/').map(name).collect();
        Some(Route { method: operation.method.clone(), segments, handler: handler.clone() })
    }

    fn values(&self, path: &str) -> Option<Positions> {
        let mut values = Positions::default();
        let mut free = values.0.iter_mut();
        let mut segments = path.strip_prefix(PREFIX)?.strip_prefix('/')?.split('/');
        let mut start = PREFIX.len() + 1;
        for wanted in &self.segments {
            let segment = segments.next()?;
            match wanted {
                Some(wanted) if segment == *wanted => {}
                Some(_) => return None,
                None => *free.next()? = is_plain(segment).then(|| start..start + segment.len()),
            }
            start += segment.len() + 1;
        }
        let wanted_count = self.segments.iter().filter(|segment| segment.is_none()).count();
        let is_found = segments.next().is_none() && values.0.iter().flatten().count() == wanted_count;
        is_found.then_some(values)
    }
}

fn respond(
    handler: Arc<dyn Run<ExchangeRequest>>,
    exchange: Exchange,
    request: Request,
    values: Positions,
    client: Client,
) -> impl Future<Output = Response> + Send {
    let challenge = exchange.challenge();
    let response = async move {
        let accepted = Accepted::of(&request)?;
        let Authenticated { caller, login, .. } =
            auth::authenticate(&exchange, request.headers(), Some(&client)).await?;
        let path = PathValues::Plain(values);
        let call = received(handler.body(), exchange, (caller, login), path, request).await?;
        let response = handler.run(call).await?;
        Ok(accepted.check(response))
    };
    let response = response.map(|response: Result<Response, ApiError>| response.into_response());
    unpanicked(response).map(move |response| finished(response, false, challenge))
}

/// Returns true if a name stands unescaped in a path.
fn is_plain(name: &str) -> bool {
    (1..=MAX_ID).contains(&name.len()) && !name.contains('%') && !matches!(name, "." | "..")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use evenkeel_api::{Handler, Op, carry_out};

    use super::*;
    use crate::routes;
    use crate::routes::changes::poll_changes;
    use crate::routes::node::heartbeat::heartbeat_node;

    #[test]
    fn what_every_request_allocates_is_small() {
        fn outer<F: Future>(
            _: impl Fn(Arc<dyn Run<ExchangeRequest>>, Exchange, Request, Positions, Client) -> F,
        ) -> usize {
            size_of::<F>()
        }
        fn inner<T, H: Handler<ExchangeRequest, T>, F: Future>(
            _: H,
            _: impl Fn(H, Op<ExchangeRequest, H::Path, H::Parameters>, Result<Bytes, ApiError>) -> F,
        ) -> usize {
            size_of::<F>()
        }
        let sizes = [outer(respond), inner(poll_changes, carry_out), inner(heartbeat_node, carry_out)];
        for size in sizes {
            assert!(size <= 1_024, "{size} bytes: above 1,032 glibc does not keep what was freed at hand");
        }
    }

    fn values<'p>(method: &Method, path: &'p str) -> Option<Vec<&'p str>> {
        let fast_path = FastPath::of(&routes::all());
        fast_path.find(method, path).map(|(_, values)| values.of(path).collect())
    }

    #[test]
    fn polls_and_heartbeats_are_found() {
        assert_eq!(values(&Method::POST, "/v1/orgs/o/changes"), Some(vec!["o"]));
        assert_eq!(values(&Method::POST, "/v1/orgs/o/nodes/n:1/heartbeat"), Some(vec!["o", "n:1"]));
    }

    #[test]
    fn everything_else_takes_the_router() {
        let long = "x".repeat(MAX_ID + 1);
        for path in [
            "/v1/orgs/o/changes/",
            "/v1/orgs//changes",
            "/v1/orgs/../changes",
            "/v1/orgs/o/nodes/./heartbeat",
            "/v1/orgs/a%2Fb/changes",
            "/v1/orgs/o/changes/cleanup",
            "/v1/orgs/o/nodes/n%00/heartbeat",
            "/v1/orgs/o/nodes/n",
            "/v1/orgs/o/nodes/n/heartbeat/x",
            "/v1/orgs/o/agbots/a/heartbeat",
            "/orgs/o/changes",
            "/v1/orgs",
            &format!("/v1/orgs/{long}/changes"),
        ] {
            assert_eq!(values(&Method::POST, path), None, "{path}");
        }
        assert_eq!(values(&Method::GET, "/v1/orgs/o/changes"), None);
    }
}
