//! Grants agent upgrades and releases claims, those that come at the same time in one transaction.
//!
//! A fleet asks at once: a transaction for each question would spend the database on beginnings and flushes. Check and insert stay under
//! the locks of the groups. Source: orchestration E5 and E6; seed 004, "Agent Upgrades".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_planner::agent_upgrade::{GroupView, MemberView, Refusal, decide_agent_upgrade};
use evenkeel_planner::claims::{Claim, ClaimRef, ClaimRequest, Grant, ReleaseReason};
use evenkeel_planner::command::Lease;
use evenkeel_planner::facts::HaGroupFacts;
use evenkeel_planner::ids::{NmpId, NodeId};
use evenkeel_planner::report::Blocked;
use evenkeel_planner::settings::PlannerSettings;
use evenkeel_store::agbot::claim::{self as table, EndedClaim};
use evenkeel_store::agbot::partition::{self, LeaseRow};
use evenkeel_store::{Batches, Database, PgConnection, retry};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::{claim, lease_lost, lease_row};
use crate::AgbotError;
use crate::observe::records::{claim_of, ended};

/// Members that asked within this time count as waiting for their turn.
const WAITING: SignedDuration = SignedDuration::from_secs(180);

/// Batches of a kind that are written at the same time: while one is flushed, the database works on the other. They lock groups in the
/// order of names, so none waits for another in a circle.
const AT_ONCE: usize = 2;

/// May this member of a group upgrade its agent now?
#[derive(Debug, Clone)]
pub struct UpgradeQuestion {
    /// The group.
    pub group: HaGroupFacts,
    /// What is known of its members.
    pub members: BTreeMap<NodeId, MemberView>,
    /// The member that asks.
    pub node: NodeId,
    /// The management policy that it wants to execute.
    pub nmp: NmpId,
    /// When it asks.
    pub at: Timestamp,
}

/// A claim ends.
#[derive(Debug, Clone)]
pub struct ClaimEnd {
    /// The lease under which this was decided.
    pub lease: Lease,
    /// The claim.
    pub claim: ClaimRef,
    /// Why.
    pub why: ReleaseReason,
    /// When.
    pub at: Timestamp,
}

type Answer = Result<Claim, Blocked>;

/// What became of a claim that should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Now,
    Before,
    LeaseLost,
}

/// The claims of one agbot on its database.
#[derive(Debug)]
pub struct ClaimBatches {
    database: Database,
    settings: PlannerSettings,
    instance: Uuid,
    questions: Batches<Arc<UpgradeQuestion>, Answer>,
    ends: Batches<Arc<ClaimEnd>, Ended>,
}

impl ClaimBatches {
    /// For the agbot that holds leases as `instance`.
    #[must_use]
    pub fn new(database: Database, settings: PlannerSettings, instance: Uuid) -> ClaimBatches {
        ClaimBatches {
            database,
            settings,
            instance,
            questions: Batches::new(AT_ONCE),
            ends: Batches::new(AT_ONCE),
        }
    }

    /// Decides whether a member may upgrade its agent now, and records the claim if so.
    ///
    /// # Errors
    /// When the database does not answer. The inner result is the answer for the node: the claim, or why not.
    pub async fn grant(&self, question: UpgradeQuestion) -> Result<Result<Claim, Blocked>, AgbotError> {
        let write = async |questions: Vec<Arc<UpgradeQuestion>>| {
            retry("claim.grant_agents", || self.write_grants(&questions)).await
        };
        self.questions.run(Arc::new(question), write).await
    }

    /// Releases exactly this claim; false when it was gone already.
    ///
    /// # Errors
    /// [`AgbotError::Refused`] when the lease has passed to another agbot, or when the database does not answer.
    pub async fn release(&self, end: ClaimEnd) -> Result<bool, AgbotError> {
        let lease = end.lease;
        let write = async |ends: Vec<Arc<ClaimEnd>>| retry("claim.release", || self.write_ends(&ends)).await;
        match self.ends.run(Arc::new(end), write).await? {
            Ended::Now => Ok(true),
            Ended::Before => Ok(false),
            Ended::LeaseLost => Err(lease_lost(lease)),
        }
    }

    async fn write_grants(&self, questions: &[Arc<UpgradeQuestion>]) -> Result<Vec<Answer>, AgbotError> {
        let now = questions.iter().map(|question| question.at).max().unwrap_or_default();
        let stale = now.saturating_sub(WAITING).unwrap_or(now);
        let names: BTreeSet<&str> = questions.iter().map(|question| question.group.id.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let mut tx = self.database.begin().await?;
        let mut groups = read_groups(&mut tx, &names).await?;
        let (mut answers, mut requests): (Vec<Answer>, Vec<ClaimRequest>) = (Vec::new(), Vec::new());
        let (mut granted, mut refused) = (Vec::new(), Vec::new());
        for question in questions {
            let waiting = (question.group.id.as_str(), question.node.as_str());
            let group = groups.entry(waiting.0).or_default();
            let answer = match group.decide(question, stale, now, &self.settings) {
                Ok((Grant::Held, request)) => {
                    // What is held has a row; this grant may have made it a moment ago.
                    let held = group.rows.iter().find(|row| row.scope == request.scope);
                    Ok(held.cloned().unwrap_or_else(|| request.into_claim(0, now)))
                }
                Ok((Grant::Insert, request)) => {
                    if group.has_ended_waits(waiting.1, stale) {
                        granted.push(waiting);
                    }
                    let claim = request.clone().into_claim(0, now);
                    group.rows.push(claim.clone());
                    requests.push(request);
                    Ok(claim)
                }
                Err(blocked) => {
                    refused.push(waiting);
                    Err(blocked)
                }
            };
            answers.push(answer);
        }
        if !granted.is_empty() {
            table::delete_waits(&mut tx, &granted, stale).await?;
        }
        if !refused.is_empty() {
            table::upsert_waits(&mut tx, &refused, now).await?;
        }
        if !requests.is_empty() {
            let inserted = claim::insert(&mut tx, requests, now).await?;
            let numbers: BTreeMap<_, u64> =
                inserted.iter().map(|claim| (claim.key(), claim.fencing)).collect();
            for claim in answers.iter_mut().flatten() {
                claim.fencing = numbers.get(&claim.key()).copied().unwrap_or(claim.fencing);
            }
        }
        tx.commit().await?;
        Ok(answers)
    }

    async fn write_ends(&self, ends: &[Arc<ClaimEnd>]) -> Result<Vec<Ended>, AgbotError> {
        let leases: BTreeSet<Lease> = ends.iter().map(|end| end.lease).collect();
        let leases: Vec<LeaseRow> = leases.into_iter().map(lease_row).collect();
        let at = ends.iter().map(|end| end.at).max().unwrap_or_default();
        let mut tx = self.database.begin().await?;
        let held = partition::lock_leases(&mut tx, self.instance, &leases).await?;
        let is_held = |end: &ClaimEnd| held.contains(&lease_row(end.lease));
        let wanted: Vec<EndedClaim> = ends
            .iter()
            .filter(|end| is_held(end))
            .map(|end| ended(&end.claim, &end.why.to_string()))
            .collect();
        let names: BTreeSet<&str> = wanted.iter().map(|claim| claim.ha_group.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        table::lock_groups(&mut tx, &names).await?;
        let mut gone: BTreeSet<i64> = table::delete_claims(&mut tx, &wanted, at).await?.into_iter().collect();
        tx.commit().await?;
        Ok(ends
            .iter()
            .map(|end| {
                if !is_held(end) {
                    Ended::LeaseLost
                } else if gone.remove(&end.claim.fencing.cast_signed()) {
                    Ended::Now
                } else {
                    Ended::Before
                }
            })
            .collect())
    }
}

/// What the database knows of one group, under its lock.
#[derive(Debug, Default)]
struct Group {
    released_at: Option<Timestamp>,
    rows: Vec<Claim>,
    refusals: Vec<Refusal>,
}

impl Group {
    fn decide(
        &self,
        question: &UpgradeQuestion,
        stale: Timestamp,
        now: Timestamp,
        settings: &PlannerSettings,
    ) -> Result<(Grant, ClaimRequest), Blocked> {
        let refusals: Vec<Refusal> =
            self.refusals.iter().filter(|refusal| refusal.last_at >= stale).cloned().collect();
        let view = GroupView {
            group: &question.group,
            rows: &self.rows,
            members: &question.members,
            refusals: &refusals,
            released_at: self.released_at,
        };
        decide_agent_upgrade(view, &question.node, &question.nmp, now, settings)
    }

    fn has_ended_waits(&self, node: &str, stale: Timestamp) -> bool {
        self.refusals.iter().any(|refusal| refusal.node.as_str() == node || refusal.last_at < stale)
    }
}

async fn read_groups<'n>(
    tx: &mut PgConnection,
    names: &[&'n str],
) -> Result<BTreeMap<&'n str, Group>, AgbotError> {
    let mut groups: BTreeMap<&str, Group> = names.iter().map(|name| (*name, Group::default())).collect();
    for locked in table::lock_groups(tx, names).await? {
        if let Some(group) = groups.get_mut(locked.ha_group.as_str()) {
            group.released_at = locked.released_at;
        }
    }
    for row in table::list_of_groups(tx, names).await? {
        if let Some(group) = groups.get_mut(row.ha_group.as_str()) {
            group.rows.push(claim_of(row)?);
        }
    }
    for row in table::list_waits(tx, names).await? {
        if let Some(group) = groups.get_mut(row.ha_group.as_str()) {
            let node = NodeId::from_text(&row.node);
            group.refusals.push(Refusal { node, first_at: row.since, last_at: row.refreshed_at });
        }
    }
    Ok(groups)
}
