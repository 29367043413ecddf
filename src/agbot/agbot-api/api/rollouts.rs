//! Rollouts through HA groups, and the updates of policies with `orchestration`.

use std::cmp::{Ordering, Reverse};

use axum::Json;
use evenkeel_api::{MAX_COUNT, MAX_EXAMINED, MAX_ID, OrgPath, PageSelection, Refusal};
use evenkeel_domain::object::Members;
use evenkeel_domain::orchestration::MembersError;
use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::rollout as planned;
use evenkeel_planner_record::workload::{UpdateState, WorkloadRecord};
use evenkeel_wire::agbot::rollout::{Rollout, RolloutsQuery, RolloutsResponse, WorkloadUpdate};
use evenkeel_wire::page::DEFAULT_LIMIT;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::fleet::policy_of;
use super::list_page;
use super::parameters::{Named, NamedQuery, Parameters, known};
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op};
use crate::shown::workload_shape::Shape;
use crate::shown::{SeenNodes, hidden};

impl NamedQuery for RolloutsQuery {
    const KNOWN: Members = known(&["after", "limit", "filter", "policy", "newest", "count"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        Ok(Self {
            // Two ids.
            after: parameters.text_of("after", 2 * MAX_ID + 1)?,
            limit: list_page::limit(parameters)?,
            filter: list_page::filter(parameters)?,
            policy: parameters.text("policy")?,
            newest: parameters.boolean("newest")?,
            count: parameters.boolean("count")?,
        })
    }
}

/// Lists the rollouts through the organization's groups, and the updates of its policies.
pub(super) async fn list_rollouts(
    op: Op<OrgPath>,
    permission: Permission<right::HistoryRead>,
    Named(query): Named<RolloutsQuery>,
) -> Result<Json<RolloutsResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let seen = permission.into_proof();
    let after = query.after.as_deref().map(|after| key_of(&org, after)).transpose()?;
    let selection = list_page::selection(query.limit, query.filter.as_deref(), query.count)?;
    let is_by_time = query.newest == Some(true);
    if is_by_time && (after.is_some() || query.filter.is_some() || query.count == Some(true)) {
        return Err(Refusal::invalid_input("newest: is a single page, without after, filter and count"));
    }
    let policy = query.policy.as_deref().map(|name| policy_of(&org, name));
    let (model, now) = (context.model(), context.now());
    let view = View { model: &model, org: &org, policy: policy.as_ref(), seen: &seen, now };
    Ok(Json(match selection {
        _ if is_by_time => view.newest(usize::from(query.limit.unwrap_or(DEFAULT_LIMIT))),
        None => {
            let mut all = RolloutsResponse::default();
            view.entries(after.as_ref()).for_each(|(_, entry)| entry.put(&mut all));
            all
        }
        Some(selection) => view.page(after.as_ref(), &selection),
    }))
}

/// Key of a rollout or an update: the rollouts come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Rollout(GroupId, PolicyId),
    Update(PolicyId),
}

impl Key {
    fn text(&self) -> String {
        match self {
            Self::Rollout(group, policy) => format!("{group} {policy}"),
            Self::Update(policy) => policy.to_string(),
        }
    }
}

/// Reads the key at which the page before ends.
fn key_of(org: &str, text: &str) -> Result<Key, Refusal> {
    let key = match text.split_once(' ') {
        Some((group, policy)) => Key::Rollout(GroupId::from_text(group), PolicyId::from_text(policy)),
        None => Key::Update(PolicyId::from_text(text)),
    };
    let of = match &key {
        Key::Rollout(group, _) => group.org(),
        Key::Update(policy) => policy.org(),
    };
    if of == org { Ok(key) } else { Err(list_page::of_other_list()) }
}

/// A rollout, or the update of a policy.
#[derive(Serialize)]
#[serde(untagged)]
enum Entry {
    Rollout(Box<Rollout>),
    Update(Box<WorkloadUpdate>),
}

impl Entry {
    fn put(self, response: &mut RolloutsResponse) {
        match self {
            Self::Rollout(rollout) => response.rollouts.push(*rollout),
            Self::Update(update) => response.workloads.push(*update),
        }
    }
}

/// The rollouts of an organization as one caller sees them.
struct View<'a> {
    model: &'a Model,
    org: &'a str,
    /// Only those of this policy.
    policy: Option<&'a PolicyId>,
    seen: &'a SeenNodes,
    now: Timestamp,
}

impl<'a> View<'a> {
    /// The rollouts and then the updates, in the order of their keys.
    fn entries(&'a self, after: Option<&'a Key>) -> impl Iterator<Item = (Key, Entry)> + 'a {
        let is_later = move |key: &Key| after.is_none_or(|after| key.cmp(after) == Ordering::Greater);
        let rollouts = self
            .rollouts()
            .map(|rollout| (Key::Rollout(rollout.group.clone(), rollout.policy.clone()), rollout))
            .filter(move |(key, _)| is_later(key))
            .filter_map(move |(key, rollout)| Some((key, Entry::Rollout(Box::new(self.shown(rollout)?)))));
        let updates = self
            .updates()
            .map(|record| (Key::Update(record.policy.clone()), record))
            .filter(move |(key, _)| is_later(key))
            .map(move |(key, record)| (key, Entry::Update(Box::new(self.shown_update(record)))));
        rollouts.chain(updates)
    }

    fn rollouts(&self) -> impl Iterator<Item = &'a planned::Rollout> {
        let (org, policy) = (self.org, self.policy);
        let is_meant = move |rollout: &&planned::Rollout| {
            rollout.group.org() == org && policy.is_none_or(|policy| rollout.policy == *policy)
        };
        self.model.rollouts().filter(is_meant)
    }

    fn updates(&self) -> impl Iterator<Item = &'a WorkloadRecord> {
        let (org, policy) = (self.org, self.policy);
        let is_meant = move |record: &&WorkloadRecord| {
            record.policy.org() == org && policy.is_none_or(|policy| record.policy == *policy)
        };
        self.model.workloads().filter(is_meant).filter(|record| record.update.state != UpdateState::None)
    }

    fn shown_update(&self, record: &WorkloadRecord) -> WorkloadUpdate {
        Shape { policy: &record.policy, seen: self.seen, now: self.now }.workload_update(record)
    }

    /// Those in progress or paused, and then the others, each the newest first. Only what is on the page is put into words.
    fn newest(&self, limit: usize) -> RolloutsResponse {
        enum Either<'a> {
            Rollout(&'a planned::Rollout),
            Update(&'a WorkloadRecord),
        }
        let rollouts = self
            .rollouts()
            .map(|one| ((!one.is_open(), Reverse(Some(one.started_at))), Either::Rollout(one)));
        let is_over = |state| matches!(state, UpdateState::Completed | UpdateState::RollbackCompleted);
        let updates = self
            .updates()
            .map(|one| ((is_over(one.update.state), Reverse(one.update.started_at)), Either::Update(one)));
        let mut found: Vec<_> = rollouts.chain(updates).collect();
        found.sort_by_key(|(key, _)| *key);
        let shown = found.into_iter().filter_map(|(_, one)| match one {
            Either::Rollout(rollout) => Some(Entry::Rollout(Box::new(self.shown(rollout)?))),
            Either::Update(record) => Some(Entry::Update(Box::new(self.shown_update(record)))),
        });
        let mut page = RolloutsResponse::default();
        shown.take(limit).for_each(|entry| entry.put(&mut page));
        page
    }

    fn shown(&self, rollout: &planned::Rollout) -> Option<Rollout> {
        let members: Vec<NodeId> = match self.model.group(&rollout.group) {
            Some(group) => group.members.iter().cloned().collect(),
            None => Vec::new(),
        };
        let mut shown = hidden::rollout(rollout, &members, self.seen)?;
        // The settings in force: the policy's own settings override the hub's.
        shown.update = Some(json!(self.model.update_settings(&rollout.policy)));
        Some(shown)
    }

    fn page(&self, after: Option<&Key>, selection: &PageSelection) -> RolloutsResponse {
        let mut page = RolloutsResponse::default();
        let (mut taken, mut last) = (0, None);
        for (examined, (key, entry)) in self.entries(after).enumerate() {
            if is_at_bound(selection, examined) {
                page.next = last.as_ref().map(Key::text);
                break;
            }
            let is_selected = is_selected(selection, &key, &entry);
            if is_selected && taken == selection.limit {
                page.next = last.as_ref().map(Key::text);
                break;
            }
            if is_selected {
                taken += 1;
                entry.put(&mut page);
            }
            last = Some(key);
        }
        if selection.is_counted {
            let (count, is_minimum) = self.count(selection);
            page.count = Some(count);
            page.count_is_minimum = is_minimum.then_some(true);
        }
        page
    }

    fn count(&self, selection: &PageSelection) -> (u64, bool) {
        let mut count = 0;
        for (examined, (key, entry)) in self.entries(None).enumerate() {
            if is_at_bound(selection, examined) || i64::try_from(examined).is_ok_and(|most| most >= MAX_COUNT)
            {
                return (count, true);
            }
            count += u64::from(is_selected(selection, &key, &entry));
        }
        (count, false)
    }
}

/// True when a filter examines no further entry.
fn is_at_bound(selection: &PageSelection, examined: usize) -> bool {
    selection.filter.is_some() && examined >= MAX_EXAMINED
}

fn is_selected(selection: &PageSelection, key: &Key, entry: &Entry) -> bool {
    selection.filter.as_ref().is_none_or(|filter| filter(&key.text(), &json!(entry)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollouts_precede_updates_and_keys_of_other_lists_are_refused() {
        let rollout = key_of("o", "o/g o/p").expect("a key");
        let update = key_of("o", "o/p").expect("a key");
        assert!(rollout < update);
        assert_eq!((rollout.text().as_str(), update.text().as_str()), ("o/g o/p", "o/p"));
        for foreign in ["p/g o/p", "p/p", "edge-1"] {
            assert!(
                key_of("o", foreign).is_err_and(|refusal| refusal.message().contains("another list")),
                "{foreign}"
            );
        }
    }
}
