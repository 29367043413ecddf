//! The discovery document: the addresses of the provider.

use reqwest::Url;
use serde::Deserialize;

use crate::settings::allowed_url;

/// The used part of the document. What only browsers need is checked when it is needed: tokens work without it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Discovery {
    pub(crate) issuer: String,
    pub(crate) jwks_uri: String,
    #[serde(default)]
    pub(crate) authorization_endpoint: Option<String>,
    #[serde(default)]
    pub(crate) token_endpoint: Option<String>,
    #[serde(default)]
    pub(crate) end_session_endpoint: Option<String>,
    #[serde(default)]
    pub(crate) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) authorization_response_iss_parameter_supported: bool,
}

impl Discovery {
    /// Parses an address of the document. One of a provider behind TLS must be behind TLS as well, so that the document cannot lead a secret
    /// to a process on the hub's own machine.
    pub(crate) fn address(&self, name: &str, address: Option<&str>) -> Result<Url, String> {
        let address = address.ok_or_else(|| format!("it has no {name}"))?;
        let url = allowed_url(address).map_err(|why| format!("{name}: {why}"))?;
        if url.scheme() != "https" && self.issuer.starts_with("https:") {
            return Err(format!("{name} must begin with https://"));
        }
        Ok(url)
    }

    /// Returns whether the client sends its secret in the body: only to a provider that does not know the header.
    pub(crate) fn wants_secret_in_body(&self) -> bool {
        let methods = self.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
        let lists = |name: &str| methods.iter().any(|method| method == name);
        lists("client_secret_post") && !lists("client_secret_basic")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn discovery(issuer: &str, further: Value) -> Discovery {
        let mut document = json!({"issuer": issuer, "jwks_uri": ""});
        let fields = further.as_object().cloned().unwrap_or_default();
        document.as_object_mut().expect("an object").extend(fields);
        serde_json::from_value(document).expect("a document")
    }

    #[test]
    fn addresses_of_a_provider_behind_tls_are_behind_tls() {
        let (secure, local) =
            (discovery("https://idp.example", json!({})), discovery("http://127.0.0.1:1", json!({})));
        for (address, is_allowed_secure, is_allowed_local) in [
            (Some("https://other.example/token"), true, true),
            (Some("http://127.0.0.1:2/token"), false, true),
            (Some("http://10.0.0.1/token"), false, false),
            (Some("file:///etc/passwd"), false, false),
            (Some(""), false, false),
            (None, false, false),
        ] {
            assert_eq!(secure.address("token_endpoint", address).is_ok(), is_allowed_secure, "{address:?}");
            let local = local.address("token_endpoint", address);
            assert_eq!(local.is_ok(), is_allowed_local, "{address:?}");
            assert!(local.map_or_else(|why| why.contains("token_endpoint"), |_| true), "{address:?}");
        }
    }

    #[test]
    fn secret_is_sent_in_the_header_unless_the_provider_knows_only_the_body() {
        for (methods, is_in_body) in [
            (json!(null), false),
            (json!(["client_secret_basic", "client_secret_post"]), false),
            (json!(["client_secret_post", "private_key_jwt"]), true),
            (json!([]), false),
        ] {
            let document = discovery("i", json!({"token_endpoint_auth_methods_supported": methods}));
            assert_eq!(document.wants_secret_in_body(), is_in_body, "{methods}");
        }
    }
}
