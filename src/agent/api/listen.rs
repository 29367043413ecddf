//! The address of the local API, and the requests that it accepts.

use std::net::SocketAddr;

use axum::{
    Router,
    extract::Request,
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use tokio::{net::TcpListener, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{AgentError, ApiListen, USUAL_API};

/// Longest wait for requests in flight.
const LAST_REQUESTS: std::time::Duration = std::time::Duration::from_secs(2);

/// Starts to serve the local API until `stop`.
///
/// Another agent of the machine may already use the default address; this one then continues without the API, unless it can
/// be registered in no other way.
///
/// # Errors
/// [`AgentError::Listen`] when the address cannot be used.
pub(crate) async fn start(
    listen: ApiListen,
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
    let router = router.layer(middleware::from_fn(move |request, next| check_host(address, request, next)));
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

/// Refuses requests for another host on a loopback address: they come from a web page whose name resolves to this machine.
async fn check_host(address: SocketAddr, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if address.ip().is_loopback() && !is_local(host) {
        return (StatusCode::FORBIDDEN, "the local API is for programs on this machine").into_response();
    }
    next.run(request).await
}

fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.is_empty()
        || name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_local() {
        for host in ["localhost", "LocalHost:8510", "127.0.0.1:8510", "[::1]:8510", "127.8.0.1", "[::1]"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["evil.example", "evil.example:8510", "10.0.0.1:8510", "localhost.evil.example"] {
            assert!(!is_local(host), "{host}");
        }
    }

    #[tokio::test]
    async fn agent_whose_usual_port_is_taken_goes_on_when_it_is_registered() {
        // The port is in use, possibly by an agent of this machine.
        let _holder = TcpListener::bind(USUAL_API).await;
        let stop = CancellationToken::new();
        let _ended = stop.clone().drop_guard();
        let start = |listen, is_registered| start(listen, is_registered, Router::new(), stop.clone());
        assert!(start(ApiListen::Usual, true).await.is_ok());
        assert!(matches!(start(ApiListen::Usual, false).await, Err(AgentError::Listen { .. })));
        assert!(matches!(start(ApiListen::At(USUAL_API), true).await, Err(AgentError::Listen { .. })));
        assert!(start(ApiListen::Off, false).await.is_ok());
    }
}
