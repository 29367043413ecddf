//! Certificates of a listener: own files, or those of a private certificate authority; read again without a restart.

mod authority;
mod workers;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde::Deserialize;
use thiserror::Error;
use tokio_rustls::TlsAcceptor;
use x509_cert::Certificate;
use x509_cert::der::Decode;

pub use authority::Authority;
use evenkeel_runtime::exit::ExitStatus;
use evenkeel_runtime::files::FileError;
pub use workers::{CertificateReload, CertificateRenewal};

/// The TLS mode of a listener, with its certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TlsMode {
    /// Plain HTTP.
    #[default]
    Off,
    /// A certificate of a private authority, created at first start.
    Auto,
    /// A certificate from files.
    Files,
}

impl FromStr for TlsMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            "files" => Ok(Self::Files),
            other => Err(format!("`{other}` is none of `off`, `auto`, `files`")),
        }
    }
}

/// A certificate cannot be used or created.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read as PEM.
    #[error("cannot read the certificate or key in {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// Certificate and key are unusable, or not a pair.
    #[error("the certificate in {} does not match its key", path.display())]
    Mismatch {
        /// The certificate's file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The private authority could not make a certificate.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    /// Its directory cannot be used.
    #[error("the certificate directory cannot be used")]
    Directory(#[from] FileError),
}

impl TlsError {
    /// The status to end the process with.
    #[must_use]
    pub fn exit_status(&self) -> ExitStatus {
        match self {
            Self::Unreadable { .. } | Self::Mismatch { .. } => ExitStatus::Usage,
            Self::Directory(_) => ExitStatus::DataDirectory,
            Self::Make(_) => ExitStatus::Failure,
        }
    }
}

/// The TLS side of a listener. Clones share the certificate.
#[derive(Clone)]
pub struct TlsSettings {
    certificate: Arc<Reloaded>,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TlsSettings({})", self.certificate.certificate_file.display())
    }
}

impl TlsSettings {
    /// Uses a chain of certificates and its key from two PEM files.
    ///
    /// # Errors
    /// When a file cannot be read, or the two do not belong together.
    pub fn from_files(certificate_file: &Path, key_file: &Path) -> Result<Self, TlsError> {
        let certificate = Arc::new(Reloaded::read(certificate_file, key_file)?);
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider supports TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_cert_resolver(certificate.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { certificate, config: Arc::new(config) })
    }

    /// Returns when the first certificate of the chain in use expires; none if that cannot be determined.
    #[must_use]
    pub fn expires_at(&self) -> Option<SystemTime> {
        let current = self.certificate.current.read().unwrap_or_else(PoisonError::into_inner);
        let ends = current.1.cert.iter().filter_map(|certificate| {
            let certificate = Certificate::from_der(certificate).ok()?;
            Some(UNIX_EPOCH + certificate.tbs_certificate.validity.not_after.to_unix_duration())
        });
        ends.min()
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }

    /// Returns the worker that reads the files again when they change: new connections get the new certificate, open ones continue.
    #[must_use]
    pub fn reload(&self) -> CertificateReload {
        CertificateReload::new(self.clone())
    }
}

/// When the two files were last changed.
type Stamp = [Option<SystemTime>; 2];

/// The certificate in use, and the files that it came from.
#[derive(Debug)]
struct Reloaded {
    certificate_file: PathBuf,
    key_file: PathBuf,
    current: RwLock<(Stamp, Arc<CertifiedKey>)>,
}

impl Reloaded {
    fn read(certificate_file: &Path, key_file: &Path) -> Result<Self, TlsError> {
        let stamp = stamp(certificate_file, key_file);
        let current = RwLock::new((stamp, Arc::new(read_pair(certificate_file, key_file)?)));
        Ok(Self { certificate_file: certificate_file.to_owned(), key_file: key_file.to_owned(), current })
    }

    /// Reads the files again when they changed; returns whether a new certificate is in use.
    fn check(&self) -> Result<bool, TlsError> {
        let found = stamp(&self.certificate_file, &self.key_file);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.0 == found {
            return Ok(false);
        }
        // A pair that does not match is reported once; it is read again when a file changes again.
        current.0 = found;
        current.1 = Arc::new(read_pair(&self.certificate_file, &self.key_file)?);
        Ok(true)
    }

    /// Reads the files, whether they changed or not.
    fn read_again(&self) -> Result<bool, TlsError> {
        let found = stamp(&self.certificate_file, &self.key_file);
        let pair = Arc::new(read_pair(&self.certificate_file, &self.key_file)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = (found, pair);
        Ok(true)
    }
}

impl ResolvesServerCert for Reloaded {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).1.clone())
    }
}

fn stamp(certificate_file: &Path, key_file: &Path) -> Stamp {
    [certificate_file, key_file].map(|file| std::fs::metadata(file).and_then(|found| found.modified()).ok())
}

fn read_pair(certificate_file: &Path, key_file: &Path) -> Result<CertifiedKey, TlsError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Unreadable { path, source }
    };
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate_file)
        .and_then(Iterator::collect)
        .map_err(unreadable(certificate_file))?;
    if certificates.is_empty() {
        return Err(unreadable(certificate_file)(pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(unreadable(key_file))?;
    CertifiedKey::from_der(certificates, key, &aws_lc_rs::default_provider())
        .map_err(|source| TlsError::Mismatch { path: certificate_file.to_owned(), source })
}

/// Returns the names under which clients reach listeners on these addresses, from this machine and from others.
#[must_use]
pub fn usual_names(addresses: &[SocketAddr]) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let bound = addresses.iter().filter(|address| !address.ip().is_unspecified());
    for name in bound.map(|address| address.ip().to_string()).chain(host) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests;
