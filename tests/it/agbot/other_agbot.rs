//! A second agbot that is configured to serve what the hub's own agbot serves.

use serde_json::{Value, json};

use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

const RIVAL: &str = "/orgs/o/agbots/rival";

async fn reasons(hub: &Hub) -> Vec<String> {
    let (_, body) = hub.call("GET", "/orgs/o/agbot/reasons", None).await;
    let reasons = body["reasons"].as_array().cloned().unwrap_or_default();
    reasons.iter().filter_map(|reason| reason["text"].as_str()).map(str::to_owned).collect()
}

/// The rival makes no agreement here, so that no other member can take the instance of the last one.
#[tokio::test]
async fn hub_agbot_steps_back_while_another_agbot_is_configured_and_the_last_instance_stays() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-monitor-secs", "1", "--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    eventually("every member runs it", || async { fleet.all_run("1.0.0").then_some(()) }).await;

    let agbot = json!({"token": "secret-rival", "name": "rival", "publicKey": ""});
    assert_eq!(hub.call("PUT", RIVAL, Some(agbot)).await.0, 201);
    let entry = json!({"businessPolOrgid": "o", "businessPol": "everywhere", "nodeOrgid": "o"});
    assert_eq!(hub.call("POST", &format!("{RIVAL}/businesspols"), Some(entry)).await.0, 201);
    eventually("one member is left to the other agbot, and the other keeps its instance", || async {
        let reasons = reasons(&hub).await;
        let is_left = reasons.iter().any(|text| text.contains("o/rival"));
        let is_kept = reasons.iter().any(|text| text.contains("HA minimum"));
        (is_left && is_kept && fleet.versions().len() == 1).then_some(())
    })
    .await;
    let (_, status) = hub.call("GET", "/agbot/status", None).await;
    assert_eq!(status["leftToOtherAgbots"][0]["agbot"], "o/rival", "{status}");
    assert!(hub.program.errors().contains("not serving deployment policy `o/everywhere`"));
    fleet.want_with(&hub, "1.0.0", json!({"label": "edited"})).await;
    assert_eq!(fleet.versions().len(), 1, "an edit brings nothing back");

    assert_eq!(hub.call("DELETE", RIVAL, None).await.0, 204);
    eventually("every member runs it again", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    assert!(!reasons(&hub).await.iter().any(|text| text.contains("o/rival")));
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn hub_agbot_keeps_what_it_serves_when_it_ignores_other_agbots() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--other-agbots", "ignore"]).await;
    let agbot = json!({"token": "secret-rival", "name": "rival", "publicKey": ""});
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "o", "description": "o"}))).await.0, 201);
    assert_eq!(hub.call("PUT", RIVAL, Some(agbot)).await.0, 201);
    let entry = json!({"businessPolOrgid": "o", "businessPol": "*", "nodeOrgid": "o"});
    assert_eq!(hub.call("POST", &format!("{RIVAL}/businesspols"), Some(entry)).await.0, 201);
    let fleet = Fleet::join(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    eventually("the member runs it", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// A plain user of the organization makes an agbot and lets it serve everything: that alone must not take a single instance away.
#[tokio::test]
async fn hub_agbot_yields_to_the_agbot_of_a_plain_user_only_after_an_administrator_confirmed_its_entry() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-monitor-secs", "1", "--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    let user = json!({"password": "secret-eve", "email": "eve@o.example"});
    assert_eq!(hub.call("POST", "/orgs/o/users/eve", Some(user)).await.0, 201);
    let eve = ("o/eve", "secret-eve");
    let agbot = json!({"token": "secret-rival", "name": "rival", "publicKey": ""});
    assert_eq!(hub.call_as(eve, "PUT", RIVAL, Some(agbot)).await.0, 201);
    let entry = json!({"businessPolOrgid": "o", "businessPol": "*", "nodeOrgid": "o"});
    let serves = |login| hub.call_as(login, "POST", "/orgs/o/agbots/rival/businesspols", Some(entry.clone()));
    assert_eq!(serves(eve).await.0, 201);
    let entries = "/orgs/o/agbots/rival/businesspols";

    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    eventually("it runs: nobody yields to the entry", || async { fleet.all_run("1.0.0").then_some(()) })
        .await;
    let approval = format!("{RIVAL}/approval");
    assert_eq!(hub.call_as(eve, "PUT", &approval, None).await.0, 403, "nobody approves its own agbot");
    assert_eq!(hub.call("PUT", &approval, None).await.0, 201);
    // The user who created the agbot has its token.
    assert_eq!(hub.call("DELETE", entries, None).await.0, 204);
    assert_eq!(serves(("o/rival", "secret-rival")).await.0, 201);
    fleet.publish(&hub, "2.0.0").await;
    fleet.want(&hub, "2.0.0").await;
    eventually("it is updated: the entry is not confirmed", || async {
        fleet.all_run("2.0.0").then_some(())
    })
    .await;

    let (_, approvals) = hub.call("GET", "/orgs/o/agbot-approvals", None).await;
    let entry =
        approvals["entries"].as_array().into_iter().flatten().find(|entry| entry["agbot"] == "o/rival");
    assert_eq!(entry.map(|entry| &entry["confirmedBy"]), Some(&json!(null)), "{approvals}");
    let confirmation = "/orgs/o/agbot-approvals/o/rival/deploymentPolicy/o_*_o";
    assert_eq!(hub.call_as(eve, "PUT", confirmation, None).await.0, 403);
    assert_eq!(hub.call("PUT", confirmation, None).await.0, 201);
    let left =
        || async { hub.call("GET", "/agbot/status", None).await.1["leftToOtherAgbots"][0]["agbot"].clone() };
    eventually("the hub's agbot yields", || async { (left().await == "o/rival").then_some(()) }).await;
    assert_eq!(hub.call("DELETE", confirmation, None).await.0, 204);
    eventually("it serves again", || async { left().await.is_null().then_some(()) }).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// Creates organizations, each with the administrator `ada` and the ordinary user `eve`.
async fn make_orgs(hub: &Hub, orgs: [&str; 2]) {
    for org in orgs {
        let body = json!({"label": org, "description": org});
        assert_eq!(hub.call("POST", &format!("/orgs/{org}"), Some(body)).await.0, 201);
        for (name, is_admin) in [("ada", true), ("eve", false)] {
            let user = json!({"password": "secret", "email": "x@y", "admin": is_admin});
            assert_eq!(hub.call("POST", &format!("/orgs/{org}/users/{name}"), Some(user)).await.0, 201);
        }
    }
}

/// Nodes take the names of agbots that may make agreements with them from this list.
#[tokio::test]
async fn entry_without_an_organization_of_nodes_names_the_agbot_to_no_other_organization() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    make_orgs(&hub, ["victim", "evil"]).await;
    let node =
        json!({"token": "secret-node", "name": "n", "nodeType": "device", "pattern": "", "publicKey": ""});
    let owner = ("victim/ada", "secret");
    assert_eq!(hub.call_as(owner, "PUT", "/orgs/victim/nodes/n?noheartbeat=true", Some(node)).await.0, 201);
    let ada = ("evil/ada", "secret");
    let agbot = json!({"token": "secret-bot", "name": "bot", "publicKey": ""});
    assert_eq!(hub.call_as(ada, "PUT", "/orgs/evil/agbots/bot", Some(agbot)).await.0, 201);
    let entry = json!({"businessPolOrgid": "evil", "businessPol": "victim"});
    let path = "/orgs/evil/agbots/bot/businesspols";
    assert_eq!(hub.call_as(ada, "POST", path, Some(entry)).await.0, 201);
    let (status, named) = hub.call("GET", "/orgs/victim/nodes/n/agbots", None).await;
    assert_eq!(status, 200, "{named}");
    assert!(named.to_string().contains("IBM/"), "{named}");
    assert!(!named.to_string().contains("evil/bot"), "{named}");

    // What an agbot writes counts as written by its owner.
    let bot = ("evil/bot", "secret-bot");
    let entry = json!({"businessPolOrgid": "evil", "businessPol": "*", "nodeOrgid": "evil"});
    assert_eq!(hub.call_as(bot, "POST", path, Some(entry)).await.0, 201);
    let (_, approvals) = hub.call("GET", "/orgs/evil/agbot-approvals", None).await;
    let confirmed_by = |agbot: &str| {
        let entries = approvals["entries"].as_array().into_iter().flatten();
        let mut of_agbot = entries.filter(|entry| entry["agbot"] == agbot);
        of_agbot.next().map(|entry| entry["confirmedBy"].clone())
    };
    assert_eq!(confirmed_by("evil/bot"), Some(json!("evil/ada")), "{approvals}");
    assert_eq!(confirmed_by("IBM/evenkeel"), Some(json!("root/root")), "{approvals}");
    assert_eq!(hub.stop().await, 0);
}

/// An agbot of another organization names the nodes of this one in an entry for patterns.
#[tokio::test]
async fn entry_of_another_organization_needs_an_approved_agbot_and_the_confirmation_of_the_nodes_side() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    make_orgs(&hub, ["o", "p"]).await;
    let (eve, ada) = (("p/eve", "secret"), ("p/ada", "secret"));
    let agbot = json!({"token": "secret-evil", "name": "evil", "publicKey": ""});
    assert_eq!(hub.call_as(eve, "PUT", "/orgs/p/agbots/evil", Some(agbot)).await.0, 201);
    let entry = json!({"patternOrgid": "o", "pattern": "*", "nodeOrgid": "o"});
    let serve = || hub.call_as(eve, "POST", "/orgs/p/agbots/evil/patterns", Some(entry.clone()));
    let (status, body) = serve().await;
    assert_eq!(status, 403, "{body}");
    assert!(body["msg"].as_str().unwrap_or_default().contains("nodeOrgid"), "{body}");
    assert_eq!(hub.call_as(ada, "PUT", "/orgs/p/agbots/evil/approval", None).await.0, 201);
    assert_eq!(serve().await.0, 201);
    let confirmation = "/orgs/o/agbot-approvals/p/evil/pattern/o_*_o";
    assert_eq!(
        hub.call_as(ada, "PUT", confirmation, None).await.0,
        403,
        "its own administrator does not confirm it"
    );
    assert_eq!(hub.call_as(("o/ada", "secret"), "PUT", confirmation, None).await.0, 201);
    let left =
        || async { hub.call("GET", "/agbot/status", None).await.1["leftToOtherAgbots"][0]["agbot"].clone() };
    eventually("the hub's agbot yields", || async { (left().await == "p/evil").then_some(()) }).await;
    // Users see what is left of the nodes of their organization, and names of no other one.
    for (login, seen) in [("o/eve", json!("p/evil")), ("p/ada", Value::Null), ("p/eve", Value::Null)] {
        let (_, status) = hub.call_as((login, "secret"), "GET", "/agbot/status", None).await;
        assert!(status["nodes"].is_number(), "{status}");
        assert_eq!(status["leftToOtherAgbots"][0]["agbot"], seen, "{login}: {status}");
    }
    assert_eq!(hub.call_as(ada, "DELETE", "/orgs/p/agbots/evil/approval", None).await.0, 204);
    eventually("not to an agbot without approval", || async { left().await.is_null().then_some(()) }).await;
    assert_eq!(hub.stop().await, 0);
}
