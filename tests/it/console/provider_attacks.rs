//! Attacks on logins with an identity provider: each ends with a page that says so, without a session, in bounded time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::browser::{Browser, Page};
use super::provider_login::Plant;
use crate::support::identity_provider::{SigningKey, TokenEndpoint};

/// Longest time for a response to a login at a provider that does not respond: its limit is ten seconds.
const BOUND: Duration = Duration::from_secs(40);

fn require_refused(browser: &Browser, page: &Page, status: u16, text: &str) {
    assert!(
        page.status == status && page.text.contains(text),
        "{status} {text}: {} {}",
        page.status,
        page.text
    );
    assert!(browser.cookie.is_none() && page.refresh.is_none() && page.location.is_none(), "{}", page.text);
    assert!(browser.attempt.is_none(), "the attempt is over");
}

/// Replaces the value of a parameter.
fn replaced(path: &str, name: &str, value: &str) -> String {
    let (path, query) = path.split_once('?').expect("a query");
    let pairs = url::form_urlencoded::parse(query.as_bytes())
        .map(|(one, old)| if one == name { (one, value.into()) } else { (one, old) });
    format!("{path}?{}", url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish())
}

#[tokio::test]
async fn response_that_was_not_made_for_the_browser_begins_no_session() {
    let plant = Plant::start().await;
    plant.sit_down("mallory", &["plant-staff"]);
    let unbound = "was not begun in this browser";
    // Login CSRF: the attacker's response, in the browser of somebody who has begun nothing, or something else.
    let (mut mallory, mut victim) = (Browser::new(&plant.hub), Browser::new(&plant.hub));
    let back = plant.visit_provider(&mut mallory, "/console").await;
    let page = victim.get(&back).await;
    require_refused(&victim, &page, 400, unbound);
    plant.visit_provider(&mut victim, "/console").await;
    let page = victim.get(&back).await;
    require_refused(&victim, &page, 400, unbound);
    assert_eq!(plant.provider.token_requests(), 0, "the provider is not even asked");

    // States that are wrong, missing or there twice.
    for change in [
        |back: &str| replaced(back, "state", "guessed"),
        |back: &str| replaced(back, "state", ""),
        |back: &str| back.replace("state=", "stat="),
        |back: &str| format!("{back}&state=other"),
        |_: &str| "/console/login/oidc/callback".to_owned(),
    ] {
        let mut browser = Browser::new(&plant.hub);
        let back = plant.visit_provider(&mut browser, "/console").await;
        let page = browser.get(&change(&back)).await;
        require_refused(&browser, &page, 400, unbound);
    }
    assert_eq!(plant.provider.token_requests(), 0);

    // Replay: the state is gone with the cookie, and the code with its exchange, also for somebody who has copied the cookie.
    let attempt = mallory.attempt.clone();
    assert_eq!(mallory.get(&back).await.status, 200);
    mallory.cookie = None;
    let page = mallory.get(&back).await;
    require_refused(&mallory, &page, 400, unbound);
    mallory.attempt = attempt;
    let page = mallory.get(&back).await;
    require_refused(&mallory, &page, 401, "does not confirm this login");
}

#[tokio::test]
async fn code_of_another_login_or_client_is_not_exchanged() {
    let plant = Plant::start().await;
    plant.sit_down("ann", &["plant-staff"]);
    let (mut ann, mut mallory) = (Browser::new(&plant.hub), Browser::new(&plant.hub));
    let stolen = plant.visit_provider(&mut ann, "/console").await;
    let own = plant.visit_provider(&mut mallory, "/console").await;
    let code = |path: &str| {
        path.split("code=").nth(1).and_then(|rest| rest.split('&').next()).expect("a code").to_owned()
    };
    // The code is right, the state is the attacker's own, and the provider misses the verifier.
    let page = mallory.get(&replaced(&own, "code", &code(&stolen))).await;
    require_refused(&mallory, &page, 401, "does not confirm this login");
    for code in ["invented", "a code of another client"] {
        let own = plant.visit_provider(&mut mallory, "/console").await;
        let page = mallory.get(&replaced(&own, "code", code)).await;
        require_refused(&mallory, &page, 401, "does not confirm this login");
    }
    let before = plant.provider.token_requests();
    for code in ["", &"x".repeat(5_000)] {
        let own = plant.visit_provider(&mut mallory, "/console").await;
        let page = mallory.get(&replaced(&own, "code", code)).await;
        require_refused(&mallory, &page, 502, "does not accept the request");
    }
    assert_eq!(plant.provider.token_requests(), before, "the provider is not asked");
    let log = plant.log();
    assert!(log.contains("invalid_grant") && !log.contains(&code(&stolen)), "{log}");
}

#[tokio::test]
async fn response_of_another_issuer_is_not_used() {
    let plant = Plant::start().await;
    plant.sit_down("ann", &["plant-staff"]);
    let mut ann = Browser::new(&plant.hub);
    let back = plant.visit_provider(&mut ann, "/console").await;
    let page = ann.get(&replaced(&back, "iss", "https://evil.example")).await;
    require_refused(&ann, &page, 400, "This response is not from");
    assert_eq!(plant.provider.token_requests(), 0, "the code goes nowhere");
    // A provider that does not name itself is recognized by its id token.
    let back = plant.visit_provider(&mut ann, "/console").await;
    assert_eq!(ann.get(&back.replace("iss=", "iso=")).await.status, 200);
}

#[tokio::test]
async fn id_token_that_is_not_for_this_login_begins_no_session() {
    let plant = Plant::start().await;
    plant.sit_down("ann", &["plant-staff"]);
    let now = jiff::Timestamp::now().as_second();
    for further in [
        json!({"nonce": "of another login"}),
        json!({"nonce": Value::Null}),
        json!({"iss": "https://evil.example"}),
        json!({"aud": "another"}),
        json!({"aud": ["evenkeel", "another"]}),
        json!({"azp": "another"}),
        json!({"exp": now - 3_600}),
        json!({"sub": Value::Null}),
        json!({"preferred_username": "root/root"}),
    ] {
        plant.provider.set_token_endpoint(TokenEndpoint::With(further.clone()));
        let mut browser = Browser::new(&plant.hub);
        let page = plant.log_in(&mut browser, "/console").await;
        require_refused(&browser, &page, 401, "is not accepted; the log of the hub has the reason");
    }
    let log = plant.log();
    for reason in [
        "it was made for another login",
        "it was made for another client",
        "it has expired",
        "it is from another issuer",
    ] {
        assert!(log.contains(reason), "{reason}: {log}");
    }
    plant.provider.set_token_endpoint(TokenEndpoint::Forged);
    let mut browser = Browser::new(&plant.hub);
    let page = plant.log_in(&mut browser, "/console").await;
    require_refused(&browser, &page, 401, "is not accepted");
    // A key that is not published.
    plant.provider.set_token_endpoint(TokenEndpoint::Usual);
    let claims = plant.provider.claims("ann", &["plant-staff"]);
    plant.provider.sit_down(&SigningKey::elliptic("other"), claims);
    let page = plant.log_in(&mut browser, "/console").await;
    require_refused(&browser, &page, 401, "is not accepted");
    assert_eq!(plant.hub.call("GET", "/orgs/plant/users/ann", None).await.0, 404, "nobody was made");
}

#[tokio::test]
async fn provider_that_hangs_floods_or_redirects_costs_little() {
    let plant = Plant::start().await;
    plant.sit_down("ann", &["plant-staff"]);
    let private = plant.hub.url.clone() + "/v1/admin/version";
    for response in [
        TokenEndpoint::Endless,
        TokenEndpoint::To(private),
        TokenEndpoint::To("http://169.254.169.254/".to_owned()),
        TokenEndpoint::Fixed(200, "{".to_owned()),
        TokenEndpoint::Fixed(200, "{\"id_token\": null}".to_owned()),
        TokenEndpoint::Fixed(204, String::new()),
        TokenEndpoint::Fixed(500, "x".repeat(100_000)),
        TokenEndpoint::Silent,
    ] {
        plant.provider.set_token_endpoint(response.clone());
        let mut browser = Browser::new(&plant.hub);
        let begun = Instant::now();
        let page = plant.log_in(&mut browser, "/console").await;
        require_refused(&browser, &page, 503, "cannot confirm logins now");
        assert!(begun.elapsed() < BOUND, "{response:?}: {:?}", begun.elapsed());
    }
    let log = plant.log();
    assert!(log.contains("the document has more than 131072 bytes") && log.contains("status 307"), "{log}");
    plant.provider.set_token_endpoint(TokenEndpoint::Usual);
    let page = plant.log_in(&mut Browser::new(&plant.hub), "/console").await;
    assert_eq!(page.status, 200, "the provider has recovered: {}", page.text);
}

#[tokio::test]
async fn addresses_of_the_provider_that_are_not_allowed_are_not_used() {
    for (name, address) in [
        ("token_endpoint", "http://10.1.2.3/token"),
        ("token_endpoint", "file:///etc/passwd"),
        ("authorization_endpoint", "javascript:alert(1)"),
        ("authorization_endpoint", "http://evil.example/authorize"),
    ] {
        let plant = Plant::start_with(|provider| provider.discover(name, json!(address)), &[]).await;
        plant.sit_down("ann", &["plant-staff"]);
        let mut browser = Browser::new(&plant.hub);
        let page = match name {
            "token_endpoint" => plant.log_in(&mut browser, "/console").await,
            _ => browser.get("/console/login/oidc").await,
        };
        require_refused(&browser, &page, 503, "cannot confirm logins now");
        assert!(!page.text.contains(address), "{}", page.text);
        assert!(plant.log().contains(&format!("{name}: ")), "the log names the address: {}", plant.log());
    }
}

#[tokio::test]
async fn responses_from_one_address_are_limited() {
    let plant = Plant::start_with(|_| (), &["--trusted-proxies", "127.0.0.1"]).await;
    plant.sit_down("ann", &["plant-staff"]);
    let mut browser = Browser::new(&plant.hub);
    let back = plant.visit_provider(&mut browser, "/console").await;
    let (attempt, wrong) = (browser.attempt.clone(), replaced(&back, "state", "guessed"));
    let mut statuses = Vec::new();
    for _ in 0..60 {
        browser.attempt = attempt.clone();
        let from = [("x-forwarded-for", "203.0.113.9")];
        let page = browser.request(Method::GET, &wrong, None, &from).await;
        statuses.push(page.status);
        if page.status == 429 {
            require_refused(&browser, &page, 429, "Too many logins from your address. Try again in ");
            break;
        }
    }
    assert!(statuses.len() > 30 && statuses.last() == Some(&429), "{statuses:?}");
    browser.attempt = attempt;
    let page = browser.request(Method::GET, &back, None, &[("x-forwarded-for", "198.51.100.7")]).await;
    assert_eq!(page.status, 200, "others are not concerned: {}", page.text);
}

#[tokio::test]
async fn logins_that_wait_for_the_provider_are_bounded_in_number() {
    let plant = Plant::start().await;
    plant.sit_down("ann", &["plant-staff"]);
    plant.provider.set_token_endpoint(TokenEndpoint::Silent);
    let mut waiting = Vec::new();
    for _ in 0..24 {
        let mut browser = Browser::new(&plant.hub);
        let back = plant.visit_provider(&mut browser, "/console").await;
        waiting.push(async move { browser.get(&back).await.status });
    }
    let begun = Instant::now();
    let statuses = futures_util::future::join_all(waiting).await;
    assert!(statuses.iter().all(|status| *status == 503), "{statuses:?}");
    assert!(
        plant.provider.token_requests() <= 16 && begun.elapsed() < BOUND,
        "{}",
        plant.provider.token_requests()
    );
    assert!(plant.log().contains("too many logins wait for the identity provider"));
}

#[tokio::test]
async fn login_leads_to_pages_of_the_console_only() {
    let plant = Plant::start().await;
    plant.sit_down("ann", &["plant-staff"]);
    for next in [
        "https://evil.example/",
        "//evil.example",
        "/console\\evil",
        "/v1/orgs",
        "/console/\r\nrefresh: 1",
        "javascript:alert(1)",
        &format!("/console/{}", "x".repeat(2_000)),
    ] {
        let mut browser = Browser::new(&plant.hub);
        let page = plant.log_in(&mut browser, next).await;
        assert_eq!(page.refresh.as_deref(), Some("0; url=/console"), "{next}");
        assert!(
            page.addresses().contains(&"/console".to_owned()) && !page.text.contains("evil"),
            "{}",
            page.text
        );
    }
    // Also when the cookie says otherwise.
    let mut browser = Browser::new(&plant.hub);
    let back = plant.visit_provider(&mut browser, "/console").await;
    let (name, value) = browser
        .attempt
        .clone()
        .and_then(|pair| Some(pair.split_once('=')?).map(|(a, b)| (a.to_owned(), b.to_owned())))
        .expect("a cookie");
    let mut pending = decoded(&value);
    pending["p"] = json!("https://evil.example/");
    browser.attempt = Some(format!("{name}={}", encoded(&pending)));
    assert_eq!(browser.get(&back).await.refresh.as_deref(), Some("0; url=/console"));
    // An attempt of long ago is over, whatever the browser has kept.
    let mut browser = Browser::new(&plant.hub);
    let back = plant.visit_provider(&mut browser, "/console").await;
    let mut pending =
        decoded(browser.attempt.as_deref().and_then(|pair| pair.split_once('=')).expect("a cookie").1);
    pending["t"] = json!(pending["t"].as_u64().expect("seconds") - 601);
    browser.attempt = Some(format!("{name}={}", encoded(&pending)));
    let page = browser.get(&back).await;
    require_refused(&browser, &page, 400, "took more than 10 minutes");
}

fn decoded(value: &str) -> Value {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(value).expect("base64");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn encoded(value: &Value) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string())
}

#[tokio::test]
async fn pages_of_other_sites_begin_no_login_and_errors_of_the_provider_are_not_repeated() {
    let plant = Plant::start().await;
    let mut browser = Browser::new(&plant.hub);
    for headers in [
        &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")][..],
        &[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")],
    ] {
        let page =
            browser.request(Method::GET, "/console/login/oidc?next=/console/orgs/plant", None, headers).await;
        let login = "/console/login?next=%2Fconsole%2Forgs%2Fplant";
        assert_eq!((page.status, page.location.as_deref()), (303, Some(login)), "{headers:?}");
        assert!(browser.attempt.is_none(), "{headers:?}");
    }
    // Posts are refused like everywhere.
    let form = BTreeMap::from([("next", "/console")]);
    assert_eq!(browser.send("/console/login/oidc", &form).await.status, 405);

    // Nobody is at the browser: the provider refuses, with a text that an attacker may have chosen.
    let page = plant.log_in(&mut browser, "/console").await;
    require_refused(&browser, &page, 403, "did not permit the login");
    assert!(!page.text.contains("<b>no</b>") && !page.text.contains("&#60;b&#62;no"), "{}", page.text);
    for (error, status) in [("server_error", 503), ("invalid_scope", 502), ("<script>", 502)] {
        let back = plant.visit_provider(&mut browser, "/console").await;
        let page = browser.get(&replaced(&back, "error", error)).await;
        require_refused(&browser, &page, status, "login");
        assert!(!page.text.contains(error) && !page.text.contains("&#60;script"), "{}", page.text);
    }
    let without_state = "/console/login/oidc/callback?error=access_denied";
    plant.visit_provider(&mut browser, "/console").await;
    let page = browser.get(without_state).await;
    require_refused(&browser, &page, 400, "was not begun in this browser");
}
