//! Grants agent upgrades and releases claims; concurrent requests share one statement.
//!
//! A fleet sends its requests at once, and a transaction for each would cost round trips and flushes. Requests are decided on
//! rows that were read without a lock; a claim whose group changed meanwhile is not inserted, and its request is decided again.
//! Source: orchestration E5, E6; requirements 004 ("Agent Upgrades"); design 4.2.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_agbot_store::claim::{self as table, ClaimEnding, EndedClaim, GroupRow, NewClaim};
use evenkeel_agreement::agent_upgrade::{
    GroupView, MemberView, REFUSAL_MEMORY_SECS, Refusal, decide_agent_upgrade,
};
use evenkeel_change::Grant;
use evenkeel_ids::{GroupId, NmpId, NodeId};
use evenkeel_planner_record::claims::{Claim, ClaimRef, ClaimRequest, ReleaseReason};
use evenkeel_planner_record::facts::HaGroupFacts;
use evenkeel_planner_record::lease::Lease;
use evenkeel_planner_record::report::Blocked;
use evenkeel_planner_record::settings::PlannerSettings;
use evenkeel_store::{Batches, Database, PgConnection, retry};
use jiff::Timestamp;
use uuid::Uuid;

use crate::{
    AgbotError,
    records::{claim_of, ended, lease_row, new_claim},
};

/// A request of a group member to upgrade its agent now.
#[derive(Debug, Clone)]
pub struct AgentUpgradeRequest {
    /// The group.
    pub group: HaGroupFacts,
    /// Known states of its members.
    pub members: BTreeMap<NodeId, MemberView>,
    /// The requesting member.
    pub node: NodeId,
    /// The management policy to execute.
    pub nmp: NmpId,
    /// True if the policy requires that the member is drained first.
    pub drains: bool,
    /// Time of the request.
    pub at: Timestamp,
}

/// The end of a claim.
#[derive(Debug, Clone)]
pub struct ClaimEnd {
    /// The lease under which this was decided.
    pub lease: Lease,
    /// The claim.
    pub claim: ClaimRef,
    /// The reason.
    pub why: ReleaseReason,
    /// The time.
    pub at: Timestamp,
}

type Verdict = Result<Claim, Blocked>;

/// The claims of one agbot on its database.
#[derive(Debug)]
pub struct ClaimBatches {
    database: Database,
    settings: PlannerSettings,
    instance: Uuid,
    upgrades: Batches<Arc<AgentUpgradeRequest>, Verdict>,
    ends: Batches<Arc<ClaimEnd>, ClaimEnding>,
}

impl ClaimBatches {
    /// Creates the batches of the agbot that holds leases as `instance`.
    #[must_use]
    pub fn new(database: Database, settings: PlannerSettings, instance: Uuid) -> ClaimBatches {
        ClaimBatches { database, settings, instance, upgrades: Batches::default(), ends: Batches::default() }
    }

    /// Decides whether a member may upgrade its agent now, and records the claim if so.
    ///
    /// # Errors
    /// When the database does not respond. The inner result is the decision: the claim, or the blocking reason.
    pub async fn grant(&self, upgrade: AgentUpgradeRequest) -> Result<Result<Claim, Blocked>, AgbotError> {
        let write = async |upgrades: Vec<Arc<AgentUpgradeRequest>>| {
            retry("claim.grant_agents", || self.decide_all(&upgrades)).await
        };
        self.upgrades.run(Arc::new(upgrade), write).await
    }

    /// Releases exactly this claim; false when it was already gone.
    ///
    /// # Errors
    /// [`AgbotError::Refused`] when the lease has passed to another agbot, or when the database does not respond.
    pub async fn release(&self, end: ClaimEnd) -> Result<bool, AgbotError> {
        let lease = end.lease;
        let write = async |ends: Vec<Arc<ClaimEnd>>| retry("claim.release", || self.end(&ends)).await;
        match self.ends.run(Arc::new(end), write).await? {
            ClaimEnding::Removed => Ok(true),
            ClaimEnding::Absent => Ok(false),
            ClaimEnding::LeaseLost => Err(AgbotError::lease_lost(lease)),
        }
    }

    /// Each round decides as many requests as possible; a request is left for the next one only when another claim of its group was
    /// taken or released meanwhile.
    async fn decide_all(&self, upgrades: &[Arc<AgentUpgradeRequest>]) -> Result<Vec<Verdict>, AgbotError> {
        self.database
            .read(async |connection| {
                let mut verdicts: Vec<Option<Verdict>> = upgrades.iter().map(|_| None).collect();
                while verdicts.iter().any(Option::is_none) {
                    self.decide_round(connection, upgrades, &mut verdicts).await?;
                }
                Ok(verdicts.into_iter().flatten().collect())
            })
            .await
    }

    async fn decide_round(
        &self,
        connection: &mut PgConnection,
        upgrades: &[Arc<AgentUpgradeRequest>],
        verdicts: &mut [Option<Verdict>],
    ) -> Result<(), AgbotError> {
        let now = upgrades.iter().map(|upgrade| upgrade.at).max().unwrap_or_default();
        let stale = now.saturating_sub(Duration::from_secs(REFUSAL_MEMORY_SECS)).unwrap_or(now);
        let open: Vec<_> = upgrades.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_none()).collect();
        let names: BTreeSet<&GroupId> = open.iter().map(|(upgrade, _)| &upgrade.group.id).collect();
        let mut groups = read_groups(connection, &names).await?;
        let (mut wanted, mut refused) = (Vec::new(), BTreeSet::new());
        for (upgrade, verdict) in open {
            let (name, node) = (&upgrade.group.id, &upgrade.node);
            // This round already takes a claim of the group; the next round decides whether another one may be taken.
            let Some(group) = groups.get(name) else { continue };
            match group.decide(upgrade, now, &self.settings) {
                Ok((Grant::Held, request)) => {
                    *verdict = group.claims.iter().find(|held| held.scope == request.scope).cloned().map(Ok);
                }
                Ok((Grant::Insert, request)) => {
                    wanted.push((verdict, request, group.revision));
                    groups.remove(name);
                }
                Err(blocked) => {
                    refused.insert((name, node));
                    *verdict = Some(Err(blocked));
                }
            }
        }
        if !wanted.is_empty() {
            let claims =
                wanted.iter().map(|(_, request, revision)| new_claim(request, *revision, now, Some(stale)));
            let claims = claims.collect::<Result<Vec<NewClaim>, _>>()?;
            let numbers = table::insert_claims(connection, &claims).await?;
            for ((verdict, request, _), number) in wanted.into_iter().zip(numbers) {
                *verdict = number.map(|number| Ok(request.into_claim(number.unsigned_abs(), now)));
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
        let endings = self
            .database
            .read(async |connection| table::delete_claims(connection, self.instance, &claims, at).await)
            .await?;
        Ok(endings)
    }
}

/// The stored state of one group.
#[derive(Debug)]
pub(crate) struct Group {
    /// Incremented with every claim that is taken or released.
    pub(crate) revision: i64,
    pub(crate) claims: Vec<Claim>,
    released_at: Option<Timestamp>,
    refusals: Vec<Refusal>,
}

impl Group {
    fn of(row: GroupRow) -> Result<Group, AgbotError> {
        let refusals = row.waits.into_iter().map(|wait| Refusal {
            node: wait.node,
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
        upgrade: &AgentUpgradeRequest,
        now: Timestamp,
        settings: &PlannerSettings,
    ) -> Result<(Grant, ClaimRequest), Blocked> {
        let view = GroupView {
            group: &upgrade.group,
            rows: &self.claims,
            members: &upgrade.members,
            refusals: &self.refusals,
            released_at: self.released_at,
            drains: upgrade.drains,
        };
        decide_agent_upgrade(view, &upgrade.node, &upgrade.nmp, now, settings)
    }
}

/// Reads groups by name, including those that never had a claim.
pub(crate) async fn read_groups(
    connection: &mut PgConnection,
    names: &BTreeSet<&GroupId>,
) -> Result<BTreeMap<GroupId, Group>, AgbotError> {
    let names: Vec<&GroupId> = names.iter().copied().collect();
    let mut rows = table::read_groups(connection, &names).await?;
    if rows.len() < names.len() {
        table::insert_groups(connection, &names).await?;
        rows = table::read_groups(connection, &names).await?;
    }
    rows.into_iter().map(|row| Ok((row.ha_group.clone(), Group::of(row)?))).collect()
}
