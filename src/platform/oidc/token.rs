//! Verifies a token and extracts the user.

use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, errors::ErrorKind};
use serde_json::{Map, Value};

use crate::{OidcError, OidcSettings};

/// Longest accepted token.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// Longest accepted user name, subject and address.
const MAX_TEXT: usize = 200;

/// The identity of a user at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The provider.
    pub issuer: String,
    /// Id at the provider, never reassigned to another user.
    pub subject: String,
    /// User name on this hub.
    pub name: String,
    /// Email address, when the provider reports one.
    pub email: Option<String>,
    /// Groups at the provider.
    pub groups: Vec<String>,
    /// End of the token, in seconds since 1970.
    pub expires_at: i64,
}

/// Reads the header of a token, whose content is not trusted yet.
///
/// # Errors
/// [`OidcError::Refused`] for invalid tokens, for ones that are too long, and for ones without a public-key algorithm.
pub(crate) fn read_header(token: &str) -> Result<Header, OidcError> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(OidcError::refused(format!("it has more than {MAX_TOKEN_BYTES} bytes")));
    }
    let header = jsonwebtoken::decode_header(token)
        .map_err(|_| OidcError::refused("it is not a signed JWT with an algorithm that is supported"))?;
    match header.alg {
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => {
            Err(OidcError::refused("it is not signed with a public-key algorithm"))
        }
        _ => Ok(header),
    }
}

/// Verifies signature, issuer, audience and times, and reads the claims.
///
/// # Errors
/// [`OidcError::Refused`] naming the check that failed, never the token.
pub(crate) fn verify(
    token: &str,
    header: &Header,
    key: &DecodingKey,
    settings: &OidcSettings,
) -> Result<Person, OidcError> {
    person(&verified(token, (header, key), settings, &settings.audiences)?, settings)
}

/// The values that an id token must have because it was made for one login of one client.
#[derive(Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub(crate) client_id: &'a str,
    pub(crate) nonce: &'a str,
}

/// Verifies the same of an id token, and that it was made for this client and this login.
///
/// # Errors
/// [`OidcError::Refused`] naming the check that failed, never the token.
pub(crate) fn verify_id_token(
    token: &str,
    signature: (&Header, &DecodingKey),
    settings: &OidcSettings,
    expected: Expected<'_>,
) -> Result<Person, OidcError> {
    let claims = verified(token, signature, settings, &[expected.client_id.to_owned()])?;
    check_login(&claims, expected)?;
    person(&claims, settings)
}

/// Source: OpenID Connect Core 1.0, section 3.1.3.7.
fn check_login(claims: &Map<String, Value>, expected: Expected<'_>) -> Result<(), OidcError> {
    let text = |claim: &str| claims.get(claim).and_then(Value::as_str);
    if text("nonce") != Some(expected.nonce) {
        return Err(OidcError::refused("it was made for another login"));
    }
    let has_several = claims.get("aud").and_then(Value::as_array).is_some_and(|all| all.len() > 1);
    // One with several audiences is for the client that its provider names.
    if (has_several || claims.contains_key("azp")) && text("azp") != Some(expected.client_id) {
        return Err(OidcError::refused("it was made for another client"));
    }
    Ok(())
}

fn verified(
    token: &str,
    (header, key): (&Header, &DecodingKey),
    settings: &OidcSettings,
    audiences: &[String],
) -> Result<Map<String, Value>, OidcError> {
    let mut validation = Validation::new(header.alg);
    validation.leeway = settings.leeway_secs;
    validation.validate_nbf = true;
    validation.set_issuer(&[&settings.issuer]);
    validation.set_audience(audiences);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    let token = jsonwebtoken::decode::<Map<String, Value>>(token, key, &validation)
        .map_err(|error| OidcError::refused(reason(error.kind())))?;
    Ok(token.claims)
}

fn reason(kind: &ErrorKind) -> String {
    match kind {
        ErrorKind::ExpiredSignature => "it has expired".to_owned(),
        ErrorKind::ImmatureSignature => "it is not valid yet".to_owned(),
        ErrorKind::InvalidIssuer => "it is from another issuer".to_owned(),
        ErrorKind::InvalidAudience => "it is for another audience".to_owned(),
        ErrorKind::InvalidSignature => "its signature is invalid".to_owned(),
        ErrorKind::MissingRequiredClaim(claim) => format!("claim {claim} is missing"),
        ErrorKind::InvalidClaimFormat(claim) => format!("claim {claim} has an invalid format"),
        _ => "it cannot be verified".to_owned(),
    }
}

fn person(claims: &Map<String, Value>, settings: &OidcSettings) -> Result<Person, OidcError> {
    if claims.get("iss").and_then(Value::as_str) != Some(settings.issuer.as_str()) {
        return Err(OidcError::refused("it is from another issuer"));
    }
    let text = |claim: &str| claims.get(claim).and_then(Value::as_str);
    let subject = text("sub").filter(|subject| is_text(subject));
    let subject = subject.ok_or_else(|| OidcError::refused("claim sub has an invalid format"))?;
    let name = text(&settings.user_claim).filter(|name| is_name(name)).ok_or_else(|| {
        let claim = &settings.user_claim;
        OidcError::refused(format!(
            "claim {claim} is not a user name: 1 to {MAX_TEXT} characters without spaces, '/' and ':'"
        ))
    })?;
    let expires_at = claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
    Ok(Person {
        issuer: settings.issuer.clone(),
        subject: subject.to_owned(),
        name: name.to_owned(),
        email: text("email").filter(|email| is_text(email)).map(str::to_owned),
        groups: groups(claims, &settings.groups_claim),
        // A number that is too large saturates.
        expires_at: expires_at as i64,
    })
}

fn is_text(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= MAX_TEXT && !text.chars().any(char::is_control)
}

fn is_name(name: &str) -> bool {
    is_text(name) && !name.chars().any(|sign| sign.is_whitespace() || sign == '/' || sign == ':')
}

/// Returns the groups of a claim: a list of names or one name; a claim of exactly this name takes precedence over a path with dots.
fn groups(claims: &Map<String, Value>, claim: &str) -> Vec<String> {
    let found = claims.get(claim).or_else(|| {
        let mut names = claim.split('.');
        let first = claims.get(names.next()?)?;
        names.try_fold(first, |value, name| value.get(name))
    });
    match found {
        Some(Value::String(group)) => vec![group.clone()],
        Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(value: Value) -> Map<String, Value> {
        value.as_object().cloned().expect("an object")
    }

    #[test]
    fn groups_are_found_by_name_and_by_path() {
        let all = claims(json!({"groups": ["a", 1, "b"], "one": "c", "realm_access": {"roles": ["d"]},
                                "https://x.example/groups": ["e"]}));
        assert_eq!(groups(&all, "groups"), ["a", "b"]);
        assert_eq!(groups(&all, "one"), ["c"]);
        assert_eq!(groups(&all, "realm_access.roles"), ["d"]);
        assert_eq!(groups(&all, "https://x.example/groups"), ["e"]);
        assert!(groups(&all, "realm_access.none").is_empty() && groups(&all, "none").is_empty());
    }

    #[test]
    fn id_token_is_for_one_login_of_one_client() {
        let expected = Expected { client_id: "console", nonce: "n" };
        for (value, word) in [
            (json!({"nonce": "n", "aud": "console"}), ""),
            (json!({"nonce": "n", "aud": ["console"]}), ""),
            (json!({"nonce": "n", "aud": ["console", "api"], "azp": "console"}), ""),
            (json!({"nonce": "n", "aud": ["console", "api"]}), "another client"),
            (json!({"nonce": "n", "aud": "console", "azp": "other"}), "another client"),
            (json!({"nonce": "n", "aud": "console", "azp": 1}), "another client"),
            (json!({"nonce": "m", "aud": "console"}), "another login"),
            (json!({"aud": "console"}), "another login"),
            (json!({"nonce": null, "aud": "console"}), "another login"),
        ] {
            let checked = check_login(&claims(value.clone()), expected).map_err(|error| error.to_string());
            match word {
                "" => assert_eq!(checked, Ok(()), "{value}"),
                word => {
                    assert!(
                        checked.as_ref().is_err_and(|error| error.contains(word)),
                        "{value}: {checked:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn names_that_could_be_taken_for_something_else_are_refused() {
        for name in ["", "a b", "o/a", "a:b", "a\u{0}", "a\nb", &"x".repeat(201)] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(is_name("ann@plant.example") && is_name("Ännchen"));
    }

    #[test]
    fn unsigned_token_is_refused_before_any_key_is_searched() {
        use std::fmt::Write;
        let mut none = String::new();
        // {"alg":"none"} . {} .
        write!(none, "eyJhbGciOiJub25lIn0.e30.").expect("text");
        let long = "a".repeat(MAX_TOKEN_BYTES + 1);
        // {"alg":"HS256"} . {} . x
        for token in ["", "x", "a.b.c", none.as_str(), "eyJhbGciOiJIUzI1NiJ9.e30.eA", long.as_str()] {
            assert!(matches!(read_header(token), Err(OidcError::Refused(_))));
        }
    }
}
