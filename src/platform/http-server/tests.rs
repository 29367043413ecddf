//! Real sockets against a small router.

use std::ops::ControlFlow;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use futures_util::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::middleware::{Middleware, MiddlewareSettings};
use super::*;
use evenkeel_runtime::metrics::Metrics;

struct Running {
    address: SocketAddr,
    shutdown: CancellationToken,
    server: tokio::task::JoinHandle<()>,
    metrics: Metrics,
}

async fn start(handler: impl Into<RequestHandler>, limits: HttpLimits) -> Running {
    let listener = listen("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let metrics = Metrics::default();
    let server = HttpServer {
        listener,
        handler: handler.into(),
        limits,
        tls: None,
        metrics: HttpMetrics::new(&metrics),
    };
    let server = tokio::spawn(server.serve(shutdown.clone()));
    Running { address, shutdown, server, metrics }
}

/// Sends `text` and reads until the server closes the connection.
async fn converse(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    // A server that refuses may reset the connection; data sent before still counts.
    let _ = stream.read_to_end(&mut response).await;
    String::from_utf8(response).unwrap()
}

fn short_limits() -> HttpLimits {
    HttpLimits {
        header_time: Duration::from_millis(80),
        idle_time: Duration::from_millis(80),
        body_time: Duration::from_millis(80),
        drain_time: Duration::from_millis(80),
        ..HttpLimits::default()
    }
}

#[tokio::test]
async fn text_without_host_and_port_is_no_address() {
    for text in ["nonsense", "127.0.0.1", ":8080", "localhost:http", "localhost:70000"] {
        let found = listen(text).await;
        assert!(
            matches!(&found, Err(error) if error.exit_status() == ExitStatus::Usage),
            "{text}: {found:?}"
        );
    }
    assert!(has_host_and_port("[::1]:0") && has_host_and_port("localhost:8080"));
}

#[tokio::test]
async fn handler_sees_the_remote_address_and_the_response_carries_the_id() {
    let router = Router::new()
        .route("/", get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.ip().to_string() }));
    let running = start(router, HttpLimits::default()).await;
    let request = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-request-id: mine-1\r\n\r\n";
    let response = converse(running.address, request).await;
    assert!(
        response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\n127.0.0.1"),
        "{response}"
    );
    assert!(response.contains("x-request-id: mine-1\r\n"), "{response}");
    let response =
        converse(running.address, "GET /none HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    let id = response.split("x-request-id: ").nth(1).unwrap();
    assert!(id.as_bytes()[..16].iter().all(u8::is_ascii_hexdigit), "{response}");
    let text = running.metrics.render();
    assert!(text.contains("http_requests_total{class=\"2xx\"} 1\n"), "{text}");
    assert!(text.contains("http_requests_total{class=\"4xx\"} 1\n"), "{text}");
}

#[tokio::test]
async fn shortcut_handles_its_requests_and_the_router_all_others() {
    let router = Router::new().fallback(|headers: http::HeaderMap| async move {
        format!("slow path of {}", headers["x-request-id"].to_str().unwrap())
    });
    let shortcut = |request: http::Request<axum::body::Body>, client: &middleware::Client| {
        let address = client.address;
        if request.uri().path() == "/short" {
            ControlFlow::Break(async move { address.to_string().into_response() }.boxed())
        } else {
            ControlFlow::Continue(request)
        }
    };
    let running = start(RequestHandler::from(router).with_shortcut(shortcut), HttpLimits::default()).await;
    let ask = |path: &str| {
        let text =
            format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-request-id: mine-1\r\n\r\n");
        async move { converse(running.address, &text).await }
    };
    let short = ask("/short").await;
    assert!(short.contains("x-request-id: mine-1\r\n") && short.ends_with("\r\n\r\n127.0.0.1"), "{short}");
    let long = ask("/long").await;
    assert!(long.ends_with("\r\n\r\nslow path of mine-1"), "{long}");
}

#[tokio::test]
async fn head_that_does_not_arrive_ends_the_connection() {
    let running = start(Router::new(), short_limits()).await;
    assert_eq!(converse(running.address, "GET / HTTP/1.1\r\nhost:").await, "");
    assert_eq!(converse(running.address, "").await, "", "silence ends it too");
}

#[tokio::test]
async fn idle_connection_is_closed_after_its_response() {
    let running = start(Router::new().route("/", get(|| async { "hi" })), short_limits()).await;
    let response = converse(running.address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(response.ends_with("hi"), "{response}");
}

#[tokio::test]
async fn long_response_is_not_an_idle_connection() {
    let slow = || async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        "late"
    };
    let running = start(Router::new().route("/", get(slow)), short_limits()).await;
    let response = converse(running.address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(response.ends_with("late"), "{response}");
}

#[tokio::test]
async fn body_that_does_not_arrive_is_an_error() {
    let running =
        start(Router::new().route("/", post(|body: String| async move { body })), short_limits()).await;
    let request = "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 10\r\n\r\n123";
    let response = converse(running.address, request).await;
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
}

#[tokio::test]
async fn too_many_and_too_large_headers_are_refused() {
    let running = start(Router::new().route("/", get(|| async { "hi" })), HttpLimits::default()).await;
    let many = "x: y\r\n".repeat(200);
    let response = converse(running.address, &format!("GET / HTTP/1.1\r\nhost: x\r\n{many}\r\n")).await;
    assert!(response.starts_with("HTTP/1.1 431"), "{response}");
    let large = "y".repeat(100_000);
    let response =
        converse(running.address, &format!("GET / HTTP/1.1\r\nhost: x\r\nx: {large}\r\n\r\n")).await;
    assert!(response.starts_with("HTTP/1.1 431"), "{response}");
}

#[tokio::test]
async fn panic_in_a_handler_is_an_internal_error_and_nothing_more() {
    async fn panicking() -> &'static str {
        panic!("on purpose")
    }
    let running = start(Router::new().route("/", get(panicking)), HttpLimits::default()).await;
    let response = converse(running.address, "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 500") && response.ends_with("\r\n\r\n"), "{response}");
}

#[tokio::test]
async fn shutdown_lets_a_request_finish_and_cuts_one_that_never_does() {
    let entered = Arc::new(Notify::new());
    let release = Arc::new(Notify::new());
    let (enter, wait) = (entered.clone(), release.clone());
    let router = Router::new()
        .route(
            "/held",
            get(move || async move {
                enter.notify_one();
                wait.notified().await;
                "done"
            }),
        )
        .route("/never", get(std::future::pending::<&'static str>));
    let running =
        start(router, HttpLimits { drain_time: Duration::from_millis(500), ..HttpLimits::default() }).await;
    let held = tokio::spawn(converse(running.address, "GET /held HTTP/1.1\r\nhost: x\r\n\r\n"));
    let never = tokio::spawn(converse(running.address, "GET /never HTTP/1.1\r\nhost: x\r\n\r\n"));
    entered.notified().await;
    running.shutdown.cancel();
    release.notify_one();
    assert!(held.await.unwrap().ends_with("done"));
    assert_eq!(never.await.unwrap(), "");
    running.server.await.unwrap();
    assert!(TcpStream::connect(running.address).await.is_err(), "the listener is closed");
}

/// A parked poll must not outlive its client: it would keep its slot until its own timeout.
#[tokio::test]
async fn request_ends_as_soon_as_its_client_has_gone() {
    struct Ended(Arc<Notify>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let (entered, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (enter, end) = (entered.clone(), ended.clone());
    let parked = move |_body: String| {
        let (enter, ended) = (enter.clone(), Ended(end.clone()));
        async move {
            let _ended = ended;
            enter.notify_one();
            std::future::pending::<&'static str>().await
        }
    };
    let running = start(Router::new().route("/", post(parked)), HttpLimits::default()).await;
    for is_reset in [false, true] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
        entered.notified().await;
        if is_reset {
            stream.set_zero_linger().unwrap();
        }
        drop(stream);
        let ended = tokio::time::timeout(Duration::from_secs(1), ended.notified()).await;
        assert!(ended.is_ok(), "reset: {is_reset}");
    }
}

/// More than the default backlog of 128 connections.
#[tokio::test]
async fn concurrent_connections_get_slots() {
    let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let crowd = allowed.trim().parse::<usize>().unwrap().min(300);
    let listener = listen("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // The listener accepts nothing. A client without a backlog slot waits for more than a second.
    let mut waiting = Vec::new();
    for _ in 0..crowd {
        let connected = tokio::time::timeout(Duration::from_millis(900), TcpStream::connect(address)).await;
        waiting.push(connected.expect("a place").unwrap());
    }
    assert_eq!(waiting.len(), crowd);
}

#[tokio::test]
async fn taken_port_is_a_clear_error() {
    let first = listen("127.0.0.1:0").await.unwrap();
    let address = first.local_addr().unwrap().to_string();
    let error = listen(&address).await.unwrap_err();
    assert_eq!(error.to_string(), format!("the address {address} is taken by another process"));
}

/// Sends pieces with pauses until the server closes the connection, and returns its output.
async fn trickle(address: SocketAddr, start: &str, piece: &str) -> String {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    writer.write_all(start.as_bytes()).await.unwrap();
    let piece = piece.to_owned();
    let sender = tokio::spawn(async move {
        // An error is the end of the connection.
        while writer.write_all(piece.as_bytes()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let mut response = Vec::new();
    let read = reader.read_to_end(&mut response);
    // Data sent before a reset counts; a connection that stays open is the failure.
    let _ = tokio::time::timeout(Duration::from_secs(20), read).await.expect("the connection ends");
    sender.abort();
    String::from_utf8(response).unwrap()
}

#[tokio::test]
async fn head_that_trickles_in_does_not_hold_its_connection() {
    let running = start(Router::new().route("/", get(|| async { "hi" })), short_limits()).await;
    let response = trickle(running.address, "GET / HTTP/1.1\r\nhost: x\r\n", "x: y\r\n").await;
    assert!(!response.contains("200"), "{response}");
}

#[tokio::test]
async fn body_that_trickles_in_does_not_hold_its_connection() {
    let router = Router::new().route("/", post(|body: String| async move { body }));
    let running = start(router, short_limits()).await;
    let head = "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 1000000\r\n\r\n";
    let response = trickle(running.address, head, "z").await;
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
}

#[tokio::test]
async fn body_without_memory_is_refused_and_small_ones_pass() {
    let router = Router::new().route("/", post(|body: String| async move { body.len().to_string() }));
    let middleware =
        Middleware::new(MiddlewareSettings { body_memory: 50_000, ..MiddlewareSettings::default() });
    let running = start(RequestHandler::from(router).behind(middleware), HttpLimits::default()).await;
    let send = async |bytes: usize| {
        let head =
            format!("POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {bytes}\r\n\r\n");
        converse(running.address, &(head + &"z".repeat(bytes))).await
    };
    let refused = send(100_000).await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after: 1"), "{refused}");
    assert!(send(60_000).await.ends_with("60000"), "what was refused holds nothing");
    assert!(send(1_000).await.ends_with("1000"));
}

#[tokio::test]
async fn large_responses_that_are_not_read_leave_no_memory_for_more() {
    let router = Router::new()
        .route("/large", get(|| async { vec![b'x'; 8_000_000] }))
        .route("/small", get(|| async { "small" }));
    let settings = MiddlewareSettings { response_memory: 20_000_000, ..MiddlewareSettings::default() };
    let handler = RequestHandler::from(router).behind(Middleware::new(settings));
    let running = start(handler, HttpLimits::default()).await;
    let request = "GET /large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let mut unread = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).await.unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200");
        unread.push(stream);
    }
    let refused = converse(running.address, request).await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after: 1"), "{refused:.200}");
    let small = converse(running.address, &request.replace("large", "small")).await;
    assert!(small.ends_with("small"), "{small}");
    drop(unread);
    let again = tokio::time::timeout(Duration::from_secs(20), async {
        while !converse(running.address, request).await.starts_with("HTTP/1.1 200") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(again.await.is_ok(), "the memory of responses whose clients are gone is free");
}

#[tokio::test]
async fn client_that_does_not_read_is_cut_off() {
    struct NotifyOnDrop(Arc<Notify>);
    impl Drop for NotifyOnDrop {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let ended = Arc::new(Notify::new());
    let notify = ended.clone();
    let endless = move || {
        let guard = NotifyOnDrop(notify.clone());
        async move {
            let pieces = futures_util::stream::repeat_with(move || {
                let _held_as_long_as_the_response = &guard;
                Ok::<_, std::convert::Infallible>(vec![b'x'; 65_536])
            });
            axum::body::Body::from_stream(pieces)
        }
    };
    let limits = HttpLimits { stall_time: Duration::from_millis(80), ..HttpLimits::default() };
    let running = start(Router::new().route("/", get(endless)), limits).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let cut = tokio::time::timeout(Duration::from_secs(20), ended.notified()).await;
    assert!(cut.is_ok(), "the response goes on although nobody reads it");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_a_place() {
    let limits = HttpLimits { connection_count: 1, ..HttpLimits::default() };
    let router = Router::new().route(
        "/",
        get(|axum::Extension(client): axum::Extension<middleware::Client>| async move {
            client.note_login();
            "hi"
        }),
    );
    let running = start(router, limits).await;
    let mut first = TcpStream::connect(running.address).await.unwrap();
    first.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut response = [0; 12];
    first.read_exact(&mut response).await.unwrap();
    assert_eq!(&response, b"HTTP/1.1 200");
    let address = running.address;
    let second = tokio::spawn(async move {
        converse(address, "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await
    });
    let early = tokio::time::timeout(Duration::from_millis(200), async {
        while !second.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(early.await.is_err(), "the second was served beside the first");
    drop(first);
    let response = tokio::time::timeout(Duration::from_secs(20), second).await.expect("its turn").unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
}

#[tokio::test]
async fn connection_without_a_login_is_closed_sooner_than_one_with_it() {
    let router = Router::new().route(
        "/",
        get(|axum::Extension(client): axum::Extension<middleware::Client>, headers: http::HeaderMap| async move {
            if headers.contains_key("authorization") {
                client.note_login();
            }
            "hi"
        }),
    );
    let limits = HttpLimits { anonymous_idle_time: Duration::from_millis(80), ..HttpLimits::default() };
    let running = start(router, limits).await;
    assert_eq!(converse(running.address, "").await, "", "silence");
    let anonymous = converse(running.address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(anonymous.ends_with("hi"), "{anonymous}");
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nauthorization: x\r\n\r\n").await.unwrap();
    let mut begin = [0; 1024];
    assert!(stream.read(&mut begin).await.unwrap() > 0);
    let closed = tokio::time::timeout(Duration::from_millis(400), stream.read(&mut begin)).await;
    assert!(closed.is_err(), "it stays open");
}

#[tokio::test]
async fn full_listener_makes_room_by_closing_connections_without_a_login() {
    let router = Router::new().route("/", get(|| async { "hi" }));
    let running = start(router, HttpLimits { connection_count: 3, ..HttpLimits::default() }).await;
    let mut idle = Vec::new();
    for _ in 0..3 {
        idle.push(TcpStream::connect(running.address).await.unwrap());
    }
    let response = converse(running.address, "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(response.ends_with("hi"), "{response}");
    let mut byte = [0; 1];
    assert_eq!(idle[0].read(&mut byte).await.unwrap_or_default(), 0, "the oldest was closed");
}
