//! Examines the other members of the workload units of this node's tasks (orchestration C3). Only changes are reported to the hub.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use evenkeel_client::ProbeClient;
use evenkeel_runtime::worker::Worker;
use evenkeel_wire::exchange::task_health::PeerMember;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout},
};

use super::canceled_if_ended;
use crate::{
    AgentSettings,
    order::{Ended, Handle},
    step::{Event, WatchedPeers},
};

/// Interval between two searches for members that are due.
const ROUND: Duration = Duration::from_secs(1);
/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Number of consecutive attempts without a response after which a member counts as offline: those of the last two intervals.
const FAILURES: u32 = 2;

/// Number of consecutive attempts without a response, by task and examined task.
type Failures = BTreeMap<(String, String), u32>;

/// State that the attempts in flight share.
#[derive(Default)]
struct Shared {
    in_flight: BTreeSet<String>,
    failures: Failures,
}

/// Examines other members.
pub(super) struct Peers {
    handle: Handle,
    settings: Arc<AgentSettings>,
    client: Option<ProbeClient>,
    due: BTreeMap<String, Instant>,
    shared: Arc<Mutex<Shared>>,
}

impl Worker for Peers {
    type Error = Infallible;
    const NAME: &'static str = "peers";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), Infallible> {
        let result = self.examine_due().await;
        canceled_if_ended(result).await;
        Ok(())
    }

    fn pause(&self) -> Duration {
        ROUND
    }
}

impl Peers {
    pub fn new(handle: Handle, settings: Arc<AgentSettings>) -> Self {
        Self { handle, settings, client: None, due: BTreeMap::new(), shared: Arc::default() }
    }

    async fn examine_due(&mut self) -> Result<(), Ended> {
        let tasks = self.handle.with(|journal| journal.state.watched_peers()).await?;
        self.due.retain(|id, _| tasks.iter().any(|task| task.task == *id));
        lock(&self.shared).failures.retain(|(id, _), _| tasks.iter().any(|task| task.task == *id));
        for task in tasks {
            let now = Instant::now();
            let is_due = self.due.get(&task.task).is_none_or(|due| *due <= now);
            if !is_due || !lock(&self.shared).in_flight.insert(task.task.clone()) {
                continue;
            }
            let interval = u64::from(task.watch.interval_seconds.max(1));
            self.due.insert(task.task.clone(), now + Duration::from_secs(interval));
            self.start(task);
        }
        Ok(())
    }

    fn start(&mut self, task: WatchedPeers) {
        let client = match self.client.take().map_or_else(|| self.settings.probe_client(), Ok) {
            Ok(client) => self.client.insert(client).clone(),
            Err(error) => {
                // A broken check is not a failure of the members.
                lock(&self.shared).in_flight.remove(&task.task);
                return tracing::warn!(error, "other members cannot be examined");
            }
        };
        let (handle, shared) = (self.handle.clone(), self.shared.clone());
        tokio::spawn(async move {
            let responses = task.watch.members.iter().map(|member| responds(&client, &task, member));
            let found = futures_util::future::join_all(responses).await;
            let peers = record_attempt(&mut lock(&shared).failures, &task, &found);
            if peers != task.seen {
                // A core that has ended does not need the outcome.
                let _ended = handle.apply(Event::PeersSeen { task: task.task.clone(), peers }).await;
            }
            lock(&shared).in_flight.remove(&task.task);
        });
    }
}

/// Returns whether a member responds; none when that cannot be examined.
async fn responds(client: &ProbeClient, task: &WatchedPeers, member: &PeerMember) -> Option<bool> {
    let address = member.address.as_deref();
    if let Some(probe) = &task.watch.probe {
        let outcome = client.check(probe, &member.node, address).await;
        let broken = |error: &String| tracing::warn!(task.id = member.task_id, error, "a check is broken");
        return outcome.inspect_err(broken).ok().map(|check| check.healthy);
    }
    let Some(port) = task.port else {
        tracing::warn!(task.id = task.task, "the service publishes no port that its peers could connect to");
        return None;
    };
    let host = address.unwrap_or(&member.node);
    Some(
        timeout(CONNECT_TIMEOUT, TcpStream::connect((host, port))).await.is_ok_and(|outcome| outcome.is_ok()),
    )
}

/// Returns the state of the members after an attempt. A member that did not respond once keeps its previous state.
fn record_attempt(
    failures: &mut Failures,
    task: &WatchedPeers,
    found: &[Option<bool>],
) -> BTreeMap<String, bool> {
    let mut peers = BTreeMap::new();
    for (member, found) in task.watch.members.iter().zip(found) {
        let key = (task.task.clone(), member.task_id.clone());
        let known = task.seen.get(&member.task_id).copied();
        let is_online = match found {
            Some(true) => {
                failures.remove(&key);
                Some(true)
            }
            Some(false) => {
                let count = failures.entry(key).or_default();
                *count += 1;
                if *count >= FAILURES { Some(false) } else { known }
            }
            None => known,
        };
        peers.extend(is_online.map(|is_online| (member.task_id.clone(), is_online)));
    }
    peers
}

/// The data of a poisoned lock is consistent: every change is a single insertion or removal.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::exchange::task_health::PeerWatch;

    use evenkeel_client::AddressRule;

    use super::*;

    #[test]
    fn member_is_offline_after_two_failures_in_a_row() {
        let member = PeerMember { task_id: "t2".to_owned(), node: "n2".to_owned(), address: None };
        let watch = PeerWatch { members: vec![member], ..PeerWatch::default() };
        let mut task = WatchedPeers { task: "t1".to_owned(), watch, port: Some(80), seen: BTreeMap::new() };
        let mut failures = Failures::new();
        let mut examine = |found| {
            task.seen = record_attempt(&mut failures, &task, &[found]);
            task.seen.get("t2").copied()
        };
        assert_eq!(examine(Some(false)), None, "nothing is known after one attempt");
        assert_eq!(examine(Some(false)), Some(false));
        assert_eq!(examine(Some(true)), Some(true));
        assert_eq!(examine(Some(false)), Some(true));
        assert_eq!(examine(None), Some(true), "a broken check says nothing");
        assert_eq!(examine(Some(true)), Some(true));
        assert_eq!(examine(Some(false)), Some(true), "the count begins anew");
    }

    #[tokio::test]
    async fn member_responds_when_its_port_is_open() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = ProbeClient::new(AddressRule::Any, None).unwrap();
        let address = Some("127.0.0.1".to_owned());
        let member = PeerMember { task_id: "t2".to_owned(), node: "n2".to_owned(), address };
        let watched = |port| WatchedPeers {
            task: "t1".to_owned(),
            watch: PeerWatch::default(),
            port,
            seen: BTreeMap::new(),
        };
        assert_eq!(responds(&client, &watched(Some(port)), &member).await, Some(true));
        assert_eq!(responds(&client, &watched(None), &member).await, None);
        drop(listener);
        assert_eq!(responds(&client, &watched(Some(port)), &member).await, Some(false));
    }
}
