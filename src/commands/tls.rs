//! TLS of the listeners: off, from files, or by a private authority in the data directory.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use evenkeel_http_server::tls::{Authority, CertificateRenewal, TlsError, TlsMode, TlsSettings, usual_names};
use evenkeel_runtime::worker::Workers;
use evenkeel_runtime::{ExitStatus, Failure, settings};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

settings! {
    /// The TLS settings of the listeners.
    pub struct TlsOptions {
        /// TLS: off, auto (a private authority created at first start), or files [default: off, or files when some are named].
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
    /// Opens the certificate for all of `addresses`; `None` for plain HTTP.
    ///
    /// # Shape
    /// `directory`: that of the private authority; `None` without a data directory, and thus without an authority.
    pub fn open(
        &self,
        directory: Option<&Path>,
        addresses: &[SocketAddr],
    ) -> Result<Option<OpenTls>, Failure> {
        let usual = if self.tls_cert_file.is_some() { TlsMode::Files } else { TlsMode::Off };
        match (self.tls.unwrap_or(usual), directory) {
            (TlsMode::Off, _) => Ok(None),
            (TlsMode::Files, _) => self.open_files().map(Some),
            (TlsMode::Auto, Some(directory)) => self.open_authority(directory, addresses).map(Some),
            (TlsMode::Auto, None) => Err(Failure::new(
                ExitStatus::Usage,
                "tls auto needs a data directory: use tls-cert-file instead",
            )),
        }
    }

    fn open_files(&self) -> Result<OpenTls, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert_file, &self.tls_key_file) else {
            return Err(Failure::new(
                ExitStatus::Usage,
                "tls from files needs both tls-cert-file and tls-key-file",
            ));
        };
        let settings = TlsSettings::from_files(certificate, key).map_err(|error| failed(&error))?;
        Ok(OpenTls { settings, renewal: None })
    }

    fn open_authority(&self, directory: &Path, addresses: &[SocketAddr]) -> Result<OpenTls, Failure> {
        let authority = Authority::new(directory.join("tls"));
        let mut names = usual_names(addresses);
        let more = self.tls_names.as_deref().unwrap_or_default().split(',').map(str::trim);
        names.extend(more.filter(|name| !name.is_empty()).map(str::to_owned));
        let settings = authority.certify(&names, Timestamp::now()).map_err(|error| failed(&error))?;
        tracing::info!(tls.ca_file = %authority.certificate_file().display(), "clients must trust this authority");
        Ok(OpenTls { settings, renewal: Some(CertificateRenewal { authority, names }) })
    }
}

/// An opened certificate, with the worker that renews it.
pub struct OpenTls {
    settings: TlsSettings,
    renewal: Option<CertificateRenewal>,
}

impl OpenTls {
    /// Keeps the certificate current by workers of a role until `shutdown`; returns the settings for listeners.
    pub fn start(self, workers: &Workers, shutdown: &CancellationToken) -> TlsSettings {
        tokio::spawn(workers.run(self.settings.reload(), shutdown.clone()));
        if let Some(renewal) = self.renewal {
            tokio::spawn(workers.run(renewal, shutdown.clone()));
        }
        self.settings
    }
}

fn failed(error: &TlsError) -> Failure {
    Failure::from_error(error.exit_status(), error)
}
