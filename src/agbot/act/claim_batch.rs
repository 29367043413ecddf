//! Grants agent upgrades and releases claims, those that come at the same time by one statement.
//!
//! A fleet asks at once, and what a transaction for each question would cost are round trips and flushes. Questions are decided on what
//! was read without a lock; a claim whose group changed meanwhile is not inserted, and its question is decided anew. Source:
//! orchestration E5 and E6; seed 004, "Agent Upgrades"; design, "Claims".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_agbot_store::claim::{self as table, ClaimEnding, EndedClaim, GroupRow, NewClaim};
use evenkeel_planner::agent_upgrade::{
    GroupView, MemberView, REFUSAL_MEMORY_SECS, Refusal, decide_agent_upgrade,
};
use evenkeel_planner::claims::{Claim, ClaimRef, ClaimRequest, Grant, ReleaseReason};
use evenkeel_planner::command::Lease;
use evenkeel_planner::facts::HaGroupFacts;
use evenkeel_planner::ids::{NmpId, NodeId};
use evenkeel_planner::report::Blocked;
use evenkeel_planner::settings::PlannerSettings;
use evenkeel_store::{Batches, Database, PgConnection, retry};
use jiff::Timestamp;
use uuid::Uuid;

use super::{lease_lost, lease_row};
use crate::AgbotError;
use crate::observe::records::{claim_of, ended, new_claim};

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

/// The claims of one agbot on its database.
#[derive(Debug)]
pub struct ClaimBatches {
    database: Database,
    settings: PlannerSettings,
    instance: Uuid,
    questions: Batches<Arc<UpgradeQuestion>, Answer>,
    ends: Batches<Arc<ClaimEnd>, ClaimEnding>,
}

impl ClaimBatches {
    /// For the agbot that holds leases as `instance`.
    #[must_use]
    pub fn new(database: Database, settings: PlannerSettings, instance: Uuid) -> ClaimBatches {
        ClaimBatches { database, settings, instance, questions: Batches::default(), ends: Batches::default() }
    }

    /// Decides whether a member may upgrade its agent now, and records the claim if so.
    ///
    /// # Errors
    /// When the database does not answer. The inner result is the answer for the node: the claim, or why not.
    pub async fn grant(&self, question: UpgradeQuestion) -> Result<Result<Claim, Blocked>, AgbotError> {
        let write = async |questions: Vec<Arc<UpgradeQuestion>>| {
            retry("claim.grant_agents", || self.answer(&questions)).await
        };
        self.questions.run(Arc::new(question), write).await
    }

    /// Releases exactly this claim; false when it was gone already.
    ///
    /// # Errors
    /// [`AgbotError::Refused`] when the lease has passed to another agbot, or when the database does not answer.
    pub async fn release(&self, end: ClaimEnd) -> Result<bool, AgbotError> {
        let lease = end.lease;
        let write = async |ends: Vec<Arc<ClaimEnd>>| retry("claim.release", || self.end(&ends)).await;
        match self.ends.run(Arc::new(end), write).await? {
            ClaimEnding::Removed => Ok(true),
            ClaimEnding::Absent => Ok(false),
            ClaimEnding::LeaseLost => Err(lease_lost(lease)),
        }
    }

    /// Each round answers what it can; a question is left for the next one only when another claim of its group was taken or
    /// released meanwhile.
    async fn answer(&self, questions: &[Arc<UpgradeQuestion>]) -> Result<Vec<Answer>, AgbotError> {
        let mut connection = self.database.acquire().await?;
        let mut answers: Vec<Option<Answer>> = questions.iter().map(|_| None).collect();
        while answers.iter().any(Option::is_none) {
            self.answer_round(&mut connection, questions, &mut answers).await?;
        }
        connection.release();
        Ok(answers.into_iter().flatten().collect())
    }

    async fn answer_round(
        &self,
        connection: &mut PgConnection,
        questions: &[Arc<UpgradeQuestion>],
        answers: &mut [Option<Answer>],
    ) -> Result<(), AgbotError> {
        let now = questions.iter().map(|question| question.at).max().unwrap_or_default();
        let stale = now.saturating_sub(Duration::from_secs(REFUSAL_MEMORY_SECS)).unwrap_or(now);
        let open: Vec<_> = questions.iter().zip(answers).filter(|(_, answer)| answer.is_none()).collect();
        let names: BTreeSet<&str> = open.iter().map(|(question, _)| question.group.id.as_str()).collect();
        let mut groups = read_groups(connection, &names).await?;
        let (mut wanted, mut refused) = (Vec::new(), BTreeSet::new());
        for (question, answer) in open {
            let (name, node) = (question.group.id.as_str(), question.node.as_str());
            // A claim of its group is taken by this round already: whether another one may be, the next round finds.
            let Some(group) = groups.get(name) else { continue };
            match group.decide(question, now, &self.settings) {
                Ok((Grant::Held, request)) => {
                    *answer = group.claims.iter().find(|held| held.scope == request.scope).cloned().map(Ok);
                }
                Ok((Grant::Insert, request)) => {
                    wanted.push((answer, request, group.revision));
                    groups.remove(name);
                }
                Err(blocked) => {
                    refused.insert((name, node));
                    *answer = Some(Err(blocked));
                }
            }
        }
        if !wanted.is_empty() {
            let claims =
                wanted.iter().map(|(_, request, revision)| new_claim(request, *revision, now, Some(stale)));
            let claims = claims.collect::<Result<Vec<NewClaim>, _>>()?;
            let numbers = table::insert_claims(connection, &claims).await?;
            for ((answer, request, _), number) in wanted.into_iter().zip(numbers) {
                *answer = number.map(|number| Ok(request.into_claim(number.unsigned_abs(), now)));
            }
        }
        if !refused.is_empty() {
            table::upsert_waits(connection, &refused, now).await?;
        }
        Ok(())
    }

    async fn end(&self, ends: &[Arc<ClaimEnd>]) -> Result<Vec<ClaimEnding>, AgbotError> {
        let at = ends.iter().map(|end| end.at).max().unwrap_or_default();
        let claims: Vec<EndedClaim> = ends
            .iter()
            .map(|end| ended(&end.claim, &end.why.to_string(), Some(lease_row(end.lease))))
            .collect();
        let mut connection = self.database.acquire().await?;
        let endings = table::delete_claims(&mut connection, self.instance, &claims, at).await?;
        connection.release();
        Ok(endings)
    }
}

/// What the database knows of one group.
#[derive(Debug)]
pub(super) struct Group {
    /// Changes with every claim that is taken or released.
    pub(super) revision: i64,
    /// The claims.
    pub(super) claims: Vec<Claim>,
    released_at: Option<Timestamp>,
    refusals: Vec<Refusal>,
}

impl Group {
    fn of(row: GroupRow) -> Result<Group, AgbotError> {
        let refusals = row.waits.into_iter().map(|wait| Refusal {
            node: NodeId::from_text(&wait.node),
            first_at: wait.since,
            last_at: wait.refreshed_at,
        });
        Ok(Group {
            revision: row.revision,
            released_at: row.released_at,
            claims: row.claims.into_iter().map(claim_of).collect::<Result<_, _>>()?,
            refusals: refusals.collect(),
        })
    }

    fn decide(
        &self,
        question: &UpgradeQuestion,
        now: Timestamp,
        settings: &PlannerSettings,
    ) -> Result<(Grant, ClaimRequest), Blocked> {
        let view = GroupView {
            group: &question.group,
            rows: &self.claims,
            members: &question.members,
            refusals: &self.refusals,
            released_at: self.released_at,
        };
        decide_agent_upgrade(view, &question.node, &question.nmp, now, settings)
    }
}

/// Reads groups by name; those that never had a claim, too.
pub(super) async fn read_groups(
    connection: &mut PgConnection,
    names: &BTreeSet<&str>,
) -> Result<BTreeMap<String, Group>, AgbotError> {
    let names: Vec<&str> = names.iter().copied().collect();
    let mut rows = table::read_groups(connection, &names).await?;
    if rows.len() < names.len() {
        table::insert_groups(connection, &names).await?;
        rows = table::read_groups(connection, &names).await?;
    }
    rows.into_iter().map(|row| Ok((row.ha_group.clone(), Group::of(row)?))).collect()
}
