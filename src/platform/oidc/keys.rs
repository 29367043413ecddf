//! The provider's signing keys: only public keys, each for algorithms of its own kind.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// Maximum number of keys; a key set has a handful.
const MOST_KEYS: usize = 100;

/// The document behind `jwks_uri`; keys of unknown types are skipped.
#[derive(Debug, Deserialize)]
pub(crate) struct KeyDocument {
    keys: Vec<Value>,
}

/// A key that may verify signatures.
#[derive(Clone)]
struct Key {
    id: Option<String>,
    algorithms: &'static [Algorithm],
    only: Option<String>,
    key: DecodingKey,
}

/// The usable keys of a document.
#[derive(Clone, Default)]
pub(crate) struct KeySet(Vec<Key>);

impl KeySet {
    /// Extracts the usable keys of a document.
    pub(crate) fn of(document: KeyDocument) -> KeySet {
        let keys = document.keys.into_iter().take(MOST_KEYS);
        KeySet(keys.filter_map(|key| usable(serde_json::from_value(key).ok()?)).collect())
    }

    /// Returns whether there is no usable key.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the key for a token: the one that it names, or the only suitable one if it names none.
    pub(crate) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
        let mut fitting = self.0.iter().filter(|key| {
            key.algorithms.contains(&algorithm)
                && key.only.as_ref().is_none_or(|only| *only == format!("{algorithm:?}"))
                && id.is_none_or(|id| key.id.as_deref() == Some(id))
        });
        let first = fitting.next()?;
        fitting.next().is_none().then(|| first.key.clone())
    }
}

fn usable(jwk: Jwk) -> Option<Key> {
    if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return None;
    }
    // Symmetric keys must not be published, because every reader of the set could sign with them.
    let algorithms: &'static [Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => &[
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
            Algorithm::PS256,
            Algorithm::PS384,
            Algorithm::PS512,
        ],
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => &[Algorithm::ES256],
            EllipticCurve::P384 => &[Algorithm::ES384],
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
        _ => return None,
    };
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    let only = jwk.common.key_algorithm.map(|algorithm| format!("{algorithm:?}"));
    Some(Key { id: jwk.common.key_id, algorithms, only, key })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(keys: Value) -> KeySet {
        KeySet::of(serde_json::from_value(json!({ "keys": keys })).expect("a document"))
    }

    fn elliptic(id: &str) -> Value {
        // The public key of RFC 7515, appendix A.3.
        json!({"kty": "EC", "crv": "P-256", "kid": id, "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
               "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"})
    }

    #[test]
    fn only_public_signing_keys_for_their_own_algorithms_are_used() {
        let with = |id: &str, name: &str, value: &str| {
            let mut key = elliptic(id);
            key[name] = json!(value);
            key
        };
        let keys = set(json!([
            elliptic("a"),
            with("b", "use", "enc"),
            with("c", "alg", "ES384"),
            {"kty": "oct", "kid": "d", "k": "c2VjcmV0"},
            {"kty": "unheard-of", "kid": "e"},
            "no key",
        ]));
        assert!(keys.find(Some("a"), Algorithm::ES256).is_some());
        for (id, algorithm) in [
            ("a", Algorithm::ES384),
            ("a", Algorithm::RS256),
            ("a", Algorithm::HS256),
            ("b", Algorithm::ES256),
            ("c", Algorithm::ES256),
            ("d", Algorithm::HS256),
            ("e", Algorithm::ES256),
            ("nobody", Algorithm::ES256),
        ] {
            assert!(keys.find(Some(id), algorithm).is_none(), "{id} {algorithm:?}");
        }
    }

    #[test]
    fn token_without_key_id_needs_a_set_with_one_fitting_key() {
        assert!(set(json!([elliptic("a")])).find(None, Algorithm::ES256).is_some());
        assert!(set(json!([elliptic("a"), elliptic("b")])).find(None, Algorithm::ES256).is_none());
        assert!(set(json!([])).is_empty());
    }
}
