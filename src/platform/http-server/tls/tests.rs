//! Real handshakes with the certificates of a private authority.

use evenkeel_domain::causes::chain;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{HttpLimits, HttpMetrics, HttpServer, listen};
use evenkeel_runtime::metrics::Metrics;
use jiff::Timestamp;

fn names() -> Vec<String> {
    vec!["localhost".to_owned(), "127.0.0.1".to_owned()]
}

fn now() -> Timestamp {
    Timestamp::now()
}

fn client(authority: &Authority, protocol: &[u8]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.certificate_file()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    TlsConnector::from(Arc::new(config))
}

async fn serve(tls: &TlsSettings, shutdown: &CancellationToken) -> SocketAddr {
    let listener = listen("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = axum::Router::new().route("/", axum::routing::get(|| async { "over TLS" }));
    let (limits, metrics) = (HttpLimits::default(), HttpMetrics::new(&Metrics::default()));
    let server = HttpServer { listener, handler: router.into(), limits, tls: Some(tls.clone()), metrics };
    tokio::spawn(server.serve(shutdown.clone()));
    address
}

/// The certificate that a handshake shows.
async fn shown(connector: &TlsConnector, address: SocketAddr) -> CertificateDer<'static> {
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

#[tokio::test]
async fn client_that_trusts_the_authority_is_served_on_both_protocols() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path().join("tls"));
    let shutdown = CancellationToken::new();
    let address = serve(&authority.certify(&names(), now()).unwrap(), &shutdown).await;
    let stream = TcpStream::connect(address).await.unwrap();
    let connector = client(&authority, b"http/1.1");
    let mut stream = connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut response = String::new();
    let _ = stream.read_to_string(&mut response).await;
    assert!(response.ends_with("over TLS"), "{response}");
    let stream = TcpStream::connect(address).await.unwrap();
    let stream =
        client(&authority, b"h2").connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let unrelated = Authority::new(directory.path().join("other"));
    unrelated.certify(&names(), now()).unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let refused = client(&unrelated, b"h2").connect(ServerName::try_from("localhost").unwrap(), stream).await;
    assert!(refused.is_err(), "another authority is not trusted");
    shutdown.cancel();
}

#[tokio::test]
async fn certificate_is_kept_until_its_names_change_or_it_ends_soon() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path().to_owned());
    let read = || std::fs::read_to_string(directory.path().join("server.pem")).unwrap();
    authority.certify(&names(), now()).unwrap();
    let (root, first) = (std::fs::read(authority.certificate_file()).unwrap(), read());
    authority.certify(&names(), now()).unwrap();
    assert_eq!(read(), first);
    authority.certify(&["elsewhere".to_owned()], now()).unwrap();
    let second = read();
    assert_ne!(second, first);
    let later = now() + jiff::SignedDuration::from_hours(24 * 370);
    authority.certify(&["elsewhere".to_owned()], later).unwrap();
    assert_ne!(read(), second);
    assert_eq!(std::fs::read(authority.certificate_file()).unwrap(), root, "the authority stays");
}

#[tokio::test]
async fn new_files_are_used_without_a_restart_and_a_wrong_pair_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path().to_owned());
    let tls = authority.certify(&names(), now()).unwrap();
    let shutdown = CancellationToken::new();
    let address = serve(&tls, &shutdown).await;
    let connector = client(&authority, b"http/1.1");
    let first = shown(&connector, address).await;
    let key_file = directory.path().join("server-key.pem");
    let key = std::fs::read(&key_file).unwrap();
    let unrelated = rcgen::KeyPair::generate().unwrap().serialize_pem();
    std::fs::write(&key_file, unrelated).unwrap();
    assert!(matches!(tls.certificate.check(), Err(TlsError::Mismatch { .. })));
    assert_eq!(shown(&connector, address).await, first, "the old pair stays in use");
    std::fs::write(&key_file, key).unwrap();
    authority.certify(&["localhost".to_owned()], now()).unwrap();
    assert!(tls.certificate.check().unwrap());
    assert_ne!(shown(&connector, address).await, first);
    assert!(!tls.certificate.check().unwrap(), "nothing changed since");
    shutdown.cancel();
}

#[test]
fn missing_and_foreign_files_are_clear_errors() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nothing.pem");
    let error = TlsSettings::from_files(&file, &file).unwrap_err();
    assert_eq!(error.exit_status(), ExitStatus::Usage);
    assert!(chain(&error).contains("nothing.pem"), "{}", chain(&error));
    std::fs::write(&file, "no certificate").unwrap();
    assert!(matches!(TlsSettings::from_files(&file, &file), Err(TlsError::Unreadable { .. })));
}
