//! Misbehaving servers: responses are bounded, and redirects are not followed.

use std::time::Instant;

use evenkeel_wire::exchange::task_health::TaskProbe;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const LIMIT: Duration = Duration::from_secs(1);

/// Starts a server that does this with every connection, and returns its URL.
async fn server<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> String
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve(connection));
        }
    });
    url
}

/// Reads a request and writes the beginning of a response.
async fn begin(connection: &mut TcpStream, head: &str) -> std::io::Result<()> {
    let mut request = [0; 4096];
    let _read = connection.read(&mut request).await?;
    connection.write_all(format!("HTTP/1.1 {head}\r\n\r\n").as_bytes()).await
}

fn client(rule: AddressRule) -> ProbeClient {
    ProbeClient::new(rule, None).expect("a client")
}

/// Sends a body without an end.
async fn endless(mut connection: TcpStream) -> std::io::Result<()> {
    begin(&mut connection, "200 OK").await?;
    loop {
        connection.write_all(&[b'a'; 8192]).await?;
    }
}

#[tokio::test]
async fn only_the_beginning_of_an_endless_response_is_read() {
    let url = server(endless).await;
    let (status, body) = client(AddressRule::Any).get(&url, true, LIMIT * 10).await.expect("a body");
    assert_eq!(status, 200);
    assert_eq!(body.len(), LARGEST_BODY);
    let posted = client(AddressRule::Any).post(&url, "c1", &json!({}), LIMIT * 10).await;
    assert_eq!(posted, Ok(()), "the response of a workflow is not read at all");
}

#[tokio::test]
async fn response_that_comes_too_slowly_is_an_error_in_time() {
    let dripping = server(async |mut connection: TcpStream| {
        begin(&mut connection, "200 OK").await?;
        loop {
            connection.write_all(b"a").await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let silent = server(async |_connection: TcpStream| std::future::pending().await);
    for url in [dripping.await, silent.await] {
        let begin = Instant::now();
        client(AddressRule::Any).get(&url, true, LIMIT).await.expect_err("it does not end");
        assert!(begin.elapsed() < LIMIT * 3, "{:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let target = server(endless).await;
    let url = server(move |mut connection: TcpStream| {
        let head = format!("302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\nConnection: close");
        async move { begin(&mut connection, &head).await }
    })
    .await;
    assert_eq!(client(AddressRule::Any).get(&url, true, LIMIT).await, Ok((302, String::new())));
    let refused = client(AddressRule::Any).post(&url, "c1", &json!({}), LIMIT).await;
    assert_eq!(refused, Err("the response has status 302".to_owned()));
}

#[tokio::test]
async fn hub_reaches_neither_its_machine_by_address_nor_by_name() {
    let url = server(endless).await;
    let port = Url::parse(&url).expect("a URL").port().unwrap_or_default();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        let url = format!("http://{host}:{port}/");
        let refused = client(AddressRule::public(AllowedAddresses::default()))
            .get(&url, true, LIMIT)
            .await
            .unwrap_err();
        assert!(refused.to_string().contains("loopback"), "{host}: {refused}");
        let healthy_response = "ok".to_owned();
        let probe =
            TaskProbe { url, healthy_response, connection_error_is_unhealthy: true, ..TaskProbe::default() };
        let broken = client(AddressRule::public(AllowedAddresses::default())).check(&probe, "n", None).await;
        assert!(broken.is_err_and(|why| why.contains("loopback")), "{host}: a check of it is broken");
    }
}

#[tokio::test]
async fn check_is_broken_when_nobody_can_be_asked_and_failed_when_nobody_responds() {
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    let probe = |url: &str| TaskProbe {
        url: url.to_owned(),
        healthy_response: "ok".to_owned(),
        connection_error_is_unhealthy: true,
        ..TaskProbe::default()
    };
    for url in ["http://no-such-name.invalid/h", "http://{nodename}:99999/h", "http://{nodeip}/h"] {
        let broken = client(AddressRule::Any).check(&probe(url), "no such node", None).await;
        assert!(broken.is_err(), "{url}: {broken:?}");
    }
    let failed = client(AddressRule::Any).check(&probe(&format!("http://{closed}/h")), "n", None).await;
    assert_eq!(failed.map(|check| check.found()), Ok(Some(false)));
}

#[tokio::test]
async fn attempt_takes_as_long_as_its_timeout_allows() {
    let url = server(async |mut connection: TcpStream| {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        begin(&mut connection, "200 OK\r\nContent-Length: 2\r\nConnection: close").await?;
        connection.write_all(b"ok").await
    })
    .await;
    for (timeout_seconds, is_healthy) in [(5, true), (1, false)] {
        let probe = TaskProbe {
            url: url.clone(),
            healthy_response: "ok".to_owned(),
            connection_error_is_unhealthy: true,
            timeout_seconds,
            ..TaskProbe::default()
        };
        let found = client(AddressRule::Any).check(&probe, "n", None).await;
        assert_eq!(found.map(|check| check.healthy), Ok(is_healthy), "{timeout_seconds}");
    }
}

#[tokio::test]
async fn result_of_a_check_shows_nothing_of_the_body() {
    let url = server(async |mut connection: TcpStream| {
        begin(&mut connection, "403 Forbidden\r\nConnection: close").await?;
        connection.write_all(b"s3cret").await
    })
    .await;
    let probe = TaskProbe { url, healthy_response: "fine".to_owned(), ..TaskProbe::default() };
    let result = client(AddressRule::Any).check(&probe, "n", None).await.expect("a check");
    let message = result.message.expect("why it is not healthy");
    assert!(!result.healthy && message.contains("status 403") && message.contains("fine"), "{message}");
    assert!(!message.contains("s3cret"), "{message}");
}
