//! The metrics of an agbot.

use evenkeel_agbot::{Agbot, Backlog};
use evenkeel_runtime::metrics::Metrics;

/// Adds the gauges of an agbot.
pub fn observe(metrics: &Metrics, agbot: &Agbot) {
    let outbox = |read: fn(Backlog) -> f64| {
        let agbot = agbot.clone();
        move || read(agbot.outbox_backlog())
    };
    metrics.gauge(
        "agbot_outbox_effects",
        "Effects on the exchange that are committed and not delivered yet, of all agbots of the database",
        &[],
        outbox(count),
    );
    metrics.gauge(
        "agbot_outbox_oldest_seconds",
        "Age of the oldest effect that is committed and not delivered yet",
        &[],
        outbox(age),
    );
    let mailbox = |read: fn(Backlog) -> f64| {
        let agbot = agbot.clone();
        move || read(agbot.mailbox_backlog())
    };
    metrics.gauge(
        "agbot_mailbox_messages",
        "Messages of nodes that are not handled yet",
        &[],
        mailbox(count),
    );
    metrics.gauge(
        "agbot_mailbox_oldest_seconds",
        "Age of the oldest message of a node that is not handled yet",
        &[],
        mailbox(age),
    );
}

#[expect(clippy::cast_precision_loss, reason = "a queue has far fewer than 2^53 entries")]
fn count(backlog: Backlog) -> f64 {
    backlog.count as f64
}

fn age(backlog: Backlog) -> f64 {
    backlog.age.as_secs_f64()
}
