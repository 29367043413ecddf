//! Users, roles, passwords and API keys at the console.

use serde_json::{Value, json};

use super::browser::Browser;
use super::change::{carry_out, changes, confirm, fill, mistake, require_done, target};
use crate::support::{Hub, Scratch};

const USERS: &str = "/console/orgs/o/users";

async fn hub_with(scratch: &Scratch, options: &[&str], users: &[(&str, Value)]) -> Hub {
    let hub = Hub::start(scratch, options).await;
    for org in ["o", "p"] {
        assert_eq!(
            hub.call("POST", &format!("/orgs/{org}"), Some(json!({"label": "", "description": ""}))).await.0,
            201
        );
    }
    for (name, more) in users {
        let mut body = json!({"password": "secret-1", "email": "e"});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let (org, name) = name.split_once('/').expect("an organization");
        assert_eq!(hub.call("POST", &format!("/orgs/{org}/users/{name}"), Some(body)).await.0, 201, "{name}");
    }
    hub
}

async fn user(hub: &Hub, name: &str) -> Value {
    let found = hub.call("GET", &format!("/orgs/o/users/{name}"), None).await.1;
    found["users"][format!("o/{name}")].clone()
}

fn change(name: &str, query: &str) -> String {
    format!("/console/orgs/o/change/{name}{query}")
}

#[tokio::test]
async fn administrator_creates_a_user_gives_roles_and_removes_it() {
    let scratch = Scratch::new();
    let hub = hub_with(&scratch, &[], &[("o/ada", json!({"admin": true}))]).await;
    let mut browser = Browser::of(&hub, "o", "ada", "secret-1").await;
    let page = browser.get(USERS).await;
    assert!(page.status == 200 && page.text.contains(">ada</a>"), "{}", page.text);
    assert!(changes(&page).contains(&change("user-create", "")), "{}", page.text);

    let form = change("user-create", "");
    for (fields, field, text) in [
        (&[("user", ""), ("email", "e")][..], "user", "must not be empty"),
        (&[("user", "ada"), ("email", "e"), ("role", "user")], "user", "exists already"),
        (&[("user", "a\0b"), ("email", "e"), ("role", "user")], "user", "contains a NUL character"),
        (&[("user", "vera"), ("email", "e"), ("role", "deployer")], "policies", "needs at least one name"),
        (
            &[("user", "vera"), ("email", "e"), ("role", "viewer"), ("policies", "a")],
            "policies",
            "only the role deployer",
        ),
        (&[("user", "vera"), ("email", "e"), ("role", "chief")], "role", "must be one of"),
        (&[("user", "vera"), ("email", "e"), ("role", "hubadmin")], "role", "organization root"),
    ] {
        let page = fill(&mut browser, &form, fields).await;
        assert!(mistake(&page, field).contains(text), "{fields:?}: {}", page.text);
    }
    // Only the API knows this rule: its message is beside the field as well.
    let plan = fill(&mut browser, &form, &[("user", "apikey"), ("email", "e"), ("role", "user")]).await;
    let page = confirm(&mut browser, &plan, &[("password", "secret-2")]).await;
    assert_eq!(page.status, 400, "{}", page.text);
    assert!(mistake(&page, "user").contains("reserved"), "{}", page.text);

    let plan = fill(&mut browser, &form, &[("user", "vera"), ("email", "v@o"), ("role", "viewer")]).await;
    assert!(plan.text.contains("hzn exchange user create vera - v@o --role viewer"), "{}", plan.text);
    assert_eq!(user(&hub, "vera").await, Value::Null, "a plan changes nothing");
    let page = confirm(&mut browser, &plan, &[]).await;
    assert_eq!((page.status, mistake(&page, "password").as_str()), (400, "must not be empty"));
    require_done(&mut browser, &plan, &[("password", "secret-2")]).await;
    assert_eq!(user(&hub, "vera").await["role"], "viewer");
    Browser::of(&hub, "o", "vera", "secret-2").await;

    let role = change("user-role", "?user=vera");
    let page = fill(&mut browser, &role, &[("role", "viewer")]).await;
    assert!(mistake(&page, "role").contains("it is viewer already"), "{}", page.text);
    let fields = [("role", "deployer"), ("policies", "shop-*, web")];
    let plan = fill(&mut browser, &role, &fields).await;
    assert!(
        plan.text.contains("deployer of shop-*, web") && plan.text.contains("setrole vera deployer"),
        "{}",
        plan.text
    );
    let changed = json!({"role": "user"});
    assert_eq!(hub.call("PATCH", "/orgs/o/users/vera", Some(changed)).await.0, 201);
    let page = confirm(&mut browser, &plan, &[]).await;
    assert!(page.text.contains("Nothing was done") && page.text.contains("role=\"alert\""), "{}", page.text);
    assert_eq!(user(&hub, "vera").await.get("role"), None);
    require_done(&mut browser, &page, &[]).await;
    assert_eq!(user(&hub, "vera").await["policies"], json!(["shop-*", "web"]));
    let plan = carry_out(&mut browser, &role, &[("role", "admin")], &[]).await;
    assert!(
        plan.text
            .contains("hzn exchange user setrole vera user &#38;&#38; hzn exchange user setadmin vera true"),
        "{}",
        plan.text
    );
    assert_eq!(user(&hub, "vera").await["admin"], true);

    let plan = browser.get(&change("user-remove", "?user=vera")).await;
    assert!(
        plan.text.contains("<td>nodes</td><td>0</td>") && plan.text.contains("hzn exchange user remove vera"),
        "{}",
        plan.text
    );
    require_done(&mut browser, &plan, &[]).await;
    assert_eq!(user(&hub, "vera").await, Value::Null);
    assert_eq!(browser.get(&format!("{USERS}/vera")).await.status, 404);
    assert_eq!(browser.get(&change("user-remove", "?user=vera")).await.status, 404);
    assert_eq!(browser.get(&change("user-remove", "")).await.status, 400, "it must say whom");
    assert_eq!(browser.get(&change("nothing", "")).await.status, 404);
}

#[tokio::test]
async fn new_password_ends_the_sessions_of_its_account() {
    let scratch = Scratch::new();
    let users = [("o/ada", json!({"admin": true})), ("o/bob", json!({})), ("o/eve", json!({}))];
    let hub = hub_with(&scratch, &[], &users).await;
    let mut first = Browser::of(&hub, "o", "bob", "secret-1").await;
    let mut second = Browser::of(&hub, "o", "bob", "secret-1").await;
    let mut other = Browser::of(&hub, "o", "eve", "secret-1").await;
    let form = change("user-password", "?user=bob");
    let plan = first.get(&form).await;
    assert!(
        plan.text.contains("sessions that end") && plan.text.contains("name=\"current\""),
        "{}",
        plan.text
    );
    let page = confirm(&mut first, &plan, &[("current", "wrong"), ("password", "secret-2")]).await;
    assert_eq!(page.status, 400, "{}", page.text);
    assert_eq!(mistake(&page, "current"), "it is not the password of your account");
    assert!(!page.text.contains("secret-2"), "{}", page.text);
    assert_eq!(second.get(USERS).await.status, 200);

    let plan = first.get(&form).await;
    let stolen = first.cookie.clone();
    let page = confirm(&mut first, &plan, &[("current", "secret-1"), ("password", "secret-2")]).await;
    assert_eq!(
        (page.status, page.location.as_deref()),
        (303, Some("/console/login?left=1")),
        "{}",
        page.text
    );
    assert!(first.cookie.is_none());
    first.cookie = stolen;
    for browser in [&mut first, &mut second] {
        assert_eq!(browser.get(USERS).await.status, 303, "the session has ended");
    }
    assert_eq!(other.get(USERS).await.status, 200, "that of another account goes on");
    assert_eq!(Browser::new(&hub).log_in("o", "bob", "secret-1").await.status, 401);
    let mut third = Browser::of(&hub, "o", "bob", "secret-2").await;

    // An administrator needs no password of the user, and ends its sessions as well.
    let mut admin = Browser::of(&hub, "o", "ada", "secret-1").await;
    let plan = admin.get(&form).await;
    assert!(!plan.text.contains("name=\"current\""), "{}", plan.text);
    require_done(&mut admin, &plan, &[("password", "secret-3")]).await;
    assert_eq!(third.get(USERS).await.status, 303, "the session has ended");
    assert_eq!(admin.get(USERS).await.status, 200);
    Browser::of(&hub, "o", "bob", "secret-3").await;
    assert!(!hub.program.errors().contains("secret-"), "passwords are not logged");

    // A login that was disabled is shown as such, and the account cannot prove that it is itself.
    let mut eve = Browser::of(&hub, "o", "eve", "secret-1").await;
    let key =
        hub.call_as(("o/eve", "secret-1"), "POST", "/orgs/o/users/eve/apikeys", Some(json!({}))).await.1;
    assert_eq!(hub.call("PATCH", "/orgs/o/users/eve", Some(json!({"password": ""}))).await.0, 201);
    assert_eq!(eve.get(USERS).await.status, 303, "the session has ended");
    let mut eve = Browser::of(&hub, "o", "apikey", key["value"].as_str().expect("a value")).await;
    assert!(eve.get(&format!("{USERS}/eve")).await.text.contains("<dd>no password</dd>"));
    let plan = eve.get(&change("user-password", "?user=eve")).await;
    assert!(plan.text.contains("disabled title=\"your account has no password"), "{}", plan.text);
}

#[tokio::test]
async fn api_key_is_shown_once_and_ends_with_the_session_unless_the_password_is_given() {
    let scratch = Scratch::new();
    let hub = hub_with(&scratch, &["--log", "debug"], &[("o/bob", json!({}))]).await;
    let mut browser = Browser::of(&hub, "o", "bob", "secret-1").await;
    let form = change("key-create", "?user=bob");
    let fields = [("label", "ci <b>"), ("expires", "never"), ("role", "viewer")];
    let plan = fill(&mut browser, &form, &fields).await;
    let command = "hzn exchange user createkey bob --label &#39;ci &#60;b&#62;&#39; --role viewer";
    assert!(plan.text.contains(command), "{}", plan.text);
    let value = |text: &str| {
        let (_, rest) = text.split_once("<dt>Key</dt><dd><code>").unwrap_or_else(|| panic!("a key: {text}"));
        rest.split_once('<').expect("its end").0.to_owned()
    };
    let page = confirm(&mut browser, &plan, &[("password", "wrong")]).await;
    assert_eq!(
        (page.status, mistake(&page, "password").as_str()),
        (400, "it is not the password of your account")
    );
    let page = confirm(&mut browser, &plan, &[]).await;
    assert_eq!(page.status, 200, "{}", page.text);
    let of_session = value(&page.text);
    assert!(!page.text.contains("it does not end"), "it ends with the session: {}", page.text);
    let page = confirm(&mut browser, &plan, &[("password", "secret-1")]).await;
    let lasting = value(&page.text);
    assert!(page.text.contains("it does not end"), "{}", page.text);
    for key in [&of_session, &lasting] {
        assert_eq!(key.len(), 64);
        assert_eq!(hub.call_as(("o/apikey", key), "GET", "/orgs/o", None).await.0, 200);
    }
    let page = browser.get(&format!("{USERS}/bob")).await;
    assert!(page.text.contains("ci &#60;b&#62;") && page.text.contains(">session</span>"), "{}", page.text);
    let log = hub.program.errors();
    for secret in [&of_session, &lasting] {
        assert!(!page.text.contains(secret.as_str()), "it is shown once");
        assert!(!log.contains(secret.as_str()), "it is not logged");
    }
    assert!(!log.contains("secret-1"), "passwords are not logged");

    let page = fill(&mut browser, &form, &[("expires", "soon")]).await;
    assert!(mistake(&page, "expires").contains("number of seconds"), "{}", page.text);
    let plan = fill(&mut browser, &form, &[("expires", "7")]).await;
    let page = confirm(&mut browser, &plan, &[]).await;
    assert!(page.status == 400 && mistake(&page, "expires").contains("from 60"), "{}", page.text);

    let keys = user(&hub, "bob").await["apikeys"].clone();
    let ends = |key: &Value| key["expiresAt"].is_string();
    let keys = keys.as_array().expect("keys").iter().filter(|key| key["label"] == "ci <b>" && !ends(key));
    let id = keys.map(|key| key["id"].as_str().expect("an id")).next().expect("the lasting key").to_owned();
    let plan = browser.get(&change("key-remove", &format!("?user=bob&key={id}"))).await;
    assert!(plan.text.contains(&format!("hzn exchange user removekey bob {id}")), "{}", plan.text);
    require_done(&mut browser, &plan, &[]).await;
    assert_eq!(hub.call_as(("o/apikey", &lasting), "GET", "/orgs/o", None).await.0, 401);
    assert_eq!(browser.get(&change("key-remove", &format!("?user=bob&key={id}"))).await.status, 404);

    // What was created in a session ends with the password, and a session that is removed is that of the reader.
    let body = json!({"password": "secret-2"});
    assert_eq!(hub.call("PATCH", "/orgs/o/users/bob", Some(body)).await.0, 201);
    assert_eq!(hub.call_as(("o/apikey", &of_session), "GET", "/orgs/o", None).await.0, 401);
    let mut browser = Browser::of(&hub, "o", "bob", "secret-2").await;
    let page = browser.get(&format!("{USERS}/bob")).await;
    let own = changes(&page).into_iter().find(|address| address.contains("key-remove")).expect("the session");
    let plan = browser.get(&own).await;
    assert!(plan.text.contains("This is your session"), "{}", plan.text);
    assert_eq!(confirm(&mut browser, &plan, &[]).await.location.as_deref(), Some("/console/login?left=1"));
}

#[tokio::test]
async fn readers_see_and_change_what_the_api_allows() {
    let scratch = Scratch::new();
    let deployer = json!({"role": "deployer", "policies": ["shop-*"]});
    let users = [
        ("o/ada", json!({"admin": true})),
        ("o/bob", json!({})),
        ("o/vera", json!({"role": "viewer"})),
        ("o/dora", deployer),
        ("p/pat", json!({"admin": true})),
    ];
    let hub = hub_with(&scratch, &[], &users).await;
    let mut ada = Browser::of(&hub, "o", "ada", "secret-1").await;
    let plans = [
        ada.get(&change("user-password", "?user=ada")).await,
        ada.get(&change("user-remove", "?user=bob")).await,
        fill(&mut ada, &change("user-role", "?user=bob"), &[("role", "admin")]).await,
        fill(&mut ada, &change("user-create", ""), &[("user", "new"), ("email", "e")]).await,
    ];
    let own = ada.get(&format!("{USERS}/ada")).await;
    assert!(own.text.contains("another administrator removes your account"), "{}", own.text);

    for (name, is_all) in [("bob", false), ("vera", true), ("dora", true)] {
        let mut browser = Browser::of(&hub, "o", name, "secret-1").await;
        let page = browser.get(USERS).await;
        assert_eq!(page.status, 200, "{name}: {}", page.text);
        assert_eq!(page.text.contains(">ada</a>"), is_all, "{name}: {}", page.text);
        assert!(page.text.contains(&format!(">{name}</a>")), "{name}: {}", page.text);
        assert_eq!(changes(&page), Vec::<String>::new(), "{name}");
        assert!(page.text.contains("<button type=\"button\" disabled title=\""), "{name}: {}", page.text);
        let page = browser.get(&format!("{USERS}/{name}")).await;
        let mut allowed = changes(&page);
        allowed.retain(|address| !address.contains("key-remove"));
        let expected = ["user-password", "key-create"].map(|one| change(one, &format!("?user={name}")));
        assert_eq!(allowed, expected, "{name}: {}", page.text);
        let page = browser.get(&format!("{USERS}/ada")).await;
        assert_eq!(page.status, if is_all { 200 } else { 403 }, "{name}: {}", page.text);
        assert_eq!(changes(&page), Vec::<String>::new(), "{name}");
        // What is disabled is refused as well: the API decides.
        for plan in &plans {
            let page = browser.get(&target(plan)).await;
            if page.status == 200 {
                assert!(
                    page.text.contains("<button type=\"submit\" disabled title=\""),
                    "{name}: {}",
                    page.text
                );
                let page =
                    confirm(&mut browser, &page, &[("password", "secret-2"), ("current", "secret-1")]).await;
                assert!(matches!(page.status, 400 | 403), "{name}: {} {}", page.status, page.text);
            }
            assert!(matches!(page.status, 200 | 403 | 404), "{name}: {} {}", page.status, page.text);
        }
    }
    assert_eq!(user(&hub, "bob").await["admin"], false);
    assert_eq!(user(&hub, "new").await, Value::Null);

    let mut pat = Browser::of(&hub, "p", "pat", "secret-1").await;
    for path in [USERS.to_owned(), format!("{USERS}/ada"), target(&plans[1])] {
        let page = pat.get(&path).await;
        assert!(matches!(page.status, 403 | 404) && !page.text.contains("ada</a>"), "{path}: {}", page.text);
    }
    let mut root = Browser::of(&hub, "root", "root", &hub.root_password()).await;
    let page = root.get(&format!("{USERS}/ada")).await;
    assert!(changes(&page).contains(&change("user-remove", "?user=ada")), "{}", page.text);
    let page = root.get("/console/orgs/root/users/root").await;
    assert!(page.text.contains("the root user cannot be removed"), "{}", page.text);
}
