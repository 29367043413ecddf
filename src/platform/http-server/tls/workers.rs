//! The workers that keep a listener's certificate current.

use std::convert::Infallible;
use std::time::Duration;

use evenkeel_domain::causes::chain;
use evenkeel_runtime::worker::Worker;
use jiff::Timestamp;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Authority, TlsError, TlsSettings};

/// Interval at which the files are checked for changes.
const CHECK_PERIOD: Duration = Duration::from_secs(2);
/// Interval at which a certificate of the private authority is checked for renewal.
const RENEW_PERIOD: Duration = Duration::from_secs(3600);

/// Reads the certificate again when its files change, and at once after a `SIGHUP`. A pair that cannot be used is
/// reported once, and the old one is kept.
pub struct CertificateReload {
    tls: TlsSettings,
    hangup: Option<Signal>,
    is_forced: bool,
}

impl CertificateReload {
    pub(super) fn new(tls: TlsSettings) -> Self {
        let hangup = signal(SignalKind::hangup())
            .inspect_err(|error| tracing::warn!("cannot listen for SIGHUP: {error}"))
            .ok();
        Self { tls, hangup, is_forced: false }
    }
}

impl Worker for CertificateReload {
    type Error = Infallible;
    const NAME: &'static str = "certificate_reload";

    async fn pass(&mut self) -> Result<(), Infallible> {
        let certificate = &self.tls.certificate;
        let is_forced = std::mem::take(&mut self.is_forced);
        match if is_forced { certificate.read_again() } else { certificate.check() } {
            Ok(true) => tracing::info!(tls = ?self.tls, "using a new certificate"),
            Ok(false) => {}
            // Not a failed pass, because it is not retried before a file changes.
            Err(error) => tracing::warn!("keeping the old certificate: {}", chain(&error)),
        }
        Ok(())
    }

    fn pause(&self) -> Duration {
        CHECK_PERIOD
    }

    fn first_pause(&self) -> Duration {
        CHECK_PERIOD
    }

    async fn signaled(&mut self) {
        match &mut self.hangup {
            Some(hangup) => {
                hangup.recv().await;
                self.is_forced = true;
            }
            None => std::future::pending().await,
        }
    }
}

/// Renews a certificate of the private authority before it expires; [`CertificateReload`] detects the new files.
pub struct CertificateRenewal {
    /// The authority.
    pub authority: Authority,
    /// The names that the certificate is for.
    pub names: Vec<String>,
}

impl Worker for CertificateRenewal {
    type Error = TlsError;
    const NAME: &'static str = "certificate_renewal";

    async fn pass(&mut self) -> Result<(), TlsError> {
        self.authority.certify(&self.names, Timestamp::now()).map(drop)
    }

    fn pause(&self) -> Duration {
        RENEW_PERIOD
    }

    fn first_pause(&self) -> Duration {
        RENEW_PERIOD
    }
}
