//! Logins with an identity provider: from the link of the login page to the end of the session.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::browser::{Browser, Page};
use crate::support::identity_provider::{
    AUDIENCE, CLIENT, CLIENT_SECRET, IdentityProvider, PUBLIC_URL, SigningKey, TokenEndpoint,
};
use crate::support::wait::must;
use crate::support::{Hub, Scratch};

/// A hub with organizations `plant` and `lab` whose console has logins with a provider.
pub(super) struct Plant {
    pub(super) hub: Hub,
    pub(super) key: SigningKey,
    pub(super) provider: IdentityProvider,
    /// Follows the browser to the provider, which is another site.
    client: reqwest::Client,
    _scratch: Scratch,
}

fn configuration(issuer: &str, secret_file: &str) -> String {
    let rule = |group: &str, role: &str, organization: &str| {
        format!("[[oidc.roles]]\ngroup = \"{group}\"\nrole = \"{role}\"\norganization = \"{organization}\"\n")
    };
    format!(
        "[oidc]\nissuer = \"{issuer}\"\naudiences = [\"{AUDIENCE}\"]\ngroups-claim = \"realm_access.roles\"\n\
         key-refresh-min-secs = 1\n{}{}{}{}\
         [oidc.console]\nname = \"Plant <login>\"\nclient-id = \"{CLIENT}\"\nclient-secret-file = \"{secret_file}\"\n\
         public-url = \"{PUBLIC_URL}\"\n",
        rule("plant-staff", "user", "plant"),
        rule("plant-admins", "org-admin", "plant"),
        rule("lab-guests", "viewer", "lab"),
        rule("ghosts", "user", "nowhere"),
    )
}

impl Plant {
    pub(super) async fn start() -> Self {
        Self::start_with(|_| (), &[]).await
    }

    /// The same with a provider that is prepared before the hub knows it, and further options of the hub.
    pub(super) async fn start_with(prepare: impl FnOnce(&IdentityProvider), options: &[&str]) -> Self {
        let (scratch, key) = (Scratch::new(), SigningKey::elliptic("k1"));
        let provider = IdentityProvider::start(&[&key]).await;
        prepare(&provider);
        let secret = scratch.write("client-secret", &format!("{CLIENT_SECRET}\n"));
        let file = scratch.write("hub.toml", &configuration(&provider.issuer, &secret.to_string_lossy()));
        let file = file.to_string_lossy();
        let mut arguments = vec!["--config", &*file, "--log", "debug"];
        arguments.extend_from_slice(options);
        let hub = Hub::start(&scratch, &arguments).await;
        for org in ["plant", "lab"] {
            let body = json!({"label": "", "description": ""});
            assert_eq!(hub.call("POST", &format!("/orgs/{org}"), Some(body)).await.0, 201);
        }
        let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        Self { hub, key, provider, client: must(builder.build(), "a client"), _scratch: scratch }
    }

    /// Lets a user in these groups be at the browsers.
    pub(super) fn sit_down(&self, name: &str, groups: &[&str]) {
        self.provider.sit_down(&self.key, self.provider.claims(name, groups));
    }

    /// Follows the link of the login page; returns the path and query with which the provider sends the browser back.
    pub(super) async fn visit_provider(&self, browser: &mut Browser, next: &str) -> String {
        let next: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
        self.follow(browser, &format!("/console/login/oidc?next={next}"), false).await
    }

    /// Follows a link that leads to the provider, which may ask the user for something or not.
    async fn follow(&self, browser: &mut Browser, link: &str, is_silent: bool) -> String {
        let page = browser.get(link).await;
        assert_eq!(page.status, 303, "{}", page.text);
        let address = page.location.expect("the address of the provider");
        assert!(address.starts_with(&self.provider.issuer), "{address}");
        assert_eq!(address.contains("prompt=none"), is_silent, "{address}");
        let response = must(self.client.get(&address).send().await, "a response of the provider");
        let location = response.headers().get("location").and_then(|value| value.to_str().ok());
        let location = location.unwrap_or_else(|| panic!("the provider refuses {address}")).to_owned();
        location.strip_prefix(PUBLIC_URL).expect("the redirect address").to_owned()
    }

    /// Logs the user who is at the browser in.
    pub(super) async fn log_in(&self, browser: &mut Browser, next: &str) -> Page {
        let back = self.visit_provider(browser, next).await;
        browser.get(&back).await
    }

    /// Returns what the hub has logged.
    pub(super) fn log(&self) -> String {
        self.hub.program.errors() + &self.hub.program.output()
    }
}

#[tokio::test]
async fn login_with_the_provider_begins_a_session_with_the_role_of_the_group() {
    let plant = Plant::start().await;
    let mut ann = Browser::new(&plant.hub);
    let page = ann.get("/console/login?next=%2Fconsole%2Forgs%2Fplant%2Fnodes").await;
    assert!(page.text.contains("Log in with Plant &#60;login&#62;"), "{}", page.text);
    assert!(
        page.addresses()
            .iter()
            .any(|address| address.contains("/console/login/oidc?next=%2Fconsole%2Forgs%2Fplant%2Fnodes")),
        "{}",
        page.text
    );
    plant.sit_down("ann", &["plant-staff"]);
    let back = plant.visit_provider(&mut ann, "/console/orgs/plant/nodes").await;
    let attempt = ann.attempt.clone().expect("a cookie");
    assert!(attempt.starts_with("__Host-evenkeel-login="), "{attempt}");
    let page = ann.get(&back).await;
    assert_eq!((page.status, page.location.as_deref()), (200, None), "{}", page.text);
    assert_eq!(page.refresh.as_deref(), Some("0; url=/console/orgs/plant/nodes"), "{}", page.text);
    assert!(
        page.text.contains("href=\"/console/orgs/plant/nodes\""),
        "the link for browsers that do not follow"
    );
    assert!(
        ann.attempt.is_none() && page.set_cookies.len() == 2,
        "the attempt is over: {:?}",
        page.set_cookies
    );
    assert!(
        page.set_cookies.iter().any(|set| set.contains("SameSite=Strict; Max-Age=43200")),
        "{:?}",
        page.set_cookies
    );

    assert_eq!(ann.get("/console/orgs/plant/nodes").await.status, 200);
    let page = ann.get("/console/account").await;
    assert!(
        page.text.contains("plant/ann") && page.text.contains("User of the organization."),
        "{}",
        page.text
    );
    assert_eq!(ann.get("/console/orgs/lab/nodes").await.status, 403);
    let (_, user) = plant.hub.call("GET", "/orgs/plant/users/ann", None).await;
    let keys = user["users"]["plant/ann"]["apikeys"].as_array().expect("keys").clone();
    assert_eq!(keys.len(), 1, "a session is a key: {user}");
    assert_eq!(keys[0]["description"], "begun by a login to the console with Plant <login>");
    assert!(keys[0]["expiresAt"].is_string(), "a session ends: {user}");

    // Sessions are listed and end like those of a login with a password.
    let mut second = Browser::new(&plant.hub);
    assert_eq!(plant.log_in(&mut second, "/console").await.status, 200);
    assert_eq!(ann.get("/console/account").await.text.matches(">End</button>").count(), 2);
    let all = BTreeMap::from([("session", "all")]);
    let page = ann.send("/console/account/sessions/end", &all).await;
    assert_eq!((page.status, page.location.as_deref()), (303, Some("/console/login?left=1")));
    assert_eq!(second.get("/console/account").await.status, 303, "logged out everywhere");

    let log = plant.log();
    let code = back.split("code=").nth(1).and_then(|rest| rest.split('&').next()).expect("a code");
    assert!(
        !log.contains(code) && !log.contains("eyJ") && !log.contains(CLIENT_SECRET),
        "no secret is logged"
    );
}

#[tokio::test]
async fn group_decides_about_role_and_organization() {
    let plant = Plant::start().await;
    let mut chief = Browser::new(&plant.hub);
    plant.sit_down("chief", &["plant-admins", "lab-guests"]);
    assert_eq!(plant.log_in(&mut chief, "/console").await.status, 200);
    let page = chief.get("/console/account").await;
    assert!(page.text.contains("Administrator of the organization."), "{}", page.text);
    // The page to which the login leads is of another organization in which a group has a role.
    let page = plant.log_in(&mut chief, "/console/orgs/lab/nodes").await;
    assert_eq!(page.refresh.as_deref(), Some("0; url=/console/orgs/lab/nodes"), "{}", page.text);
    assert_eq!(chief.get("/console/orgs/lab/nodes").await.status, 200);
    let page = chief.get("/console/account").await;
    assert!(
        page.text.contains("lab/chief") && page.text.contains("<strong>viewer</strong>"),
        "{}",
        page.text
    );

    // No role, an organization that does not exist, and a name that belongs to somebody else: a page, and no way round and round.
    let body = json!({"password": "secret of local", "email": "e", "admin": false});
    assert_eq!(plant.hub.call("POST", "/orgs/plant/users/local", Some(body)).await.0, 201);
    for (name, groups, text) in [
        ("guest", &["others"][..], "none of the groups of &#39;guest&#39; has a role here"),
        ("ghost", &["ghosts"], "organization &#39;nowhere&#39; of your role does not exist"),
        ("local", &["plant-admins"], "belongs to another account here"),
    ] {
        let mut browser = Browser::new(&plant.hub);
        plant.sit_down(name, groups);
        let page = plant.log_in(&mut browser, "/console").await;
        assert!(page.status == 403 && page.text.contains(text), "{name}: {} {}", page.status, page.text);
        assert!(page.refresh.is_none() && page.location.is_none() && browser.cookie.is_none(), "{name}");
        assert!(page.text.contains(&format!("href=\"{PUBLIC_URL}/console/login\"")), "{}", page.text);
    }
    // Passwords keep working beside the provider.
    Browser::of(&plant.hub, "plant", "local", "secret of local").await;
}

#[tokio::test]
async fn logout_ends_the_session_at_the_hub_and_names_the_one_at_the_provider() {
    let leave = json!("https://idp.example/leave?a=b");
    let plant = Plant::start_with(|provider| provider.discover("end_session_endpoint", leave), &[]).await;
    plant.sit_down("ann", &["plant-staff"]);
    let mut ann = Browser::new(&plant.hub);
    assert_eq!(plant.log_in(&mut ann, "/console").await.status, 200);
    let stolen = ann.cookie.clone();
    let page = ann.send("/console/logout", &BTreeMap::new()).await;
    assert_eq!((page.status, page.location.as_deref()), (303, Some("/console/login?left=1")));
    let page = ann.get("/console/login?left=1").await;
    assert!(page.text.contains("You have logged out of the console."), "{}", page.text);
    assert!(
        page.addresses().contains(&format!("https://idp.example/leave?a=b&client_id={CLIENT}")),
        "{}",
        page.text
    );
    ann.cookie = stolen;
    assert_eq!(ann.get("/console/account").await.status, 303, "the key is gone with the session");
    let (_, user) = plant.hub.call("GET", "/orgs/plant/users/ann", None).await;
    assert_eq!(user["users"]["plant/ann"]["apikeys"], json!([]), "{user}");
    // The account that the provider no longer admits keeps no session either when it is deleted.
    assert_eq!(plant.log_in(&mut ann, "/console").await.status, 200);
    assert_eq!(plant.hub.call("DELETE", "/orgs/plant/users/ann", None).await.0, 204);
    assert_eq!(ann.get("/console/account").await.status, 303);
}

#[tokio::test]
async fn proxy_that_ends_tls_at_the_public_address_gets_cookies_for_tls_only() {
    let plant = Plant::start().await;
    plant.sit_down("ann", &["plant-staff"]);
    for (host, begin, end) in [
        ("hub.example", "__Secure-evenkeel-console=", "; Secure"),
        ("127.0.0.1:1", "evenkeel-console-1=", "; Max-Age=43200"),
    ] {
        let mut ann = Browser::new(&plant.hub);
        let back = plant.visit_provider(&mut ann, "/console").await;
        let page = ann.request(Method::GET, &back, None, &[("host", host)]).await;
        let is_session = |set: &&String| set.starts_with(begin) && set.ends_with(end);
        assert!(page.set_cookies.iter().any(|set| is_session(&set)), "{host}: {:?}", page.set_cookies);
        assert_eq!(ann.request(Method::GET, "/console/account", None, &[("host", host)]).await.status, 200);
    }
}

#[tokio::test]
async fn demotion_at_the_provider_reaches_sessions_with_the_next_login() {
    let plant = Plant::start().await;
    plant.sit_down("ann", &["plant-admins"]);
    let (mut first, mut second) = (Browser::new(&plant.hub), Browser::new(&plant.hub));
    assert_eq!(plant.log_in(&mut first, "/console").await.status, 200);
    assert!(first.get("/console/account").await.text.contains("Administrator of the organization."));
    plant.sit_down("ann", &["plant-staff"]);
    assert_eq!(plant.log_in(&mut second, "/console").await.status, 200);
    for browser in [&mut first, &mut second] {
        let page = browser.get("/console/account").await;
        assert!(page.text.contains("User of the organization."), "{}", page.text);
    }
}

/// Lets the time come from which the session of a browser is renewed, as the cookie says.
fn make_due(browser: &mut Browser) {
    let cookie = browser.cookie.clone().expect("a session");
    let (name, value) = cookie.split_once('=').expect("a value");
    let decoded = must(URL_SAFE_NO_PAD.decode(value), "base64");
    let mut session: Value = must(serde_json::from_slice(&decoded), "JSON");
    assert!(session["n"].is_u64(), "{session}");
    session["n"] = json!(0);
    browser.cookie = Some(format!("{name}={}", URL_SAFE_NO_PAD.encode(session.to_string())));
}

/// Asks for a page when the session is to be renewed, and returns the response of the hub to that of the provider.
async fn renewed(plant: &Plant, browser: &mut Browser) -> Page {
    make_due(browser);
    let page = browser.get(DOWN).await;
    let link = page.location.expect("the link to the provider");
    assert_eq!(link, "/console/login/oidc?renew=true&next=%2Fconsole%2Forgs%2Fplant%2Fnodes%3Fstate%3Ddown");
    let back = plant.follow(browser, &link, true).await;
    browser.get(&back).await
}

const DOWN: &str = "/console/orgs/plant/nodes?state=down";

#[tokio::test]
async fn provider_confirms_the_user_of_a_session_again_within_an_hour() {
    let plant = Plant::start().await;
    plant.sit_down("ann", &["plant-admins", "lab-guests"]);
    let mut ann = Browser::new(&plant.hub);
    assert_eq!(plant.log_in(&mut ann, "/console").await.status, 200);
    let (_, user) = plant.hub.call("GET", "/orgs/plant/users/ann", None).await;
    let expires_at = user["users"]["plant/ann"]["apikeys"][0]["expiresAt"].as_str().unwrap_or_default();
    let expires_at: Timestamp = must(expires_at.trim_end_matches("[UTC]").parse(), "an instant");
    let left = expires_at.duration_since(Timestamp::now()).as_secs();
    assert!((3_400..=3_600).contains(&left), "{left} seconds, whatever the browser says");
    assert_eq!(ann.get(DOWN).await.status, 200);

    // The role of the groups that the user has now, in the organization of the session, without a form.
    plant.sit_down("ann", &["lab-guests", "plant-staff"]);
    let page = renewed(&plant, &mut ann).await;
    assert_eq!(page.refresh.as_deref(), Some(&*format!("0; url={DOWN}")), "{}", page.text);
    assert_eq!(ann.get(DOWN).await.status, 200);
    assert!(ann.get("/console/account").await.text.contains("User of the organization."));

    // A script cannot follow to the provider, and goes to the address of the renewal instead.
    let before = ann.cookie.clone();
    make_due(&mut ann);
    let cors = [("sec-fetch-mode", "cors"), ("sec-fetch-site", "same-origin")];
    let link = ann.request(Method::GET, DOWN, None, &cors).await.location.expect("a link");
    let page = ann.request(Method::GET, &link, None, &cors).await;
    assert_eq!((page.status, page.location, ann.attempt.as_ref()), (401, None, None));
    ann.cookie = before;

    // A provider that is away is asked again; the session goes on as long as it lives.
    plant.provider.set_token_endpoint(TokenEndpoint::Fixed(503, "down".to_owned()));
    let page = renewed(&plant, &mut ann).await;
    assert!(page.status == 503 && ann.cookie.is_some(), "{}", page.text);
    assert_eq!(ann.get(DOWN).await.status, 200, "pages are shown until it is asked again");
    plant.provider.set_token_endpoint(TokenEndpoint::Usual);
    assert_eq!(renewed(&plant, &mut ann).await.status, 200);

    // Nobody is logged in at the provider, or somebody else: the user has to log in.
    plant.provider.stand_up();
    for name in ["", "bob"] {
        if !name.is_empty() {
            plant.sit_down(name, &["plant-staff"]);
        }
        let page = renewed(&plant, &mut ann).await;
        let login = "/console/login?next=%2Fconsole%2Forgs%2Fplant%2Fnodes%3Fstate%3Ddown";
        assert_eq!((page.status, page.location.as_deref()), (303, Some(login)), "{name}: {}", page.text);
        assert!(ann.cookie.is_none() && ann.attempt.is_none(), "{name}");
        plant.sit_down("ann", &["plant-staff"]);
        assert_eq!(plant.log_in(&mut ann, "/console").await.status, 200);
    }
    assert_eq!(plant.hub.call("GET", "/orgs/plant/users/bob", None).await.0, 404, "bob did not log in");

    // A user whose groups give no role any longer is out.
    plant.sit_down("ann", &["others"]);
    let page = renewed(&plant, &mut ann).await;
    assert!(page.status == 403 && page.text.contains("has a role here"), "{} {}", page.status, page.text);
    assert!(ann.cookie.is_none(), "{:?}", page.set_cookies);

    // Sessions of passwords are not renewed.
    let root = Browser::of(&plant.hub, "root", "root", &plant.hub.root_password()).await;
    let cookie = root.cookie.expect("a session");
    let value = must(URL_SAFE_NO_PAD.decode(cookie.split_once('=').expect("a value").1), "base64");
    assert!(!String::from_utf8_lossy(&value).contains("\"n\""));
}

#[tokio::test]
async fn provider_that_is_away_leaves_the_login_with_a_password() {
    let plant = Plant::start().await;
    plant.provider.set_token_endpoint(TokenEndpoint::Fixed(503, "down".to_owned()));
    plant.sit_down("ann", &["plant-staff"]);
    let mut ann = Browser::new(&plant.hub);
    let page = plant.log_in(&mut ann, "/console").await;
    assert!(page.status == 503 && page.text.contains("Try again in a moment."), "{}", page.text);
    assert!(ann.cookie.is_none() && ann.attempt.is_none());
    let page = ann.log_in("root", "root", &plant.hub.root_password()).await;
    assert_eq!(page.status, 303, "{}", page.text);
    // A hub without the table has no such login.
    let scratch = Scratch::new();
    let plain = Hub::start(&scratch, &[]).await;
    let mut browser = Browser::new(&plain);
    assert!(!browser.get("/console/login").await.text.contains("/console/login/oidc"));
    for path in ["/console/login/oidc", "/console/login/oidc/callback?code=a&state=b"] {
        assert_eq!(browser.get(path).await.status, 404, "{path}");
    }
    let page = browser.get("/console/login?left=1").await;
    assert!(page.text.contains("You have logged out"), "{}", page.text);
}
