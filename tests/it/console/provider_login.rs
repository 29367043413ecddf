//! Logins with an identity provider: from the link of the login page to the end of the session.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::json;

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
        let page = browser.get(&format!("/console/login/oidc?next={next}")).await;
        assert_eq!(page.status, 303, "{}", page.text);
        let address = page.location.expect("the address of the provider");
        assert!(address.starts_with(&self.provider.issuer), "{address}");
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
