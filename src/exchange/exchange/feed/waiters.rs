//! Parked polls, by what they wait for, so that a change wakes only those whom it may concern.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use evenkeel_access::{Caller, Role};
use evenkeel_exchange_store::change::SequencedChange;
use evenkeel_ids::NodeId;
use tokio::sync::Notify;

use super::INTERNAL;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Interest {
    /// Changes of one node.
    Node(NodeId),
    /// Changes of an organization that concern all its nodes.
    OrgWide(String),
    /// Every change of an organization.
    Org(String),
    /// Public changes.
    Public,
    /// Everything.
    All,
}

/// Parked polls with the changes that they wait for.
#[derive(Default)]
pub struct Waiters {
    by_interest: Mutex<HashMap<Interest, Vec<Weak<Notify>>>>,
}

impl Waiters {
    /// Registers the caller; the future ends when something that may concern it happens.
    pub fn wait(&self, caller: &Caller, org: &str) -> impl Future<Output = ()> + use<> {
        let notifier = Arc::new(Notify::new());
        let mut map = self.by_interest.lock().unwrap_or_else(PoisonError::into_inner);
        for interest in interests(caller, org) {
            let notifiers = map.entry(interest).or_default();
            // Polls that were given up leave dead entries; drop them before the list grows.
            if notifiers.len() == notifiers.capacity() {
                notifiers.retain(|notifier| notifier.strong_count() > 0);
            }
            notifiers.push(Arc::downgrade(&notifier));
        }
        async move { notifier.notified().await }
    }

    /// Wakes those whom the rows may concern.
    pub fn wake(&self, rows: &[Arc<SequencedChange>]) {
        let mut map = self.by_interest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notify = |interest: &Interest| {
            for notifier in
                map.remove(interest).into_iter().flatten().filter_map(|notifier| notifier.upgrade())
            {
                notifier.notify_one();
            }
        };
        for row in rows.iter().filter(|row| row.category != INTERNAL) {
            notify(&Interest::All);
            notify(&Interest::Org(row.org.clone()));
            if row.is_public {
                notify(&Interest::Public);
            }
            match row.category.as_str() {
                "node" => notify(&Interest::Node(NodeId::new(&row.org, &row.id))),
                "mgmtpolicy" | "service" | "org" => notify(&Interest::OrgWide(row.org.clone())),
                _ => {}
            }
        }
    }
}

fn interests(caller: &Caller, org: &str) -> Vec<Interest> {
    match caller.role {
        Role::Root => vec![Interest::All],
        Role::Agbot if caller.is_multi_tenant() => vec![Interest::All],
        Role::Node => vec![
            Interest::Node(NodeId::new(org, &caller.id)),
            Interest::OrgWide(org.to_owned()),
            Interest::Public,
        ],
        _ => vec![Interest::Org(org.to_owned()), Interest::Public],
    }
}
