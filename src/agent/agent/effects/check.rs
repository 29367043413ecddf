//! Checks a task immediately, at the request of a user.

use evenkeel_wire::exchange::task_health::{CommandResult, EndedCommand, TaskCheck, TaskProbe};

use super::Context;
use crate::{address::Addresses, step::Event};

/// Runs the check, with its attempts. A broken check proves nothing about the task, which counts as healthy.
pub(super) async fn check(
    context: Context,
    agreement: String,
    probe: Option<TaskProbe>,
    (task, command): (String, String),
) -> Result<Option<Event>, String> {
    let health = match probe {
        Some(probe) => Some(examine(&context, &probe).await.unwrap_or_else(TaskCheck::broken)),
        None => None,
    };
    let (result, message) = match &health {
        Some(health) if !health.healthy => (CommandResult::Failed, health.message.clone()),
        Some(health) if health.is_broken => {
            let error = health.message.as_deref().unwrap_or_default();
            (
                CommandResult::Ok,
                Some(format!("the check is broken and proves nothing about the instance: {error}")),
            )
        }
        Some(_) => (CommandResult::Ok, None),
        None => (CommandResult::Ok, Some("its node no longer checks it".to_owned())),
    };
    let seen = context.driver.observe(&agreement).await;
    let ended = EndedCommand { id: command, result, message };
    Ok(Some(Event::CommandEnded { task, ended, seen, health }))
}

async fn examine(context: &Context, probe: &TaskProbe) -> Result<TaskCheck, String> {
    let settings = &context.settings;
    let addresses = Addresses::of(settings);
    addresses.refresh().await;
    let client = settings.probe_client()?;
    let name = context.hub.as_ref().map(|hub| hub.node.name().to_owned()).unwrap_or_default();
    client.check(probe, &name, addresses.main().as_deref()).await
}
