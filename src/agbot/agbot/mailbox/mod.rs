//! Reads the mailbox and sends its messages to the engine until each is done.
//!
//! A message is deleted when the commands it led to have succeeded, or when it is unusable. One that cannot be handled now is
//! handled again after a pause that starts short and doubles; the others do not wait for it.

mod cursor;
mod entry;
mod message;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_client::{MessagePage, RetryDelay};
use evenkeel_runtime::worker::Worker;
use evenkeel_wire::agreement::ReplayGuard;
use evenkeel_wire::exchange::message::AgbotMessage;
use tokio::task::{self, JoinSet};
use tokio::time::Instant;

use cursor::Cursor;
use entry::{Entry, Stage, process};

use crate::AgbotError;
use crate::context::Context;
use crate::observe::facts::instant;

/// Messages and bytes read at once.
const PAGE: u32 = 500;
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of messages in memory. Senders can fill the mailbox, so memory must not grow with it.
const MOST_HELD: usize = 32 * 1024 * 1024;
/// A page that has room for so much more ends with the newest message.
const LARGEST: usize = 128 * 1024;
/// Messages that are known: more than the mailbox of an exchange of ours takes.
const MOST_ENTRIES: usize = 50_000;
/// A message that is left for so long is read again when its next turn comes.
const HELD_FOR: Duration = Duration::from_secs(5);
/// Interval between reads of the mailbox without a notification.
const PERIOD: Duration = Duration::from_secs(10);
/// Maximum number of messages handled concurrently.
const CONCURRENCY: usize = 16;
/// Number of envelopes remembered to detect replays.
const REMEMBERED: usize = 20_000;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause before a message is read again that was left.
const LONGEST_LEFT: Duration = Duration::from_secs(60);

/// Handles the messages of nodes.
pub(crate) struct Mailbox {
    context: Arc<Context>,
    guard: ReplayGuard,
    entries: BTreeMap<i64, Entry>,
    /// Bytes of messages in memory.
    held: usize,
    /// True if the mailbox holds more messages than fit into memory.
    has_more: bool,
    cursor: Cursor,
    /// Retry times of waiting messages.
    due: BTreeSet<(Instant, i64)>,
    running: JoinSet<Option<Stage>>,
    /// Message of each running task.
    ids: HashMap<task::Id, i64>,
    /// Senders whose message is being handled: messages of one sender are handled in order.
    busy: HashSet<String>,
    /// Messages that are due and wait for an earlier one of their sender.
    behind: HashMap<String, BTreeSet<i64>>,
    /// Time of the next read of the mailbox.
    read_at: Instant,
    read_delay: RetryDelay,
}

impl Worker for Mailbox {
    type Error = AgbotError;
    const NAME: &'static str = "mailbox";

    async fn pass(&mut self) -> Result<(), AgbotError> {
        // The subject of a message is unknown before everything was read; then the mailbox is read again.
        if !self.context.reading.is_loaded() {
            self.read_at = Instant::now() + PERIOD;
            return Ok(());
        }
        while let Some(ended) = self.running.try_join_next_with_id() {
            self.note(ended);
        }
        let result = self.read_if_due().await;
        self.start();
        let oldest_at = self.entries.first_key_value().and_then(|(_, entry)| entry.sent_at);
        self.context.mailbox.set_backlog(self.entries.len() as u64, oldest_at);
        result
    }

    fn pause(&self) -> Duration {
        let due = self.due.first().map(|(at, _)| *at).filter(|_| self.running.len() < CONCURRENCY);
        let next_at = due.map_or(self.read_at, |due| due.min(self.read_at));
        next_at.saturating_duration_since(Instant::now())
    }

    /// Waits for new messages, a reason to retry, or the end of a running message. A notification that arrives during a pass is kept, and
    /// triggers another one.
    async fn signaled(&mut self) {
        tokio::select! {
            () = self.context.mailbox.mail.notified() => self.read_at = Instant::now(),
            () = self.context.mailbox.retry.notified() => self.retry_all(),
            Some(ended) = self.running.join_next_with_id() => self.note(ended),
        }
    }
}

/// Returns the bytes that a message takes.
fn size(message: &AgbotMessage) -> usize {
    message.message.len() + message.node_pub_key.len()
}

impl Mailbox {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            guard: ReplayGuard::new(REMEMBERED),
            entries: BTreeMap::new(),
            held: 0,
            has_more: false,
            cursor: Cursor::default(),
            due: BTreeSet::new(),
            running: JoinSet::new(),
            ids: HashMap::new(),
            busy: HashSet::new(),
            behind: HashMap::new(),
            read_at: Instant::now(),
            read_delay: RetryDelay::new(FIRST_PAUSE, LONGEST_PAUSE),
        }
    }

    async fn read_if_due(&mut self) -> Result<(), AgbotError> {
        if self.read_at > Instant::now() {
            return Ok(());
        }
        if let Err(error) = self.read().await {
            self.read_at = Instant::now() + self.read_delay.next_pause();
            return Err(error);
        }
        self.read_at = Instant::now() + PERIOD;
        self.read_delay = RetryDelay::new(FIRST_PAUSE, LONGEST_PAUSE);
        Ok(())
    }

    /// Reads what is new, page by page, as far as there is room.
    async fn read(&mut self) -> Result<(), AgbotError> {
        let context = self.context.clone();
        let (org, id) = (&context.settings.org, &context.settings.id);
        let mut after = self.cursor.begin(Instant::now());
        self.has_more = false;
        loop {
            let room = MOST_HELD.saturating_sub(self.held).min(PAGE_BYTES);
            if room == 0 || self.entries.len() >= MOST_ENTRIES {
                self.has_more = true;
                return Ok(());
            }
            // An exchange of the reference lists from the oldest message on: those that stay must not hide later ones.
            let known = if self.cursor.is_ignored() { self.entries.len() } else { 0 };
            let messages = PAGE.saturating_add(u32::try_from(known).unwrap_or(u32::MAX));
            let page = MessagePage { after, messages, bytes: u32::try_from(room).unwrap_or(u32::MAX) };
            let mut found = context.client.list_agbot_messages(org, id, page).await?;
            self.cursor.note_page(after, found.iter().map(|message| message.msg_id));
            let is_last = (found.len() as u64) < u64::from(messages)
                && found.iter().map(size).sum::<usize>() + LARGEST < room;
            found.retain(|message| message.msg_id > after);
            let Some(last) = found.iter().map(|message| message.msg_id).max() else { break };
            after = last;
            for message in found {
                if !self.entries.contains_key(&message.msg_id) {
                    self.add(message);
                }
            }
            if is_last {
                break;
            }
        }
        self.cursor.end(Instant::now(), after);
        Ok(())
    }

    fn add(&mut self, message: AgbotMessage) {
        let is_new = self.guard.check(&message.message).is_ok();
        self.guard.record(&message.message);
        if !is_new {
            self.context.mailbox.count_dropped();
        }
        let id = message.msg_id;
        let size = size(&message);
        self.held += if is_new { size } else { 0 };
        let entry = Entry {
            sender: message.node_id.clone(),
            sent_at: instant(&message.time_sent),
            delay: RetryDelay::new(FIRST_PAUSE, LONGEST_PAUSE),
            stage: Some(if is_new { Stage::Sealed(Box::new(message)) } else { Stage::Done }),
            since: Instant::now(),
            size,
            is_held: is_new,
        };
        self.entries.insert(id, entry);
        self.due.insert((Instant::now(), id));
    }

    /// Starts messages that are due, up to the concurrency limit.
    fn start(&mut self) {
        let now = Instant::now();
        while self.running.len() < CONCURRENCY {
            let Some((_, id)) = self.due.first().copied().filter(|(at, _)| *at <= now) else { return };
            self.due.pop_first();
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            if self.busy.contains(&entry.sender) {
                self.behind.entry(entry.sender.clone()).or_default().insert(id);
                continue;
            }
            let Some(stage) = entry.stage.take() else { continue };
            self.busy.insert(entry.sender.clone());
            let handle = self.running.spawn(process(self.context.clone(), id, stage));
            self.ids.insert(handle.id(), id);
        }
    }

    fn note(&mut self, ended: Result<(task::Id, Option<Stage>), task::JoinError>) {
        let (task, left) = match ended {
            Ok((task, left)) => (task, left),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "handling a message failed");
                (error.id(), Some(Stage::Done))
            }
        };
        let Some(id) = self.ids.remove(&task) else { return };
        let Some(mut entry) = self.entries.remove(&id) else { return };
        self.busy.remove(&entry.sender);
        let now = Instant::now();
        for id in self.behind.remove(&entry.sender).into_iter().flatten() {
            self.due.insert((now, id));
        }
        self.held -= if std::mem::take(&mut entry.is_held) { entry.size } else { 0 };
        if let Some(stage) = left {
            self.keep(id, entry, stage);
        }
        if self.has_more && self.held <= MOST_HELD / 2 {
            self.read_at = now;
        }
    }

    /// Keeps a message for a retry: in memory for a while, as long as there is room.
    fn keep(&mut self, id: i64, mut entry: Entry, stage: Stage) {
        let is_held = entry.since.elapsed() < HELD_FOR && self.held + entry.size <= MOST_HELD / 2;
        let stage = match stage {
            Stage::Done => Stage::Done,
            stage if is_held => stage,
            _ => Stage::Left,
        };
        if matches!(stage, Stage::Left) && entry.delay.longest() != LONGEST_LEFT {
            entry.delay = RetryDelay::new(HELD_FOR, LONGEST_LEFT);
        }
        entry.is_held = matches!(stage, Stage::Sealed(_) | Stage::Opened(_));
        self.held += if entry.is_held { entry.size } else { 0 };
        self.due.insert((Instant::now() + entry.delay.next_pause(), id));
        entry.stage = Some(stage);
        self.entries.insert(id, entry);
    }

    /// Handles messages that wait for a retry at once: the reason to leave them may be gone.
    fn retry_all(&mut self) {
        let now = Instant::now();
        self.due = std::mem::take(&mut self.due).into_iter().map(|(at, id)| (at.min(now), id)).collect();
    }
}
