//! People log in with tokens of an identity provider: the good ones get their role, all others get nothing.

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evenkeel_exchange::{ExchangeSettings, OidcSettings};
use evenkeel_http_server::tls::Authority;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use super::api::{Api, ROOT, read_response};
use crate::support::identity_provider::{IdentityProvider, SigningKey};
use crate::support::wait::must;
use crate::support::{Scratch, TestDatabase, eventually};

const OWN: &str = "/orgs/plant/users/apikey";

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// An exchange with organization `plant` that trusts the provider.
async fn start(database: &TestDatabase, oidc: OidcSettings) -> Api {
    let api =
        Api::start_with(database, ExchangeSettings { oidc: Some(oidc), ..ExchangeSettings::default() }).await;
    if api.call(ROOT, "GET", "/orgs/plant", Value::Null).await.0 == 404 {
        api.make_org("plant").await;
    }
    api
}

#[tokio::test]
async fn people_have_the_role_of_their_group_and_own_what_they_make() {
    let key = SigningKey::rsa("k1");
    let provider = IdentityProvider::start(&[&key]).await;
    let (database, second) = (TestDatabase::new().await, SigningKey::elliptic("k2"));
    provider.publish(&[&key, &second]);
    let api = start(&database, provider.settings()).await;

    let ann = bearer(&key.sign(&provider.claims("ann", &["offline_access", "plant-staff"])));
    let own = api.expect(200, &ann, "GET", OWN, Value::Null).await;
    assert_eq!(own["users"]["plant/ann"]["email"], "ann@plant.example", "{own}");
    assert_eq!(own["users"]["plant/ann"]["admin"], false);
    api.make_node(&ann, "plant", "n").await;
    let node = api.expect(200, &ann, "GET", "/orgs/plant/nodes/n", Value::Null).await;
    assert_eq!(node["nodes"]["plant/n"]["owner"], "plant/ann");
    api.expect(403, &ann, "GET", "/orgs/plant/users", Value::Null).await;
    let bob = bearer(&second.sign(&provider.claims("bob", &["plant-staff"])));
    api.expect(403, &bob, "GET", "/orgs/plant/nodes/n", Value::Null).await;

    let chief = bearer(&key.sign(&provider.claims("chief", &["plant-staff", "plant-admins"])));
    let users = api.expect(200, &chief, "GET", "/orgs/plant/users", Value::Null).await;
    assert!(
        users["users"]["plant/ann"].is_object() && users["users"]["plant/chief"]["admin"] == true,
        "{users}"
    );
    let reported = api.expect(200, &chief, "GET", "/orgs/plant/audit?caller=plant/ann", Value::Null).await;
    assert_eq!(reported["records"][0]["operation"], "provide_account", "{reported}");
    let hub = bearer(&key.sign(&provider.claims("hub", &["hub-admins"])));
    api.expect(201, &hub, "POST", "/orgs/lab", json!({"label": "", "description": ""})).await;
    api.expect(403, &hub, "GET", "/orgs/plant/nodes", Value::Null).await;
    let root = bearer(&key.sign(&provider.claims("admin", &["roots"])));
    api.expect(201, &root, "POST", "/admin/clearauthcaches", Value::Null).await;
    api.expect(403, &hub, "POST", "/admin/clearauthcaches", Value::Null).await;

    // The provider decides again with every token.
    let promoted = bearer(&key.sign(&provider.claims("ann", &["plant-admins"])));
    api.expect(200, &promoted, "GET", "/orgs/plant/users", Value::Null).await;
    let agbot = json!({"token": "t", "name": "b", "publicKey": ""});
    api.expect(201, &promoted, "PUT", "/orgs/plant/agbots/b", agbot).await;
    let made = api.expect(201, &promoted, "POST", "/orgs/plant/users/u/apikeys", json!({})).await;
    let made = format!("plant/apikey:{}", made["value"].as_str().expect("a value"));
    api.expect(200, &made, "GET", "/orgs/plant", Value::Null).await;
    let last = api.expect(200, ROOT, "GET", "/changes/maxchangeid", Value::Null).await;
    let demoted = bearer(&key.sign(&provider.claims("ann", &["plant-staff", "again"])));
    api.expect(403, &demoted, "GET", "/orgs/plant/users", Value::Null).await;
    // What she gave as an administrator ends, and agbots read so in the feed.
    let from = json!({"changeId": last["maxChangeId"].as_i64().expect("a number") + 1, "maxRecords": 100, "extensions": true});
    let changes = api.expect(201, ROOT, "POST", "/orgs/plant/changes", from).await;
    let is_reported = |change: &Value| change["resource"] == "agbotapproval" && change["id"] == "b";
    assert!(changes["changes"].as_array().expect("a list").iter().any(is_reported), "{changes}");
    api.expect(401, &made, "GET", "/orgs/plant", Value::Null).await;
    // A user with roles in two organizations names one of them.
    let both = bearer(&key.sign(&provider.claims("eve", &["plant-staff", "lab-staff"])));
    let sent =
        api.send(&both, "GET", "/orgs/lab/users/apikey", &[("x-organization", "lab")], &Value::Null).await;
    assert!(read_response(sent).await.1["users"]["lab/eve"].is_object());
    api.expect(403, &both, "GET", "/orgs/lab/users/apikey", Value::Null).await;
}

#[tokio::test]
async fn group_of_viewers_or_deployers_limits_its_members_until_they_leave_it() {
    let key = SigningKey::rsa("k1");
    let provider = IdentityProvider::start(&[&key]).await;
    let database = TestDatabase::new().await;
    let api = start(&database, provider.settings()).await;
    let staff = bearer(&key.sign(&provider.claims("ann", &["plant-staff"])));
    api.make_node(&staff, "plant", "n").await;
    for policy in ["shop-1", "web"] {
        api.make_policy("plant", policy, Value::Null).await;
    }
    let stored = async || {
        let found = api.expect(200, ROOT, "GET", "/orgs/plant/users/ann", Value::Null).await;
        let user = &found["users"]["plant/ann"];
        (user["role"].clone(), user["policies"].clone())
    };
    let label = json!({"label": "l"});

    let guest = bearer(&key.sign(&provider.claims("ann", &["plant-guests"])));
    let own = api.expect(200, &guest, "GET", OWN, Value::Null).await;
    assert_eq!(own["users"]["plant/ann"]["role"], "viewer", "{own}");
    assert_eq!(stored().await, (json!("viewer"), Value::Null));
    api.expect(200, &guest, "GET", "/orgs/plant/users", Value::Null).await;
    api.expect(403, &guest, "PATCH", "/orgs/plant/nodes/n", json!({"arch": "arm"})).await;
    let keys = api.expect(201, &guest, "POST", "/orgs/plant/users/ann/apikeys", json!({})).await;
    let by_key = format!("plant/apikey:{}", keys["value"].as_str().expect("a value"));
    api.expect(403, &by_key, "PATCH", "/orgs/plant/nodes/n", json!({"arch": "arm"})).await;

    let shop = bearer(&key.sign(&provider.claims("ann", &["plant-shop"])));
    api.expect(201, &shop, "PATCH", "/orgs/plant/business/policies/shop-1", label.clone()).await;
    api.expect(403, &shop, "PATCH", "/orgs/plant/business/policies/web", label.clone()).await;
    assert_eq!(stored().await, (json!("deployer"), json!(["shop-*"])));
    api.expect(201, &by_key, "PATCH", "/orgs/plant/business/policies/shop-1", label.clone()).await;
    api.expect(403, &by_key, "PATCH", "/orgs/plant/business/policies/web", label).await;

    // The provider decides again with the next token.
    let left = bearer(&key.sign(&provider.claims("ann", &["plant-staff", "again"])));
    api.expect(201, &left, "PATCH", "/orgs/plant/nodes/n", json!({"arch": "arm"})).await;
    assert_eq!(stored().await, (Value::Null, Value::Null));
    api.expect(403, &by_key, "PATCH", "/orgs/plant/business/policies/shop-1", json!({"label": "l"})).await;
}

/// Tokens that are not accepted, each for one reason.
fn bad_tokens(provider: &IdentityProvider, key: &SigningKey) -> Vec<(&'static str, String)> {
    let now = jiff::Timestamp::now().as_second();
    let with = |claim: &str, value: Value| {
        let mut claims = provider.claims("ann", &["plant-staff"]);
        claims[claim] = value;
        claims
    };
    let without = |claim: &str| {
        let mut claims = provider.claims("ann", &["plant-staff"]);
        claims.as_object_mut().expect("an object").remove(claim);
        claims
    };
    let good = provider.claims("ann", &["plant-staff"]);
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let unsigned = |algorithm: &str| {
        format!("{}.{}.", encoded(&json!({"alg": algorithm, "typ": "JWT", "kid": key.id})), encoded(&good))
    };
    let confused = |secret: &[u8]| {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some(key.id.clone());
        must(jsonwebtoken::encode(&header, &good, &EncodingKey::from_secret(secret)), "a token")
    };
    let published = key.published();
    let modulus = published["n"].as_str().expect("a modulus");
    let outsider = SigningKey { id: key.id.clone(), ..SigningKey::elliptic("x") };
    let forger = SigningKey { id: key.id.clone(), ..SigningKey::rsa("x") };
    let signed = key.sign(&good);
    let (head, tail) = signed.rsplit_once('.').expect("a signature");
    let (header, _) = head.split_once('.').expect("a body");
    vec![
        ("expired", key.sign(&with("exp", json!(now - 60)))),
        ("without an end", key.sign(&without("exp"))),
        ("not valid yet", key.sign(&with("nbf", json!(now + 600)))),
        ("for another audience", key.sign(&with("aud", json!("another")))),
        ("for no audience", key.sign(&without("aud"))),
        ("from another issuer", key.sign(&with("iss", json!("https://elsewhere.example")))),
        (
            "from several issuers",
            key.sign(&with("iss", json!([provider.issuer, "https://elsewhere.example"]))),
        ),
        ("without a subject", key.sign(&without("sub"))),
        ("without a name", key.sign(&without("preferred_username"))),
        ("with a name that is none", key.sign(&with("preferred_username", json!("root/root")))),
        ("unsigned", unsigned("none")),
        ("unsigned, in capitals", unsigned("NONE")),
        ("unsigned, said to be signed", unsigned("RS256")),
        ("signed with the public key as a secret", confused(published.to_string().as_bytes())),
        ("signed with the modulus as a secret", confused(&must(URL_SAFE_NO_PAD.decode(modulus), "base64"))),
        ("signed by somebody else under this key's id", forger.sign(&good)),
        ("signed with another kind of key under this key's id", outsider.sign(&good)),
        (
            "changed after it was signed",
            format!("{header}.{}.{tail}", encoded(&with("realm_access", json!({"roles": ["roots"]})))),
        ),
        ("no token", "x".to_owned()),
        ("too long", format!("{signed}{}", "x".repeat(9_000))),
    ]
}

#[tokio::test]
async fn tokens_that_are_not_good_open_nothing_and_are_not_repeated() {
    let key = SigningKey::rsa("k1");
    let provider = IdentityProvider::start(&[&key]).await;
    let database = TestDatabase::new().await;
    let api = start(&database, provider.settings()).await;
    for (what, token) in bad_tokens(&provider, &key) {
        let (status, body) = api.call(&bearer(&token), "GET", OWN, Value::Null).await;
        assert_eq!(status, 401, "{what}: {body}");
        assert!(
            !body.to_string().contains(&token) && body["code"] == "invalid-credentials",
            "{what}: {body}"
        );
    }
    let unknown = bearer(&key.sign(&provider.claims("ann", &["offline_access"])));
    let body = api.expect(403, &unknown, "GET", OWN, Value::Null).await;
    assert_eq!(body["code"], "access-denied");
    let users = api.expect(200, ROOT, "GET", "/orgs/plant/users", Value::Null).await;
    assert_eq!(users["users"].as_object().map(serde_json::Map::len), Some(3), "nobody was made: {users}");
    // An exchange without a provider takes no token at all.
    let (other, good) = (TestDatabase::new().await, bearer(&key.sign(&provider.claims("ann", &["roots"]))));
    Api::start(&other).await.expect(401, &good, "GET", "/orgs", Value::Null).await;
}

#[tokio::test]
async fn rotated_keys_are_fetched_once_and_guessed_key_ids_do_not_flood_the_provider() {
    let (old, new) = (SigningKey::elliptic("old"), SigningKey::elliptic("new"));
    let provider = IdentityProvider::start(&[&old]).await;
    let database = TestDatabase::new().await;
    let settings = OidcSettings { key_refresh_min_secs: 3600, ..provider.settings() };
    let bounded = start(&database, settings).await;
    bounded
        .expect(200, &bearer(&old.sign(&provider.claims("ann", &["plant-staff"]))), "GET", OWN, Value::Null)
        .await;
    let before = provider.fetch_count();
    for number in 0..20 {
        let guess = SigningKey { id: format!("guess-{number}"), ..SigningKey::elliptic("x") };
        let token = bearer(&guess.sign(&provider.claims("ann", &["roots"])));
        bounded.expect(401, &token, "GET", OWN, Value::Null).await;
    }
    assert_eq!(provider.fetch_count(), before, "no fetch within the shortest time between two");

    let api = start(&database, provider.settings()).await;
    let good = bearer(&old.sign(&provider.claims("bob", &["plant-staff"])));
    api.expect(200, &good, "GET", OWN, Value::Null).await;
    provider.publish(&[&new]);
    let rotated = bearer(&new.sign(&provider.claims("bob", &["plant-staff"])));
    eventually("the new key is known", || async {
        (api.call(&rotated, "GET", OWN, Value::Null).await.0 == 200).then_some(())
    })
    .await;
    let taken_back = bearer(&old.sign(&provider.claims("carl", &["plant-staff"])));
    api.expect(401, &taken_back, "GET", OWN, Value::Null).await;
}

#[tokio::test]
async fn provider_that_is_away_stops_new_people_only_until_its_keys_are_known() {
    let key = SigningKey::elliptic("k1");
    let provider = IdentityProvider::start(&[&key]).await;
    provider.set_up(false);
    let database = TestDatabase::new().await;
    let api = start(&database, OidcSettings { key_max_age_secs: 1, ..provider.settings() }).await;
    let ann = bearer(&key.sign(&provider.claims("ann", &["plant-staff"])));
    let body = api.expect(503, &ann, "GET", OWN, Value::Null).await;
    assert!(!body.to_string().contains("localhost"), "inside text stays inside: {body}");
    api.expect(200, "plant/u:pu", "GET", OWN, Value::Null).await;
    provider.set_up(true);
    eventually("the provider is asked again", || async {
        (api.call(&ann, "GET", OWN, Value::Null).await.0 == 200).then_some(())
    })
    .await;
    provider.set_up(false);
    let see_somebody_new = async |number: usize| {
        let late = bearer(&key.sign(&provider.claims(&format!("late-{number}"), &["plant-staff"])));
        api.expect(200, &late, "GET", OWN, Value::Null).await;
    };
    let refused = provider.refused_count();
    let numbers = AtomicUsize::new(0);
    eventually("the keys are so old that they are fetched anew, which fails", || async {
        see_somebody_new(numbers.fetch_add(1, Ordering::Relaxed)).await;
        (provider.refused_count() > refused).then_some(())
    })
    .await;
    // The known key keeps working.
    for _ in 0..3 {
        see_somebody_new(numbers.fetch_add(1, Ordering::Relaxed)).await;
    }
}

#[tokio::test]
async fn names_of_others_are_not_taken_over() {
    let key = SigningKey::elliptic("k1");
    let provider = IdentityProvider::start(&[&key]).await;
    let database = TestDatabase::new().await;
    let api = start(&database, provider.settings()).await;
    api.make_node("plant/u:pu", "plant", "n").await;
    let local = bearer(&key.sign(&provider.claims("u", &["plant-admins"])));
    api.expect(403, &local, "GET", OWN, Value::Null).await;
    let as_node = bearer(&key.sign(&provider.claims("n", &["plant-staff"])));
    api.expect(403, &as_node, "GET", OWN, Value::Null).await;
    let as_root = bearer(&key.sign(&provider.claims("root", &["hub-admins"])));
    api.expect(403, &as_root, "GET", "/orgs", Value::Null).await;
    let reserved = bearer(&key.sign(&provider.claims("apikey", &["plant-staff"])));
    api.expect(403, &reserved, "GET", OWN, Value::Null).await;

    let claims = provider.claims("ann", &["plant-staff"]);
    api.expect(200, &bearer(&key.sign(&claims)), "GET", OWN, Value::Null).await;
    let mut renamed = claims.clone();
    renamed["preferred_username"] = json!("anna");
    let own = api.expect(200, &bearer(&key.sign(&renamed)), "GET", OWN, Value::Null).await;
    assert!(own["users"]["plant/ann"].is_object(), "the account follows the subject: {own}");
    let mut successor = claims;
    successor["sub"] = json!("somebody else");
    api.expect(403, &bearer(&key.sign(&successor)), "GET", OWN, Value::Null).await;

    // Only where the configuration says so a local user becomes the provider's.
    let linking = start(&database, OidcSettings { link_existing_users: true, ..provider.settings() }).await;
    linking.expect(200, &local, "GET", "/orgs/plant/users", Value::Null).await;
    linking.expect(200, &local, "GET", "/orgs/plant/nodes/n", Value::Null).await;
    linking.expect(403, &as_root, "GET", "/orgs", Value::Null).await;
    linking.expect(403, &bearer(&key.sign(&successor)), "GET", OWN, Value::Null).await;
}

#[tokio::test]
async fn changed_account_is_seen_at_once_and_a_deleted_one_is_made_anew() {
    let key = SigningKey::elliptic("k1");
    let provider = IdentityProvider::start(&[&key]).await;
    let database = TestDatabase::new().await;
    let api = start(&database, provider.settings()).await;
    let ann = bearer(&key.sign(&provider.claims("ann", &["plant-staff"])));
    api.expect(200, &ann, "GET", OWN, Value::Null).await;
    api.make_node(&ann, "plant", "n").await;
    api.expect(204, "plant/admin:pa", "DELETE", "/orgs/plant/users/ann", Value::Null).await;
    eventually("the account is made anew", || async {
        (api.call(&ann, "GET", OWN, Value::Null).await.0 == 200).then_some(())
    })
    .await;
    api.expect(404, "plant/admin:pa", "GET", "/orgs/plant/nodes/n", Value::Null).await;
    let gone = OidcSettings { roles: provider.settings().roles, ..provider.settings() };
    let api = start(&database, gone).await;
    let lab = bearer(&key.sign(&provider.claims("ann", &["lab-staff"])));
    let body = api.expect(403, &lab, "GET", OWN, Value::Null).await;
    assert!(
        body["msg"].as_str().is_some_and(|text| text.contains("'lab'")),
        "the organization is missing: {body}"
    );
}

#[tokio::test]
async fn provider_behind_tls_is_trusted_by_its_authority_only() {
    let scratch = Scratch::new();
    let authority = Authority::new(scratch.join("tls"));
    let certificate = authority.certify(&["localhost".to_owned()], jiff::Timestamp::now());
    let key = SigningKey::elliptic("k1");
    let provider = IdentityProvider::start_with(&[&key], Some(must(certificate, "a certificate"))).await;
    let database = TestDatabase::new().await;
    let ann = bearer(&key.sign(&provider.claims("ann", &["plant-staff"])));
    let trusting = OidcSettings { ca_file: Some(authority.certificate_file()), ..provider.settings() };
    start(&database, trusting).await.expect(200, &ann, "GET", OWN, Value::Null).await;
    let other = Authority::new(scratch.join("other"));
    must(other.certify(&["localhost".to_owned()], jiff::Timestamp::now()), "a certificate");
    let strange = OidcSettings { ca_file: Some(other.certificate_file()), ..provider.settings() };
    let bob = bearer(&key.sign(&provider.claims("bob", &["plant-staff"])));
    start(&database, strange).await.expect(503, &bob, "GET", OWN, Value::Null).await;
}
