//! Certificates of a listener: own files, or a private certificate authority made at first start; read again without a
//! restart.

use std::sync::Arc;

use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

/// The TLS side of a listener.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    config: Arc<ServerConfig>,
}

impl TlsSettings {
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }
}
