//! Messages of an agent that cannot reach its hub or cannot log in there.

use crate::support::{Hub, Program, Scratch, eventually, free_address};

fn start(scratch: &Scratch, hub: &str, token: &str) -> Program {
    let (token_file, data) = (scratch.join("token"), scratch.join("data"));
    std::fs::write(&token_file, token).expect("a token file");
    let arguments = [
        "agent",
        "--hub",
        hub,
        "--org",
        "o",
        "--node-id",
        "n",
        "--token-file",
        &token_file.to_string_lossy(),
        "--driver",
        "process",
        "--data-dir",
        &data.to_string_lossy(),
        "--api-listen",
        "off",
    ];
    Program::start(scratch, &arguments, None)
}

/// The first warning about the hub; how soon it comes is tested with a paused clock in the agent.
async fn warning(agent: &Program) -> String {
    eventually("a warning", || async {
        let output = agent.errors();
        output.lines().find(|line| line.contains("WARN") && line.contains("hub")).map(str::to_owned)
    })
    .await
}

#[tokio::test]
async fn agent_without_its_hub_warns_with_the_reason() {
    let scratch = Scratch::new();
    let url = format!("http://{}", free_address());
    let agent = start(&scratch, &url, "t0ken");
    let line = warning(&agent).await;
    assert!(line.contains("not reachable") && line.contains(&url), "{line}");
}

#[tokio::test]
async fn agent_that_cannot_log_in_warns_with_the_reason() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let agent = start(&scratch, &hub.url, "wrong");
    let line = warning(&agent).await;
    assert!(line.contains("login refused") && line.contains("401"), "{line}");
    drop(agent);
    assert_eq!(hub.stop().await, 0);
}
