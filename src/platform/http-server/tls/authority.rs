//! The hub's own certificate authority: it is created at the first start, signs the certificate of the listener, and renews it in time.
//!
//! Clients trust the file `ca.pem`; the keys never leave the directory.

use std::path::{Path, PathBuf};

use jiff::civil::Date;
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use super::{TlsError, TlsSettings};
use evenkeel_runtime::files::{FileError, create_private_directory, write_private_file};

/// Validity of a listener's certificate; clients refuse much longer ones.
const VALID_DAYS: i32 = 397;

/// Time before its expiry at which a certificate is renewed.
const RENEW_DAYS: i32 = 30;

/// The authority's name; together with its key it identifies the authority across restarts.
const NAME: &str = "Evenkeel private authority";

/// The directory of an authority.
#[derive(Clone, Debug)]
pub struct Authority {
    directory: PathBuf,
}

impl Authority {
    /// Returns the authority in `directory`; it is created when it is first needed.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The certificate that clients must trust.
    #[must_use]
    pub fn certificate_file(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    fn key_file(&self) -> PathBuf {
        self.directory.join("ca-key.pem")
    }

    /// Returns a certificate for `names`; a new one is created if there is none, if it is for other names, or if it expires soon.
    ///
    /// # Errors
    /// When the directory cannot be used, or a name is invalid.
    pub fn certify(&self, names: &[String], now: Timestamp) -> Result<TlsSettings, TlsError> {
        create_private_directory(&self.directory)?;
        let today = now.to_zoned(TimeZone::UTC).date();
        let authority_key = self.open(today)?;
        let certificate_file = self.directory.join("server.pem");
        let key_file = self.directory.join("server-key.pem");
        // Names and end of the certificate are stored next to it, so that it need not be parsed.
        let description_file = self.directory.join("server.names");
        let is_good = certificate_file.exists()
            && read_description(&description_file).is_some_and(|one| one.serves(names, today));
        if !is_good {
            let key = KeyPair::generate()?;
            let end = today.saturating_add(VALID_DAYS.days());
            let issuer = Issuer::new(authority_params(), authority_key);
            let certificate = server_params(names, today, end)?.signed_by(&key, &issuer)?;
            write_private_file(&key_file, key.serialize_pem().as_bytes())?;
            write_private_file(&certificate_file, certificate.pem().as_bytes())?;
            write_private_file(&description_file, format!("{end}\n{}\n", names.join("\n")).as_bytes())?;
            tracing::info!(tls.names = %names.join(","), tls.ends_at = %end, "certificate created");
        }
        TlsSettings::from_files(&certificate_file, &key_file)
    }

    /// Reads the authority's key, or creates the authority.
    fn open(&self, today: Date) -> Result<KeyPair, TlsError> {
        let file = self.key_file();
        if file.exists() && self.certificate_file().exists() {
            let text = std::fs::read_to_string(&file).map_err(FileError::at("read", &file))?;
            return Ok(KeyPair::from_pem(&text)?);
        }
        let key = KeyPair::generate()?;
        let mut params = authority_params();
        set_validity(&mut params, today.saturating_sub(1.day()), today.saturating_add(20.years()));
        let certificate = params.self_signed(&key)?;
        write_private_file(&file, key.serialize_pem().as_bytes())?;
        write_private_file(&self.certificate_file(), certificate.pem().as_bytes())?;
        Ok(key)
    }
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn server_params(names: &[String], today: Date, end: Date) -> Result<CertificateParams, TlsError> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "Evenkeel hub");
    // A client whose clock is slightly behind must accept a new certificate.
    set_validity(&mut params, today.saturating_sub(1.day()), end);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

/// Sets the validity period of a certificate.
fn set_validity(params: &mut CertificateParams, start: Date, end: Date) {
    let part = |value: i8| u8::try_from(value).expect("months and days of a date are positive");
    let [start, end] =
        [start, end].map(|date| date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day())));
    (params.not_before, params.not_after) = (start, end);
}

/// The names and the end of a certificate.
struct Description {
    end: Date,
    names: Vec<String>,
}

impl Description {
    fn serves(&self, names: &[String], today: Date) -> bool {
        self.names == names && today.saturating_add(RENEW_DAYS.days()) < self.end
    }
}

fn read_description(file: &Path) -> Option<Description> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut lines = text.lines();
    let end = lines.next()?.parse().ok()?;
    Some(Description { end, names: lines.map(str::to_owned).collect() })
}
