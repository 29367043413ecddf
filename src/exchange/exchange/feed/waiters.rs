//! Parked polls, by what they wait for, so that a change wakes only those whom it may concern.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use evenkeel_access::{Caller, Role};
use evenkeel_exchange_store::change::SequencedChange;
use evenkeel_ids::NodeId;
use tokio::sync::Notify;

use super::{CREDENTIAL, INTERNAL};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Interest {
    /// Changes of one node, and of the login of this name, whatever its kind: names are unique among the logins of an organization.
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

impl Interest {
    /// Returns whether it includes the login of a caller in an organization; `*` for any.
    fn is_of_login_in(&self, org: &str) -> bool {
        matches!(self, Interest::Node(node) if org == "*" || node.org() == org)
    }
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
        let mut withdrawn = Vec::new();
        for row in rows.iter().filter(|row| row.category == INTERNAL && row.resource == CREDENTIAL) {
            match row.id.as_str() {
                "*" => {
                    withdrawn
                        .extend(map.keys().filter(|interest| interest.is_of_login_in(&row.org)).cloned());
                }
                id => withdrawn.push(Interest::Node(NodeId::new(&row.org, id))),
            }
        }
        let mut notify = |interest: &Interest| {
            for notifier in
                map.remove(interest).into_iter().flatten().filter_map(|notifier| notifier.upgrade())
            {
                notifier.notify_one();
            }
        };
        withdrawn.iter().for_each(&mut notify);
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
    let login = Interest::Node(NodeId::new(&caller.org, &caller.id));
    match caller.role {
        Role::Root => vec![login, Interest::All],
        Role::Agbot if caller.is_multi_tenant() => vec![login, Interest::All],
        Role::Node => {
            let abroad = (caller.org != org).then(|| Interest::Node(NodeId::new(org, &caller.id)));
            let common = [login, Interest::OrgWide(org.to_owned()), Interest::Public];
            common.into_iter().chain(abroad).collect()
        }
        _ => vec![login, Interest::Org(org.to_owned()), Interest::Public],
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use jiff::Timestamp;

    use super::*;

    fn caller(role: Role, org: &str, id: &str) -> Caller {
        Caller::new(role, org, id)
    }

    fn withdrawal(org: &str, id: &str) -> Vec<Arc<SequencedChange>> {
        vec![Arc::new(SequencedChange {
            change_id: 1,
            org: org.to_owned(),
            id: id.to_owned(),
            category: INTERNAL.to_owned(),
            resource: CREDENTIAL.to_owned(),
            operation: "deleted".to_owned(),
            is_public: false,
            changed_at: Timestamp::UNIX_EPOCH,
        })]
    }

    #[test]
    fn withdrawn_login_is_woken_and_no_other() {
        let waiters = Waiters::default();
        let wait = |role, org: &str, id: &str, of: &str| waiters.wait(&caller(role, org, id), of).boxed();
        let mut polls = [
            wait(Role::User, "o", "a", "o"),
            wait(Role::Node, "o", "b", "p"),
            wait(Role::Root, "root", "root", "o"),
            wait(Role::Node, "p", "b", "p"),
        ];
        let mut woken = |org: &str, id: &str| {
            waiters.wake(&withdrawal(org, id));
            polls.iter_mut().map(|poll| poll.now_or_never().is_some()).collect::<Vec<_>>()
        };
        assert_eq!(woken("o", "c"), [false, false, false, false]);
        assert_eq!(woken("o", "a"), [true, false, false, false]);
        let mut polls = [wait(Role::User, "o", "a", "o"), wait(Role::Node, "o", "b", "p")];
        waiters.wake(&withdrawal("o", "*"));
        assert!(polls.iter_mut().all(|poll| poll.now_or_never().is_some()));
    }
}
