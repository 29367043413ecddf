//! A hub that trusts an identity provider by its configuration file: tokens open the exchange, the agbot and the command line.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::identity_provider::{AUDIENCE, IdentityProvider, SigningKey};
use crate::support::wait::must;
use crate::support::{Hub, Program, Scratch};

fn configuration(issuer: &str) -> String {
    format!(
        r#"
max-body-bytes = 500000

[oidc]
issuer = "{issuer}"
audiences = ["{AUDIENCE}"]
groups-claim = "realm_access.roles"

[[oidc.roles]]
group = "plant-staff"
role = "user"
organization = "plant"
"#
    )
}

#[tokio::test]
async fn token_opens_exchange_agbot_and_command_line() {
    let (scratch, key) = (Scratch::new(), SigningKey::elliptic("k1"));
    let provider = IdentityProvider::start(&[&key]).await;
    let file = scratch.write("hub.toml", &configuration(&provider.issuer));
    let hub = Hub::start(&scratch, &["--config", &file.to_string_lossy(), "--log", "debug"]).await;
    assert_eq!(hub.call("POST", "/orgs/plant", Some(json!({"label": "", "description": ""}))).await.0, 201);
    let token = key.sign(&provider.claims("ann", &["plant-staff"]));
    let get = async |path: &str, token: &str| -> (u16, Value) {
        let request = hub.client.get(format!("{}/v1{path}", hub.url)).bearer_auth(token);
        let response = must(request.send().await, "a response");
        (response.status().as_u16(), response.json().await.unwrap_or_default())
    };
    assert_eq!(get("/orgs/plant", &token).await.0, 200);
    let nothing = json!({"policies": {}, "inertPolicies": [], "questionablePolicies": [], "reasons": []});
    assert_eq!(get("/orgs/plant/agbot/reasons", &token).await, (200, nothing));
    assert_eq!(get("/orgs/plant/agbot/reasons", &key.sign(&json!({}))).await.0, 401);

    let token_file = scratch.write("token", &format!("{token}\n"));
    let hzn = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.env_clear().env("HOME", scratch.path()).env("HZN_EXCHANGE_URL", &hub.url);
        command.env("HZN_ORG_ID", "plant").env("EVENKEEL_BEARER_TOKEN_FILE", &token_file);
        let response = must(command.arg("hzn").args(words).output(), "hzn");
        assert!(response.status.success(), "{words:?}: {}", String::from_utf8_lossy(&response.stderr));
        String::from_utf8_lossy(&response.stdout).into_owned()
    };
    assert!(hzn(&["exchange", "user", "list"]).contains("plant/ann"));
    assert!(hzn(&["agbot", "status"]).contains("\"nodes\""), "counts are for people who log in");
    assert!(!hzn(&["env"]).contains(&token), "a secret is not shown");

    let log = hub.program.errors() + &hub.program.output();
    let signature = token.rsplit('.').next().expect("a signature");
    assert!(log.contains("plant/ann") || log.contains("ann"), "the log names who logged in: {log}");
    assert!(!log.contains(signature) && !log.contains(&token), "no token is logged");
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn configuration_that_opens_a_door_by_mistake_ends_the_start() {
    let scratch = Scratch::new();
    let good = configuration("http://127.0.0.1:1/realms/plant");
    let console =
        "[oidc.console]\nname = \"n\"\nclient-id = \"evenkeel\"\npublic-url = \"https://hub.example\"\n";
    let good = format!("{good}\n{console}");
    for (change, to, word) in [
        ("https://hub.example", "http://hub.example", "console.public-url"),
        ("https://hub.example", "https://hub.example/path", "console.public-url"),
        ("client-id = \"evenkeel\"", "client-id = \"other\"", "console.client-id"),
        ("name = \"n\"", "name = \"n\"\nclient-secret-file = \"/nowhere\"", "console.client-secret-file"),
        ("name = \"n\"", "nam = \"n\"", "nam"),
        ("http://127.0.0.1:1", "http://idp.example", "issuer"),
        ("organization = \"plant\"", "", "organization"),
        ("audiences", "audience", "audience"),
        ("role = \"user\"", "role = \"chief\"", "chief"),
    ] {
        let file = scratch.write("hub.toml", &good.replace(change, to));
        let directory = scratch.join("hub");
        let arguments = [
            "up",
            "--data-dir",
            &directory.to_string_lossy(),
            "--listen",
            "127.0.0.1:0",
            "--config",
            &file.to_string_lossy(),
        ]
        .map(str::to_owned);
        let mut program = Program::start(&scratch, &arguments.each_ref().map(String::as_str), None);
        assert_eq!(program.wait().await, 2, "{word}: {}", program.errors());
        assert!(program.errors().contains(word), "{word}: {}", program.errors());
    }
}
