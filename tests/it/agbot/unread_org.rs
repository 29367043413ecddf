//! An organization that cannot be read keeps what it has, and the others are served.

use serde_json::json;

use super::in_process::Agbots;
use crate::exchange::api::ROOT;
use crate::support::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn organization_that_cannot_be_read_stalls_no_other_one() {
    let agbots = Agbots::start(1).await;
    let unread = &agbots.all[0].context().reading.unread;
    agbots.api.make_org("other").await;
    agbots.make_unreadable(Some("other"));
    let entry = json!({"businessPolOrgid": "other", "businessPol": "*", "nodeOrgid": "other"});
    agbots.api.expect(201, ROOT, "POST", "/orgs/IBM/agbots/bot/businesspols", entry).await;
    eventually("the agbot names what it cannot read", || async {
        (unread.names() == ["other"]).then_some(())
    })
    .await;
    agbots.make_nodes(2).await;
    agbots.want().await;
    eventually("the other organization is served", || async {
        (agbots.agreements().await.len() == 2).then_some(())
    })
    .await;
    agbots.make_unreadable(None);
    eventually("it is read again", || async { unread.names().is_empty().then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agbot_that_starts_and_cannot_read_an_organization_ends_nothing_there() {
    let mut agbots = Agbots::start(1).await;
    agbots.make_nodes(3).await;
    agbots.want().await;
    let before = eventually("the agreements", || async {
        let found = agbots.agreements().await;
        (found.len() == 3).then_some(found)
    })
    .await;
    agbots.make_unreadable(Some("o"));
    agbots.add_from(1).await;
    let agbots = agbots;
    let context = agbots.all[1].context();
    eventually("the second agbot is loaded without the organization", || async {
        let is_unread = context.model().unread_orgs().iter().any(|org| org.as_str() == "o");
        (context.reading.is_loaded() && is_unread).then_some(())
    })
    .await;
    agbots.make_unreadable(None);
    eventually("it knows the organization", || async {
        let model = context.model();
        (model.unread_orgs().is_empty() && model.nodes().count() == 3).then_some(())
    })
    .await;
    assert_eq!(sorted(agbots.agreements().await), sorted(before), "nothing was ended meanwhile");
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}
