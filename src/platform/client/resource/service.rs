//! Services (exchange API 4.6).

use std::collections::BTreeMap;

use bytes::Bytes;
use evenkeel_ids::ServiceId;
use evenkeel_wire::RawJson;
use evenkeel_wire::exchange::service::{DockAuthResponse, PutDockAuth, ServiceResponse, ServicesResponse};
use evenkeel_wire::exchange::utility::ApiResponse;
use http::{HeaderMap, HeaderValue, Method, header};
use serde::Serialize;
use serde_json::Value;

use super::record::member_records;
use super::{by_id, only};
use crate::{Client, ClientError, Path, Records};

fn service_path(org: &str, service: &str, rest: &[&str]) -> Path {
    rest.iter().fold(Path::org(org, &["services", service]), |path, segment| path.push(segment))
}

/// Returns the filter that fits a name only: one with `%` is a pattern, and names may hold it.
fn exactly(name: &str) -> String {
    if !name.contains('%') {
        return name.to_owned();
    }
    name.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_")
}

impl Client {
    /// The services with a name, and with a version and architecture when given.
    pub async fn find_services(
        &self,
        org: &str,
        url: &str,
        version: Option<&str>,
        arch: Option<&str>,
    ) -> Result<BTreeMap<ServiceId, ServiceResponse>, ClientError> {
        let mut path = Path::org(org, &["services"]).query("url", &exactly(url));
        if let Some(version) = version {
            path = path.query("version", &exactly(version));
        }
        if let Some(arch) = arch {
            path = path.query("arch", &exactly(arch));
        }
        let found: Option<ServicesResponse> = self.get(path).await?;
        Ok(by_id(found.unwrap_or_default().services, ServiceId::from_text))
    }

    /// The services with a name, as the exchange sent them.
    pub async fn service_records(&self, org: &str, url: &str) -> Result<Records, ClientError> {
        let found: Option<Value> =
            self.get(Path::org(org, &["services"]).query("url", &exactly(url))).await?;
        Ok(member_records(found, "services"))
    }

    /// One service.
    pub async fn service(&self, org: &str, service: &str) -> Result<Option<ServiceResponse>, ClientError> {
        let found: Option<ServicesResponse> = self.get(service_path(org, service, &[])).await?;
        Ok(only(found.map(|found| found.services)))
    }

    /// Creates a service; its id follows from name, version and architecture.
    pub async fn create_service<S: Serialize + ?Sized>(
        &self,
        org: &str,
        body: &S,
    ) -> Result<ApiResponse, ClientError> {
        self.post(Path::org(org, &["services"]), body).await
    }

    /// A service's policy as it is stored.
    pub async fn service_policy(&self, org: &str, service: &str) -> Result<Option<RawJson>, ClientError> {
        self.get(service_path(org, service, &["policy"])).await
    }

    /// Replaces a service's policy.
    pub async fn put_service_policy<P: Serialize + ?Sized>(
        &self,
        org: &str,
        service: &str,
        policy: &P,
    ) -> Result<ApiResponse, ClientError> {
        self.put(service_path(org, service, &["policy"]), policy).await
    }

    /// Removes a service's policy; false when it was not there.
    pub async fn delete_service_policy(&self, org: &str, service: &str) -> Result<bool, ClientError> {
        self.delete(service_path(org, service, &["policy"])).await
    }

    /// Names of a service's signing keys; `None` when the service has none.
    pub async fn find_service_keys(
        &self,
        org: &str,
        service: &str,
    ) -> Result<Option<Vec<String>>, ClientError> {
        self.get(service_path(org, service, &["keys"])).await
    }

    /// Names of a service's signing keys.
    pub async fn list_service_keys(&self, org: &str, service: &str) -> Result<Vec<String>, ClientError> {
        Ok(self.find_service_keys(org, service).await?.unwrap_or_default())
    }

    /// One signing key of a service, as PEM text.
    pub async fn service_key(
        &self,
        org: &str,
        service: &str,
        key: &str,
    ) -> Result<Option<String>, ClientError> {
        self.get_text(service_path(org, service, &["keys", key])).await
    }

    /// Publishes a signing key of a service.
    pub async fn put_service_key(
        &self,
        org: &str,
        service: &str,
        key: &str,
        pem: &str,
    ) -> Result<ApiResponse, ClientError> {
        self.put_key(&service_path(org, service, &["keys", key]), pem).await
    }

    /// Publishes a signing key, as PEM text.
    pub(super) async fn put_key(&self, path: &Path, pem: &str) -> Result<ApiResponse, ClientError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        let body = Bytes::copy_from_slice(pem.as_bytes());
        self.send_with(Method::PUT, path, Some(body), headers, None).await?.accepted()
    }

    /// Removes a signing key of a service; false when it was not there.
    pub async fn delete_service_key(&self, org: &str, service: &str, key: &str) -> Result<bool, ClientError> {
        self.delete(service_path(org, service, &["keys", key])).await
    }

    /// Adds a registry login to a service.
    pub async fn add_service_dockauth(
        &self,
        org: &str,
        service: &str,
        login: &PutDockAuth,
    ) -> Result<ApiResponse, ClientError> {
        self.post(service_path(org, service, &["dockauths"]), login).await
    }

    /// Removes a registry login of a service; false when it was not there.
    pub async fn delete_service_dockauth(
        &self,
        org: &str,
        service: &str,
        number: u64,
    ) -> Result<bool, ClientError> {
        self.delete(service_path(org, service, &["dockauths", &number.to_string()])).await
    }

    /// Registry logins of a service as the exchange sent them; `None` when the service has none.
    pub async fn service_dockauth_records(
        &self,
        org: &str,
        service: &str,
    ) -> Result<Option<Vec<RawJson>>, ClientError> {
        self.get(service_path(org, service, &["dockauths"])).await
    }

    /// Registry logins of a service.
    pub async fn list_service_dockauths(
        &self,
        org: &str,
        service: &str,
    ) -> Result<Vec<DockAuthResponse>, ClientError> {
        Ok(self.get(service_path(org, service, &["dockauths"])).await?.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_a_wildcard_fits_itself_only() {
        assert_eq!(exactly("a_b\\c"), "a_b\\c");
        assert_eq!(exactly("%"), "\\%");
        assert_eq!(exactly("a%_\\"), "a\\%\\_\\\\");
    }
}
