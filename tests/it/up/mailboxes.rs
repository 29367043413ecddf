//! Memory that readers of a full mailbox use, measured with real processes.

use evenkeel_wire::agreement::{Body, Message, PrivateKey, PublicKey, seal};
use serde_json::{Value, json};

use crate::support::process::client;
use crate::support::wait::must;
use crate::support::{Hub, Program, Scratch, eventually};

const MIB: f64 = 1024.0 * 1024.0;
/// Bytes of one message: almost as many as there may be.
const MESSAGE: usize = 60_000;

async fn put(hub: &Hub, path: &str, body: Value) {
    let (status, found) = hub.call("PUT", path, Some(body)).await;
    assert_eq!(status, 201, "{path}: {found}");
}

/// Sends a message; waits while the hub is busy.
async fn send(hub: &Hub, login: &str, mailbox: &str, message: &str) -> u16 {
    let body = json!({"message": message, "ttl": 3_600});
    let url = format!("{}/v1/orgs/{mailbox}/msgs", hub.url);
    let request = hub.client.post(url).basic_auth(login, Some("t")).json(&body);
    must(request.send().await, "a response").status().as_u16()
}

fn memory(program: &Program, member: &str) -> f64 {
    let status =
        must(std::fs::read_to_string(format!("/proc/{}/status", program.id())), "the status of a process");
    let line = status.lines().find_map(|line| line.strip_prefix(member)).expect("a member").to_owned();
    must(line.trim_matches([':', '\t', ' ', 'k', 'B']).parse::<f64>(), "a number") * 1024.0
}

async fn metric(hub: &Hub, name: &str) -> f64 {
    let text =
        must(must(client().get(format!("{}/metrics", hub.url)).send().await, "metrics").text().await, "text");
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::to_owned);
    value.and_then(|value| value.parse().ok()).unwrap_or_default()
}

fn start_agent(scratch: &Scratch, hub: &Hub) -> Program {
    let token = scratch.write("agent-token", "t");
    let (token, data) =
        (token.to_string_lossy().into_owned(), scratch.join("agent").to_string_lossy().into_owned());
    let arguments = [
        "agent",
        "--hub",
        &hub.url,
        "--org",
        "o",
        "--node-id",
        "n",
        "--token-file",
        &token,
        "--driver",
        "process",
        "--data-dir",
        &data,
        "--api-listen",
        "off",
    ];
    Program::start(scratch, &arguments, None)
}

#[tokio::test]
async fn agent_holds_a_page_of_a_full_mailbox() {
    let scratch = Scratch::new();
    let options = ["--max-node-message-bytes", "134217728", "--max-node-messages", "10000"];
    let hub = Hub::start(&scratch, &options).await;
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "", "description": ""}))).await.0, 201);
    put(
        &hub,
        "/orgs/o/nodes/n",
        json!({"token": "t", "name": "n", "pattern": "", "publicKey": "", "arch": "amd64"}),
    )
    .await;
    put(&hub, "/orgs/o/agbots/a", json!({"token": "t", "name": "a", "publicKey": "key"})).await;
    let agent = start_agent(&scratch, &hub);
    eventually("the node has a key", || async {
        let (_, node) = hub.call("GET", "/orgs/o/nodes/n", None).await;
        node["nodes"]["o/n"]["publicKey"].as_str().filter(|key| !key.is_empty()).map(|_| ())
    })
    .await;
    let usual = memory(&agent, "VmHWM");
    drop(agent);
    let count = 24 * 1024 * 1024 / (MESSAGE + 3);
    for number in 0..count {
        let text = format!("{number:0>MESSAGE$}");
        let status = send(&hub, "o/a", "o/nodes/n", &text).await;
        assert_eq!(status, 201, "message {number}");
    }
    let agent = start_agent(&scratch, &hub);
    eventually("the mailbox is empty", || async {
        (hub.call("GET", "/orgs/o/nodes/n/msgs?maxmsgs=1", None).await.0 == 404).then_some(())
    })
    .await;
    let grown = (memory(&agent, "VmHWM") - usual) / MIB;
    assert!(grown < 12.0, "{grown:.1} MiB more than before for {count} messages of {MESSAGE} bytes");
    assert_eq!(hub.stop().await, 0);
}

/// A message that an agbot leaves in its mailbox: about an agreement that another one may have.
fn unclaimed(number: usize, sender: &PrivateKey, receiver: &PublicKey) -> String {
    // Sealing and its encodings make a text more than twice as long.
    let update_type = "x".repeat(MESSAGE * 2 / 5);
    let body = Body::Update { update_type, metadata: None };
    let text = Message::new(format!("{number:064x}"), body).to_json();
    must(seal(text.as_bytes(), sender, receiver, &mut rand::rng()), "an envelope")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agbot_of_the_hub_holds_a_bounded_part_of_what_a_foreign_organization_sends() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let key = must(PrivateKey::generate(&mut rand::rng(), 2048), "a key");
    let public = must(key.public_key(), "a public key").to_base64();
    assert_eq!(hub.call("POST", "/orgs/foreign", Some(json!({"label": "", "description": ""}))).await.0, 201);
    const SENDERS: usize = 26;
    const EACH: usize = 30;
    for number in 0..SENDERS {
        let body = json!({"token": "t", "name": "n", "pattern": "", "publicKey": public});
        put(&hub, &format!("/orgs/foreign/nodes/n{number}"), body).await;
    }
    let receiver = eventually("the agbot has a key", || async {
        let (_, found) = hub.call("GET", "/orgs/IBM/agbots/evenkeel", None).await;
        PublicKey::from_base64(found["agbots"]["IBM/evenkeel"]["publicKey"].as_str()?).ok()
    })
    .await;
    let usual = memory(&hub.program, "VmRSS");
    for sender in 0..SENDERS {
        for number in 0..EACH {
            let envelope = unclaimed(sender * EACH + number, &key, &receiver);
            assert!((50_000..65_536).contains(&envelope.len()), "{}", envelope.len());
            let login = format!("foreign/n{sender}");
            assert_eq!(send(&hub, &login, "IBM/agbots/evenkeel", &envelope).await, 201, "{login} {number}");
        }
    }
    let sent = (SENDERS * EACH * MESSAGE) as f64 / MIB;
    eventually("the agbot knows of all messages", || async {
        (metric(&hub, "agbot_mailbox_messages").await >= (SENDERS * EACH) as f64).then_some(())
    })
    .await;
    let grown = (memory(&hub.program, "VmHWM") - usual) / MIB;
    assert!(grown < 80.0, "{grown:.1} MiB more than before, {sent:.1} MiB were sent");
    assert_eq!(metric(&hub, "agbot_mailbox_messages").await, (SENDERS * EACH) as f64, "they stay for others");
    assert_eq!(hub.stop().await, 0);
}
