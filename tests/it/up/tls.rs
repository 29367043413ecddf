//! TLS on both listeners of a hub: own files, both protocols, and a new certificate while connections are open.

use evenkeel_http_server::tls::Authority;
use jiff::Timestamp;
use nix::sys::signal::Signal;
use reqwest::{Client, ClientBuilder, Version};

use crate::support::wait::must;
use crate::support::{Hub, Scratch, eventually};

/// An unused port of an address.
fn free_port(address: &str) -> u16 {
    let listener = must(std::net::TcpListener::bind((address, 0)), "a listener");
    must(listener.local_addr(), "an address").port()
}

/// A client that trusts the authority and keeps its connection.
fn client(authority: &Authority, protocol: fn(ClientBuilder) -> ClientBuilder) -> Client {
    let pem = must(std::fs::read(authority.certificate_file()), "the authority");
    let root = must(reqwest::Certificate::from_pem(&pem), "a certificate");
    let builder =
        Client::builder().no_proxy().tls_certs_only([root]).tls_info(true).pool_max_idle_per_host(1);
    must(protocol(builder).build(), "a client")
}

/// The certificate of the connection that a request goes over, and its protocol.
async fn shown(client: &Client, url: &str) -> (Vec<u8>, Version) {
    let response = must(client.get(format!("{url}/livez")).send().await, "a response");
    assert_eq!(response.status().as_u16(), 200);
    let info = response.extensions().get::<reqwest::tls::TlsInfo>().expect("a connection with TLS");
    let certificate = info.peer_certificate().expect("a certificate").to_vec();
    let version = response.version();
    // Only a response that was read to its end leaves its connection for the next request.
    must(response.bytes().await, "a body");
    (certificate, version)
}

fn http1(builder: ClientBuilder) -> ClientBuilder {
    builder.http1_only()
}

fn either(builder: ClientBuilder) -> ClientBuilder {
    builder
}

#[tokio::test]
async fn new_certificate_is_served_without_a_restart_while_open_connections_go_on() {
    let scratch = Scratch::new();
    // In the directory where the support code looks for what to trust.
    let authority = Authority::new(scratch.join("hub/tls"));
    let names = |name: &str| vec!["127.0.0.1".to_owned(), name.to_owned()];
    must(authority.certify(&names("first"), Timestamp::now()), "a certificate");
    let (certificate, key) = (scratch.join("hub/tls/server.pem"), scratch.join("hub/tls/server-key.pem"));
    let port = free_port("127.0.0.1");
    let options = [
        "--tls-cert-file",
        &certificate.to_string_lossy(),
        "--tls-key-file",
        &key.to_string_lossy(),
        "--agbot-listen",
        &format!("127.0.0.1:{port}"),
    ]
    .map(str::to_owned);
    let hub = Hub::start(&scratch, &options.each_ref().map(String::as_str)).await;
    let urls = [hub.url.clone(), format!("https://127.0.0.1:{port}")];
    let mut open = Vec::new();
    for url in &urls {
        for (protocol, version) in
            [(http1 as fn(ClientBuilder) -> ClientBuilder, Version::HTTP_11), (either, Version::HTTP_2)]
        {
            let client = client(&authority, protocol);
            let (first, spoken) = shown(&client, url).await;
            assert_eq!(spoken, version, "{url}");
            open.push((client, url, first));
        }
    }

    must(authority.certify(&names("second"), Timestamp::now()), "a certificate");
    hub.program.signal(Signal::SIGHUP);
    for url in &urls {
        let old = open[0].2.clone();
        eventually("new connections get the new certificate", || async {
            (shown(&client(&authority, either), url).await.0 != old).then_some(())
        })
        .await;
    }
    for (client, url, first) in &open {
        assert_eq!(shown(client, url).await.0, *first, "the open connection to {url} goes on");
    }

    // No signal: the change of a file is enough. A pair that does not fit changes nothing.
    let (current, _) = shown(&client(&authority, either), &urls[0]).await;
    let good = must(std::fs::read(&key), "the key");
    must(std::fs::write(&key, "no key"), "a broken key");
    eventually("the broken pair is reported", || async {
        hub.program.errors().contains("keeping the old certificate").then_some(())
    })
    .await;
    assert_eq!(shown(&client(&authority, either), &urls[0]).await.0, current);
    must(std::fs::write(&key, good), "the key");
    must(authority.certify(&names("third"), Timestamp::now()), "a certificate");
    eventually("the files are read", || async {
        (shown(&client(&authority, either), &urls[0]).await.0 != current).then_some(())
    })
    .await;
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn private_authority_certifies_the_addresses_of_both_listeners() {
    let scratch = Scratch::new();
    let port = free_port("127.0.0.2");
    let listen = format!("127.0.0.2:{port}");
    let hub = Hub::start(&scratch, &["--tls", "auto", "--agbot-listen", &listen]).await;
    let authority = Authority::new(hub.directory().join("tls"));
    for url in [hub.url.as_str(), &format!("https://{listen}"), &hub.url.replace("127.0.0.1", "localhost")] {
        for (protocol, version) in
            [(http1 as fn(ClientBuilder) -> ClientBuilder, Version::HTTP_11), (either, Version::HTTP_2)]
        {
            assert_eq!(shown(&client(&authority, protocol), url).await.1, version, "{url}");
        }
    }
    let plain = reqwest::Client::builder().no_proxy().build();
    let url = format!("http://{listen}/livez");
    assert!(must(plain, "a client").get(url).send().await.is_err(), "no plain HTTP beside it");
    assert_eq!(hub.stop().await, 0);
}
