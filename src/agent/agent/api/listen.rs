//! The address of the local API, and the requests that it accepts.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use evenkeel_runtime::browser::{self, is_from_other_origin};
use tokio::{net::TcpListener, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{AgentError, ApiListen, USUAL_API};

/// Longest wait for requests in flight.
const LAST_REQUESTS: std::time::Duration = std::time::Duration::from_secs(2);

/// Serves the local API until `stop`.
///
/// If another agent of the machine already uses the default address, this agent continues without the API, unless it
/// can be registered in no other way.
///
/// # Errors
/// [`AgentError::Listen`] when the address cannot be used.
pub(crate) async fn start(
    (listen, hosts): (ApiListen, &[String]),
    is_registered: bool,
    router: Router,
    stop: CancellationToken,
) -> Result<Option<JoinHandle<()>>, AgentError> {
    let address = match listen {
        ApiListen::Off => return Ok(None),
        ApiListen::Usual => USUAL_API,
        ApiListen::At(address) => address,
    };
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) if listen == ApiListen::Usual && is_registered => {
            tracing::warn!(
                %address,
                %error,
                "local API is not available, `hzn` cannot reach this agent: another agent probably listens there; choose \
                 another address with --api-listen HOST:PORT and HORIZON_URL, or turn it off with --api-listen off"
            );
            return Ok(None);
        }
        Err(error) => return Err(AgentError::Listen { address, reason: error.to_string() }),
    };
    tracing::info!(%address, "local API is available");
    if !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "the local API, which needs no credentials and has no TLS, listens beyond this machine: anyone who reaches it controls the node"
        );
    }
    let hosts = Arc::new(Hosts::new(address, hosts));
    let router = router.layer(middleware::from_fn_with_state(hosts, check));
    Ok(Some(tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
        {
            tracing::error!(%error, "the local API ended");
        }
    })))
}

/// Waits until the address is free again, after `stop`.
pub(crate) async fn end(api: Option<JoinHandle<()>>) {
    let Some(api) = api else { return };
    let handle = api.abort_handle();
    if timeout(LAST_REQUESTS, api).await.is_err() {
        handle.abort();
    }
}

/// Content types of bodies. A page of another site could send the others without a preflight request.
const CONTENT_TYPES: [&str; 3] = ["application/json", "application/octet-stream", "application/x-pem-file"];

/// Accepts only requests from a program of this machine, or from a page that the agent itself has served.
///
/// The API needs no credentials. A browser of the machine can reach it for any page that it shows, including one whose
/// name resolves to this machine; such pages must not use it.
async fn check(State(hosts): State<Arc<Hosts>>, request: Request, next: Next) -> Response {
    let refuse = |status: StatusCode, text: &str| (status, text.to_owned()).into_response();
    if !hosts.contains(&request) {
        return refuse(
            StatusCode::FORBIDDEN,
            "the local API is for programs on this machine; --api-hosts names other hosts under which it may be reached",
        );
    }
    if is_from_other_origin(&request) {
        return refuse(StatusCode::FORBIDDEN, "the local API is not for pages of other sites");
    }
    if !has_usable_type(request.headers()) {
        return refuse(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the Content-Type of a body must be application/json",
        );
    }
    next.run(request).await
}

/// Returns whether a body may have this content type. The reference's command line sends some bodies without one.
fn has_usable_type(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONTENT_TYPE).iter().all(|value| {
        let essence = value.to_str().ok().and_then(|value| value.split(';').next()).unwrap_or_default();
        CONTENT_TYPES.iter().any(|usable| essence.trim().eq_ignore_ascii_case(usable))
    })
}

/// The hosts that requests may be for.
#[derive(Debug)]
struct Hosts {
    /// True if the listener has a loopback address.
    is_loopback: bool,
    /// Further names, in lower case.
    names: Vec<String>,
}

impl Hosts {
    fn new(address: SocketAddr, names: &[String]) -> Self {
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { is_loopback: address.ip().is_loopback(), names }
    }

    fn contains<B>(&self, request: &axum::http::Request<B>) -> bool {
        let name = host_name(browser::host(request)).to_ascii_lowercase();
        if request.headers().get_all(header::HOST).iter().count() > 1 {
            return false;
        }
        if name.is_empty() || name == "localhost" || self.names.contains(&name) {
            return true;
        }
        // Unlike a name, an address cannot be made to refer to another machine.
        name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback() || !self.is_loopback)
    }
}

/// Returns a host without its port and without brackets.
fn host_name(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of a request to a listener at `address`.
    async fn status(address: &str, method: &str, headers: &[(&str, &str)]) -> u16 {
        let hosts = Hosts::new(address.parse().unwrap(), &["Agent.example".to_owned()]);
        let handler = axum::routing::any(|| async { "" });
        let router = Router::new().route("/node/policy", handler);
        let router = router.layer(middleware::from_fn_with_state(Arc::new(hosts), check));
        let mut request = axum::http::Request::builder().method(method).uri("/node/policy");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(axum::body::Body::from("{}")).unwrap();
        tower::ServiceExt::oneshot(router, request).await.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn only_hosts_of_this_machine_and_configured_ones_are_served() {
        let local = [
            "localhost",
            "LocalHost:8510",
            "127.0.0.1:8510",
            "[::1]:8510",
            "127.8.0.1",
            "agent.example:8510",
        ];
        for host in local {
            assert_eq!(status("127.0.0.1:8510", "GET", &[("host", host)]).await, 200, "{host}");
            assert_eq!(status("0.0.0.0:8510", "GET", &[("host", host)]).await, 200, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8510",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "\u{e9}",
        ] {
            assert_eq!(status("127.0.0.1:8510", "GET", &[("host", host)]).await, 403, "{host}");
            assert_eq!(status("0.0.0.0:8510", "GET", &[("host", host)]).await, 403, "{host}");
        }
        assert_eq!(status("127.0.0.1:8510", "GET", &[("host", "10.0.0.1:8510")]).await, 403);
        assert_eq!(status("0.0.0.0:8510", "GET", &[("host", "10.0.0.1:8510")]).await, 200);
        let both = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(status("127.0.0.1:8510", "GET", &both).await, 403);
    }

    #[tokio::test]
    async fn pages_of_other_sites_are_refused_whatever_they_send() {
        let host = ("host", "localhost:8510");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            for header in [
                ("origin", "https://evil.example"),
                ("origin", "null"),
                ("origin", "http://localhost:3000"),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-site", "same-site"),
            ] {
                assert_eq!(
                    status("127.0.0.1:8510", method, &[host, header]).await,
                    403,
                    "{method} {header:?}"
                );
            }
            let own = [host, ("origin", "http://localhost:8510"), ("sec-fetch-site", "same-origin")];
            assert_eq!(status("127.0.0.1:8510", method, &own).await, 200, "{method}");
        }
    }

    #[tokio::test]
    async fn bodies_that_a_form_can_send_are_refused_and_those_of_command_lines_are_not() {
        let host = ("host", "localhost:8510");
        for kind in [
            "text/plain",
            "text/plain;charset=UTF-8",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
        ] {
            assert_eq!(
                status("127.0.0.1:8510", "POST", &[host, ("content-type", kind)]).await,
                415,
                "{kind}"
            );
        }
        for kind in ["application/json", "Application/JSON; charset=utf-8", "application/x-pem-file"] {
            assert_eq!(status("127.0.0.1:8510", "PUT", &[host, ("content-type", kind)]).await, 200, "{kind}");
        }
        assert_eq!(status("127.0.0.1:8510", "POST", &[host]).await, 200);
    }

    #[tokio::test]
    async fn agent_whose_usual_port_is_taken_goes_on_when_it_is_registered() {
        // The port is in use, possibly by an agent of this machine.
        let _holder = TcpListener::bind(USUAL_API).await;
        let stop = CancellationToken::new();
        let _ended = stop.clone().drop_guard();
        let start = |listen, is_registered| start((listen, &[]), is_registered, Router::new(), stop.clone());
        assert!(start(ApiListen::Usual, true).await.is_ok());
        assert!(matches!(start(ApiListen::Usual, false).await, Err(AgentError::Listen { .. })));
        assert!(matches!(start(ApiListen::At(USUAL_API), true).await, Err(AgentError::Listen { .. })));
        assert!(start(ApiListen::Off, false).await.is_ok());
    }
}
