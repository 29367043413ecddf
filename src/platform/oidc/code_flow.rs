//! The authorization code flow with PKCE: what a browser takes to the provider, and what the hub asks for the code that it brings back.
//!
//! Source: RFC 6749, section 4.1; RFC 7636; RFC 9207; OpenID Connect Core 1.0, section 3.1.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::{Response, StatusCode, Url, header};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::form_urlencoded::{Serializer, byte_serialize};

use crate::browser_client::BrowserClient;
use crate::discovery::Discovery;
use crate::error::Denial;
use crate::token::{self, Person};
use crate::{CodeFlowError, Provider, fetch};

/// Largest response of the token endpoint, in bytes: a few tokens of at most 8 KiB each, with room for those that are not used.
const LARGEST: usize = 128 * 1024;
/// Longest accepted code, in bytes.
const MAX_CODE: usize = 4_096;
/// Longest error code in a log line.
const MAX_ERROR: usize = 60;

/// The secrets of one login, kept by the browser that begins it. A response is accepted only together with them, so that one that was made
/// for another browser is worth nothing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginAttempt {
    /// Returned by the provider with the code: binds the response to the browser.
    #[serde(rename = "s")]
    state: String,
    /// Returned by the provider in the id token: binds the token to the attempt.
    #[serde(rename = "n")]
    nonce: String,
    /// Sent with the code; the provider got its hash at the beginning: binds the code to the attempt.
    #[serde(rename = "v")]
    verifier: String,
}

impl LoginAttempt {
    fn new() -> LoginAttempt {
        let random = || URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
        LoginAttempt { state: random(), nonce: random(), verifier: random() }
    }

    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier))
    }
}

/// The parameters with which the provider sends a browser to the redirect address.
#[derive(Clone, Default, Deserialize)]
pub struct CodeResponse {
    /// The code.
    pub code: Option<String>,
    /// The state of the attempt.
    pub state: Option<String>,
    /// The error instead of a code.
    pub error: Option<String>,
    /// The issuer.
    pub iss: Option<String>,
}

/// A user that the provider has logged in.
pub struct BrowserLogin {
    /// The id token, with which the API identifies the user.
    pub token: String,
    /// The user.
    pub person: Person,
}

/// The used part of the token endpoint's response: access and refresh tokens are dropped.
#[derive(Deserialize)]
struct TokenReply {
    id_token: Option<String>,
}

/// The error of the token endpoint.
#[derive(Deserialize)]
struct TokenError {
    error: String,
}

impl Provider {
    /// Returns the settings of logins to the console, if there are any.
    #[must_use]
    pub fn browser_client(&self) -> Option<&BrowserClient> {
        self.settings().console.as_ref()
    }

    /// Begins a login: returns its secrets, and the address at the provider to which the browser has to go. A silent one asks the user for
    /// nothing: it is denied unless the user is logged in at the provider.
    ///
    /// # Errors
    /// [`CodeFlowError::Unavailable`] when the addresses of the provider are not known.
    pub async fn begin_login(&self, is_silent: bool) -> Result<(LoginAttempt, String), CodeFlowError> {
        let client = self.console()?;
        let discovery = self.discovery().await?;
        let endpoint = discovery.authorization_endpoint.as_deref();
        let endpoint = discovery.address("authorization_endpoint", endpoint);
        let endpoint = endpoint.map_err(CodeFlowError::Unavailable)?;
        let attempt = LoginAttempt::new();
        let address = authorization_address(endpoint, client, &attempt, is_silent);
        Ok((attempt, address))
    }

    /// Ends a login: exchanges the code of the response for an id token, and verifies it.
    ///
    /// # Errors
    /// When the response does not belong to the attempt, or the provider does not confirm it.
    pub async fn finish_login(
        &self,
        attempt: &LoginAttempt,
        response: &CodeResponse,
    ) -> Result<BrowserLogin, CodeFlowError> {
        if response.state.as_deref() != Some(attempt.state.as_str()) {
            return Err(CodeFlowError::Unbound);
        }
        let client = self.console()?;
        let discovery = self.discovery().await?;
        check_issuer(&discovery, response.iss.as_deref())?;
        if let Some(error) = &response.error {
            return Err(CodeFlowError::Denied(Denial::of(error)));
        }
        let code = response.code.as_deref().filter(|code| !code.is_empty() && code.len() <= MAX_CODE);
        let code = code.ok_or(CodeFlowError::Denied(Denial::Request))?;
        // Requests that wait for a provider that hangs must not add up.
        let _permit = self.try_exchange().ok_or(CodeFlowError::Busy)?;
        let endpoint = discovery.address("token_endpoint", discovery.token_endpoint.as_deref());
        let endpoint = endpoint.map_err(CodeFlowError::Unavailable)?;
        let token = self.exchange(&discovery, endpoint, client, (code, &attempt.verifier)).await?;
        let header = token::read_header(&token)?;
        let key = self.key(&header).await?;
        let expected = token::Expected { client_id: &client.client_id, nonce: &attempt.nonce };
        let person = token::verify_id_token(&token, (&header, &key), self.settings(), expected)?;
        Ok(BrowserLogin { token, person })
    }

    /// Returns the address at which a user ends the session at the provider, if it has one.
    pub async fn end_session_address(&self) -> Option<String> {
        let client = self.browser_client()?;
        let discovery = self.discovery().await.ok()?;
        let endpoint = discovery.end_session_endpoint.as_deref()?;
        let mut url = discovery.address("end_session_endpoint", Some(endpoint)).ok()?;
        url.query_pairs_mut().append_pair("client_id", &client.client_id);
        Some(url.into())
    }

    fn console(&self) -> Result<&BrowserClient, CodeFlowError> {
        let missing =
            || CodeFlowError::Unavailable("there are no settings for logins to the console".to_owned());
        self.browser_client().ok_or_else(missing)
    }

    async fn exchange(
        &self,
        discovery: &Discovery,
        endpoint: Url,
        client: &BrowserClient,
        (code, verifier): (&str, &str),
    ) -> Result<String, CodeFlowError> {
        let failed = |why: String| CodeFlowError::Unavailable(format!("{endpoint}: {why}"));
        let redirect_address = client.redirect_address();
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect_address),
            ("code_verifier", verifier),
        ];
        let mut request = self.http().post(endpoint.clone());
        match self.client_secret() {
            Some(secret) if !discovery.wants_secret_in_body() => {
                let mut value = basic(&client.client_id, secret.expose()).map_err(&failed)?;
                value.set_sensitive(true);
                request = request.header(header::AUTHORIZATION, value);
            }
            Some(secret) => {
                fields.extend([("client_id", client.client_id.as_str()), ("client_secret", secret.expose())]);
            }
            None => fields.push(("client_id", &client.client_id)),
        }
        let request = request
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .body(Serializer::new(String::new()).extend_pairs(fields).finish());
        let response = request.send().await;
        let response =
            response.map_err(|error| failed(evenkeel_domain::causes::chain(&error.without_url())))?;
        let status = response.status();
        if status.is_client_error() {
            log_refusal(status, response).await;
            return Err(CodeFlowError::CodeRefused);
        }
        if status != StatusCode::OK {
            return Err(failed(format!("status {}", status.as_u16())));
        }
        let body = fetch::body(response, LARGEST).await.map_err(&failed)?;
        // The error of the parser would quote the body, which has tokens.
        let reply = serde_json::from_slice::<TokenReply>(&body);
        let reply = reply.map_err(|_| failed("not the expected JSON".to_owned()))?;
        reply.id_token.ok_or_else(|| failed("the response has no id_token".to_owned()))
    }
}

fn authorization_address(
    mut endpoint: Url,
    client: &BrowserClient,
    attempt: &LoginAttempt,
    is_silent: bool,
) -> String {
    endpoint.set_fragment(None);
    endpoint
        .query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &client.client_id)
        .append_pair("redirect_uri", &client.redirect_address())
        .append_pair("scope", &client.scope())
        .append_pair("state", &attempt.state)
        .append_pair("nonce", &attempt.nonce)
        .append_pair("code_challenge", &attempt.challenge())
        .append_pair("code_challenge_method", "S256");
    if is_silent {
        endpoint.query_pairs_mut().append_pair("prompt", "none");
    }
    endpoint.into()
}

/// Refuses a response that another provider made, whose code must not be sent to this one.
fn check_issuer(discovery: &Discovery, issuer: Option<&str>) -> Result<(), CodeFlowError> {
    match issuer {
        Some(issuer) if issuer == discovery.issuer => Ok(()),
        None if !discovery.authorization_response_iss_parameter_supported => Ok(()),
        _ => Err(CodeFlowError::MixUp),
    }
}

/// RFC 6749, section 2.3.1: both parts are encoded as in a form.
fn basic(client_id: &str, secret: &str) -> Result<header::HeaderValue, String> {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let login = STANDARD.encode(format!("{}:{}", encoded(client_id), encoded(secret)));
    header::HeaderValue::try_from(format!("Basic {login}")).map_err(|error| error.to_string())
}

/// Logs why the token endpoint refused: `invalid_client` is a matter of the configuration.
async fn log_refusal(status: StatusCode, response: Response) {
    let body = fetch::body(response, LARGEST).await.unwrap_or_default();
    let error = serde_json::from_slice::<TokenError>(&body).map(|reply| reply.error).unwrap_or_default();
    let error: String = error.chars().filter(char::is_ascii_graphic).take(MAX_ERROR).collect();
    tracing::warn!(
        oidc.status = status.as_u16(),
        oidc.error = %error,
        "the identity provider does not accept the code of a login to the console"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> BrowserClient {
        BrowserClient {
            name: "Plant".to_owned(),
            client_id: "even keel".to_owned(),
            client_secret_file: None,
            public_url: "https://hub.example".to_owned(),
            scopes: vec!["groups".to_owned()],
            session_secs: 3_600,
        }
    }

    #[test]
    fn challenge_is_the_hash_of_the_verifier() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let attempt = LoginAttempt { verifier, ..LoginAttempt::new() };
        assert_eq!(attempt.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn secrets_of_attempts_are_long_and_all_different() {
        let (one, other) = (LoginAttempt::new(), LoginAttempt::new());
        let all = [one.state, one.nonce, one.verifier, other.state, other.nonce, other.verifier];
        assert!(all.iter().all(|secret| secret.len() == 43), "256 bits, as RFC 7636 recommends");
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
    }

    #[test]
    fn browser_takes_the_challenge_and_not_the_verifier() {
        let attempt = LoginAttempt::new();
        let endpoint = Url::parse("https://idp.example/authorize?tenant=a#x").expect("a URL");
        let silent = authorization_address(endpoint.clone(), &client(), &attempt, true);
        assert!(silent.ends_with("&prompt=none"), "{silent}");
        let address = authorization_address(endpoint, &client(), &attempt, false);
        assert!(!address.contains("prompt"), "{address}");
        let url = Url::parse(&address).expect("a URL");
        let pairs: std::collections::BTreeMap<_, _> = url.query_pairs().into_owned().collect();
        let found = |name: &str| pairs.get(name).map(String::as_str);
        assert_eq!(found("tenant"), Some("a"), "{address}");
        assert_eq!(found("client_id"), Some("even keel"));
        assert_eq!(found("redirect_uri"), Some("https://hub.example/console/login/oidc/callback"));
        assert_eq!(found("scope"), Some("openid groups"));
        assert_eq!(found("code_challenge_method"), Some("S256"));
        assert_eq!(found("code_challenge"), Some(attempt.challenge().as_str()));
        assert!(!address.contains(&attempt.verifier) && url.fragment().is_none());
    }

    #[test]
    fn response_of_another_issuer_is_refused() {
        let discovery = |is_named: bool| {
            let supported = if is_named { "true" } else { "false" };
            let text = format!(
                "{{\"issuer\": \"https://idp.example\", \"jwks_uri\": \"\", \"authorization_response_iss_parameter_supported\": {supported}}}"
            );
            serde_json::from_str::<Discovery>(&text).expect("a document")
        };
        for (is_named, issuer, is_accepted) in [
            (false, None, true),
            (true, None, false),
            (false, Some("https://idp.example"), true),
            (true, Some("https://idp.example"), true),
            (false, Some("https://evil.example"), false),
            (false, Some("https://idp.example/"), false),
        ] {
            let checked = check_issuer(&discovery(is_named), issuer);
            assert_eq!(checked.is_ok(), is_accepted, "{is_named} {issuer:?}");
        }
    }

    #[test]
    fn parts_of_the_header_are_encoded_as_in_a_form() {
        let value = basic("a:b", "s%t ü").expect("a value");
        // a%3Ab:s%25t+%C3%BC
        assert_eq!(value.to_str().ok(), Some("Basic YSUzQWI6cyUyNXQrJUMzJUJD"));
    }
}
