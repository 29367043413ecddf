//! The short way of what every agent sends all the time: polls and heartbeats get to their handlers without a router.
//!
//! Finding them among all routes would cost more than answering them. Whatever is not plain goes the long way, which ends in the same
//! functions and says what is wrong.

use std::net::SocketAddr;
use std::ops::ControlFlow;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use evenkeel_api::{MAX_ID, PREFIX};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Method, header};

use crate::extract::{Body, CurrentCaller, Path};
use crate::front::{finished, received, unpanicked};
use crate::routes::changes::{WantedWait, poll_changes};
use crate::routes::node::heartbeat::heartbeat_node;
use crate::{ApiError, Exchange, auth};

/// An operation that needs no router.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shortcut {
    /// A poll of the change feed of an organization.
    PollChanges(String),
    /// A heartbeat of a node, by organization and id.
    HeartbeatNode(String, String),
}

impl Shortcut {
    /// The operation that a request asks for, if it has a short way.
    pub(crate) fn of(method: &Method, path: &str) -> Option<Shortcut> {
        if method != Method::POST {
            return None;
        }
        let mut segments = path.strip_prefix(PREFIX)?.strip_prefix("/orgs/")?.split('/');
        let org = plain(segments.next()?)?;
        let found = match (segments.next()?, segments.next(), segments.next()) {
            ("changes", None, None) => Shortcut::PollChanges(org.to_owned()),
            ("nodes", Some(node), Some("heartbeat")) => {
                Shortcut::HeartbeatNode(org.to_owned(), plain(node)?.to_owned())
            }
            _ => return None,
        };
        segments.next().is_none().then_some(found)
    }
}

impl Exchange {
    /// Breaks off with the answer to a request that has a short way, from the other end of a connection; all others go on to the router.
    pub fn shortcut(
        &self,
    ) -> impl Fn(Request, SocketAddr) -> ControlFlow<BoxFuture<'static, Response>, Request> + Send + Sync + 'static
    {
        let exchange = self.clone();
        move |request, peer| match Shortcut::of(request.method(), request.uri().path()) {
            Some(shortcut) => ControlFlow::Break(answered(shortcut, exchange.clone(), request, peer).boxed()),
            None => ControlFlow::Continue(request),
        }
    }
}

// No async functions: they would keep the request twice, and what every request allocates would be too large for the allocator's fast way.
fn answered(
    shortcut: Shortcut,
    exchange: Exchange,
    request: Request,
    peer: SocketAddr,
) -> impl Future<Output = Response> + Send {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let address = Some(exchange.trusted_proxies().client_behind(peer, request.headers()));
    let challenge = exchange.challenge();
    let answer = async move {
        let accepted = received(&exchange, &request, address)?;
        let caller = auth::authenticate(&exchange, request.headers(), address).await?;
        let caller = CurrentCaller(caller);
        let response = match shortcut {
            Shortcut::PollChanges(org) => {
                let wait = WantedWait::of(request.headers());
                let body = Body::of(request, &exchange).await;
                poll_changes(State(exchange), caller, Path(org), wait, body).await?
            }
            Shortcut::HeartbeatNode(org, node) => {
                heartbeat_node(State(exchange), caller, Path((org, node))).await?
            }
        };
        Ok(accepted.check(response))
    };
    let answer = answer.map(|answer: Result<Response, ApiError>| answer.into_response());
    unpanicked(answer).map(move |response| finished(response, false, origin, challenge))
}

/// A name that stands in a path as it is.
fn plain(name: &str) -> Option<&str> {
    let is_plain = (1..=MAX_ID).contains(&name.len()) && !name.contains('%') && !matches!(name, "." | "..");
    is_plain.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_request_allocates_is_small() {
        fn size<F: Future>(_: impl Fn(Shortcut, Exchange, Request, SocketAddr) -> F) -> usize {
            size_of::<F>()
        }
        let size = size(answered);
        assert!(size <= 1_024, "{size} bytes: above 1,032 glibc does not keep what was freed at hand");
    }

    fn post(path: &str) -> Option<Shortcut> {
        Shortcut::of(&Method::POST, path)
    }

    #[test]
    fn polls_and_signs_of_life_are_found() {
        assert_eq!(post("/v1/orgs/o/changes"), Some(Shortcut::PollChanges("o".to_owned())));
        let beat = Shortcut::HeartbeatNode("o".to_owned(), "n:1".to_owned());
        assert_eq!(post("/v1/orgs/o/nodes/n:1/heartbeat"), Some(beat));
    }

    #[test]
    fn everything_else_goes_the_long_way() {
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
            assert_eq!(post(path), None, "{path}");
        }
        assert_eq!(Shortcut::of(&Method::GET, "/v1/orgs/o/changes"), None);
    }
}
