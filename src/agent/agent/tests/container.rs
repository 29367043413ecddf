//! Whole agents whose services are containers of a real engine.

use tokio::time::timeout;

use super::engine::{Engine, IMAGE};
use super::*;

fn container_settings(hub: &Arc<TestHub>, directory: &Path, engine: &Engine) -> AgentSettings {
    AgentSettings {
        driver: crate::DriverKind::Docker,
        docker_endpoint: engine.endpoint(),
        ..settings(hub, directory)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_of_a_container_reaches_the_hub_and_its_output_is_read_through_the_local_api() {
    let Some(engine) = Engine::start().await else { return };
    let hub = TestHub::new();
    let directory = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = AgentSettings {
        api_listen: crate::ApiListen::At(port),
        ..container_settings(&hub, directory.path(), &engine)
    };
    let agent = Agent::start(settings);
    hub.propose_container("a1", &json!({"image": IMAGE, "command": ["no such table"]}));
    let failure = failure_of_proposed(&hub).await;
    assert_eq!((&failure["agreementId"], &failure["exitCode"]), (&json!("a1"), &json!(7)));
    let output = failure["output"].as_array().unwrap();
    assert_eq!(output[output.len() - 2..], [json!("starting"), json!("no such table")]);

    let transport = evenkeel_client::HttpSettings::new(format!("http://{port}"));
    let api = evenkeel_client::Client::anonymous(evenkeel_client::Transport::http(transport).unwrap(), "");
    let read = async |lines: Option<usize>, after: Option<String>| {
        let query = ServiceLogQuery { service: "acme/web".to_owned(), lines, after, container: None };
        api.local_service_log(&query).await.unwrap().unwrap()
    };
    let first = read(Some(2), None).await;
    assert_eq!((first.instance_id.as_str(), first.container.as_str()), ("a1", "web"));
    assert_eq!(first.text.lines().count(), 2, "{}", first.text);
    let next = timeout(Duration::from_secs(60), async {
        loop {
            let next = read(None, Some(first.position.clone())).await;
            if !next.text.is_empty() {
                return next.text;
            }
            sleep(Duration::from_millis(100)).await;
        }
    });
    let text = first.text + &next.await.expect("it is restarted and writes again");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.windows(2).all(|pair| pair[0] != pair[1]), "nothing twice, nothing left out: {text}");
    hub.send(&Message::new("a1", Body::Cancel { reason: 204 }));
    until("the agreement is gone", || hub.state().agreements.is_empty().then_some(())).await;
    agent.end().await;
}
