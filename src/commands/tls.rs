//! TLS of the listeners: off, from files, or by a private authority in the data directory.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_http_server::tls::{Authority, TlsError, TlsMode, TlsSettings, usual_names};
use evenkeel_runtime::{ExitStatus, Failure, settings};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

/// Interval at which a certificate of the private authority is checked for renewal.
const RENEW_PERIOD: Duration = Duration::from_secs(12 * 3600);

settings! {
    /// The TLS settings of the listeners.
    pub struct TlsOptions {
        /// TLS: off, auto (a private authority made at first start), or files [default: off, or files when some are named].
        tls: TlsMode = "tls", "EVENKEEL_TLS";
        /// File with the certificate chain, PEM; read again when it changes.
        tls_cert_file: PathBuf = "tls-cert-file", "EVENKEEL_TLS_CERT_FILE";
        /// File with the certificate's key, PEM.
        tls_key_file: PathBuf = "tls-key-file", "EVENKEEL_TLS_KEY_FILE";
        /// More names for the certificate of the private authority, separated by commas.
        tls_names: String = "tls-names", "EVENKEEL_TLS_NAMES";
    }
}

impl TlsOptions {
    /// The certificate to serve all of `addresses` with, kept up to date until `shutdown`; `None` for plain HTTP.
    ///
    /// # Shape
    /// `directory`: where the private authority lives; `None` where there is no data directory, and so no authority.
    pub fn open(
        &self,
        directory: Option<&Path>,
        addresses: &[SocketAddr],
        shutdown: &CancellationToken,
    ) -> Result<Option<TlsSettings>, Failure> {
        let usual = if self.tls_cert_file.is_some() { TlsMode::Files } else { TlsMode::Off };
        let settings = match (self.tls.unwrap_or(usual), directory) {
            (TlsMode::Off, _) => return Ok(None),
            (TlsMode::Files, _) => self.open_files()?,
            (TlsMode::Auto, Some(directory)) => self.open_authority(directory, addresses, shutdown)?,
            (TlsMode::Auto, None) => {
                return Err(Failure::new(
                    ExitStatus::Usage,
                    "tls auto needs a data directory: use tls-cert-file instead",
                ));
            }
        };
        tokio::spawn(settings.clone().follow_files(shutdown.clone()));
        Ok(Some(settings))
    }

    fn open_files(&self) -> Result<TlsSettings, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert_file, &self.tls_key_file) else {
            return Err(Failure::new(
                ExitStatus::Usage,
                "tls from files needs both tls-cert-file and tls-key-file",
            ));
        };
        TlsSettings::from_files(certificate, key).map_err(|error| failed(&error))
    }

    fn open_authority(
        &self,
        directory: &Path,
        addresses: &[SocketAddr],
        shutdown: &CancellationToken,
    ) -> Result<TlsSettings, Failure> {
        let authority = Authority::new(directory.join("tls"));
        let mut names = usual_names(addresses);
        let more = self.tls_names.as_deref().unwrap_or_default().split(',').map(str::trim);
        names.extend(more.filter(|name| !name.is_empty()).map(str::to_owned));
        let settings = authority.certify(&names, Timestamp::now()).map_err(|error| failed(&error))?;
        tracing::info!(tls.ca_file = %authority.certificate_file().display(), "clients must trust this authority");
        tokio::spawn(renew(authority, names, shutdown.clone()));
        Ok(settings)
    }
}

/// Renews the certificate before it ends; listeners detect the new files themselves.
async fn renew(authority: Authority, names: Vec<String>, shutdown: CancellationToken) {
    while shutdown.run_until_cancelled(tokio::time::sleep(RENEW_PERIOD)).await.is_some() {
        if let Err(error) = authority.certify(&names, Timestamp::now()) {
            tracing::error!("the certificate cannot be renewed: {error}");
        }
    }
}

fn failed(error: &TlsError) -> Failure {
    Failure::from_error(error.exit_status(), error)
}
