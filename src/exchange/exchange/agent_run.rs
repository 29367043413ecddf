//! The agent run that reports for a node: the one that was heard first last.
//!
//! An agent names its run in each request. A run that another one has followed is refused from then on, because both would report for the same
//! node: usually a copied disk, or a token that was used twice. A run is remembered in memory, so that a request of the current one needs no
//! SQL; the row of the node decides, so that it does not matter which exchange a request reaches.

use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_access::{Caller, Role};
use evenkeel_exchange_store::agent_run::{self, AgentRunRow};
use evenkeel_exchange_store::change;
use evenkeel_store::retry;
use evenkeel_wire::exchange::agent_run::{AGENT_RUN_HEADER, AgentRun, GuardianState, NodeAgent};
use evenkeel_wire::exchange::node::AgentState;
use evenkeel_wire::exchange::node_report::NodeMonitorState;
use evenkeel_wire::exchange::time::millisecond_time;
use hashbrown::HashMap;
use http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::feed::row::node_change;
use crate::feed::visibility::NODE_REPORT;
use crate::notice::forget_run;
use crate::org_settings::stored_settings;
use crate::{ApiError, Exchange};

/// Earlier runs that are remembered, and would be refused.
const MOST_FORMER: usize = 8;
/// Time between two records of the refusal of one run.
const REFUSAL_PERIOD: SignedDuration = SignedDuration::from_secs(20);

/// The run of each node, by organization.
type RunsByOrg = HashMap<String, HashMap<String, (AgentRun, GuardianState)>>;

/// The current runs that this exchange has heard, by organization and node.
#[derive(Default)]
pub(crate) struct KnownRuns(Mutex<RunsByOrg>);

impl KnownRuns {
    fn is_known(&self, (org, node): (&str, &str), run: &(AgentRun, GuardianState)) -> bool {
        self.lock().get(org).and_then(|nodes| nodes.get(node)) == Some(run)
    }

    fn remember(&self, (org, node): (&str, &str), run: (AgentRun, GuardianState)) {
        self.lock().entry(org.to_owned()).or_default().insert(node.to_owned(), run);
    }

    /// Forgets the run of a node; those of an organization for `*`, all for the organization `*`.
    pub(crate) fn forget(&self, org: &str, node: &str) {
        let mut known = self.lock();
        match (org, node) {
            ("*", _) => known.clear(),
            (org, "*") => drop(known.remove(org)),
            (org, node) => drop(known.get_mut(org).and_then(|nodes| nodes.remove(node))),
        }
    }

    /// The data of a poisoned lock is consistent: every change is a single insertion or removal.
    fn lock(&self) -> MutexGuard<'_, RunsByOrg> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The runs of a node, as they are stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Runs {
    current: AgentRun,
    guardian: GuardianState,
    since: Timestamp,
    /// Those before it, the latest first.
    #[serde(default)]
    former: Vec<AgentRun>,
    #[serde(default)]
    refused: Option<AgentRun>,
    #[serde(default)]
    refused_at: Option<Timestamp>,
}

/// Decision about a request of a run.
#[derive(Debug, Clone, PartialEq)]
enum Verdict {
    /// It is of the current run, and nothing has changed.
    Known,
    /// It is of the run that is current from now on.
    Current(Runs),
    /// It is refused; the runs to store, if that is to be recorded.
    Refused(Option<Runs>),
}

impl Runs {
    fn first(run: AgentRun, guardian: GuardianState, now: Timestamp) -> Self {
        Self { current: run, guardian, since: now, former: Vec::new(), refused: None, refused_at: None }
    }

    /// Judges a request of a run; `is_gone`: the current one is silent, or has announced that it stops.
    fn judge(self, (run, guardian): (AgentRun, GuardianState), is_gone: bool, now: Timestamp) -> Verdict {
        if self.current.run == run.run {
            return match (self.current == run, self.guardian == guardian) {
                (true, true) => Verdict::Known,
                _ => Verdict::Current(Self { current: run, guardian, ..self }),
            };
        }
        let is_former = self.former.iter().any(|former| former.run == run.run);
        if is_former && !is_gone {
            let is_recorded = self.refused.as_ref().is_some_and(|refused| refused.run == run.run)
                && self.refused_at.is_some_and(|at| now.duration_since(at).abs() < REFUSAL_PERIOD);
            let next = Self { refused: Some(run), refused_at: Some(now), ..self };
            return Verdict::Refused((!is_recorded).then_some(next));
        }
        let others = self.former.into_iter().filter(|former| former.run != run.run);
        let former = std::iter::once(self.current).chain(others).take(MOST_FORMER).collect();
        let (refused, refused_at) = (self.refused, self.refused_at);
        Verdict::Current(Self { former, refused, refused_at, ..Self::first(run, guardian, now) })
    }
}

impl Verdict {
    /// Asks `count` before the runs are stored: a refusal that is not recorded remains a refusal, a run is refused.
    fn limited(self, count: impl FnOnce() -> Result<(), ApiError>) -> Result<Verdict, ApiError> {
        match self {
            Verdict::Known | Verdict::Refused(None) => Ok(self),
            Verdict::Refused(Some(runs)) => Ok(Verdict::Refused(count().is_ok().then_some(runs))),
            Verdict::Current(runs) => count().map(|()| Verdict::Current(runs)),
        }
    }
}

impl Exchange {
    /// Takes note of the run that a node names in a request.
    ///
    /// # Errors
    /// 400 for a header that cannot be read, 409 for a run that another one has followed, 429 for too many different runs.
    pub(crate) async fn note_run(&self, caller: &Caller, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(header) = headers.get(AGENT_RUN_HEADER).filter(|_| caller.role == Role::Node) else {
            return Ok(());
        };
        let text = header.to_str().unwrap_or_default();
        let run = AgentRun::parse(text).map_err(|error| ApiError::invalid_input(error.to_string()))?;
        let node = (caller.org.as_str(), caller.id.as_str());
        if self.agent_runs().is_known(node, &run) {
            return Ok(());
        }
        Box::pin(self.record_run(node, run)).await
    }

    async fn record_run(
        &self,
        (org, node): (&str, &str),
        run: (AgentRun, GuardianState),
    ) -> Result<(), ApiError> {
        let (verdict, current) = retry("agent_run.record", || async {
            let mut tx = self.database().begin().await?;
            let Some(row) = agent_run::lock_runs(&mut tx, org, node).await? else {
                return Ok::<_, ApiError>((Verdict::Known, None));
            };
            let is_gone = self.is_gone((org, node), &row)?;
            let stored = row.runs.and_then(read);
            let current = stored.as_ref().map(|stored| stored.current.clone());
            let verdict = match stored {
                Some(stored) => stored.judge(run.clone(), is_gone, self.now()),
                None => Verdict::Current(Runs::first(run.0.clone(), run.1, self.now())),
            };
            // A retry counts again: the row is locked, so there is none but after a lost connection.
            let verdict = verdict.limited(|| self.limiter().count_agent_run(org, node))?;
            if let Verdict::Current(next) | Verdict::Refused(Some(next)) = &verdict {
                agent_run::set_runs(&mut tx, org, node, &written(next)?).await?;
                let changes = [node_change(org, node, NODE_REPORT, "modified"), forget_run(org, node)];
                change::insert_outbox(&mut tx, &changes, self.now()).await?;
            }
            tx.commit().await?;
            Ok((verdict, current))
        })
        .await?;
        if matches!(verdict, Verdict::Current(_) | Verdict::Refused(Some(_))) {
            self.feed().publish().await;
        }
        match (verdict, current) {
            (Verdict::Refused(_), Some(current)) => Err(ApiError::superseded(format!(
                "another agent reports for node '{org}/{node}': boot {}, journal {}; only one agent may have the identity of a node",
                current.boot, current.journal
            ))),
            _ => {
                self.agent_runs().remember((org, node), run);
                Ok(())
            }
        }
    }

    /// Returns whether the run that reports for a node does so no longer.
    fn is_gone(&self, (org, node): (&str, &str), row: &AgentRunRow) -> Result<bool, ApiError> {
        let is_announced = matches!(
            NodeMonitorState::of_word(&row.monitor_state),
            NodeMonitorState::Maintenance | NodeMonitorState::Upgrade | NodeMonitorState::Shutting
        );
        let settings = stored_settings(org, row.org_settings.clone())?;
        let down_after = settings.node_down_after_secs().unwrap_or(self.settings().node_down_after_secs);
        let seen_at = self.heartbeats().latest_node(org, node, row.seen_at);
        let is_silent = seen_at.is_none_or(|at| {
            self.now().duration_since(at) > SignedDuration::from_secs(down_after.cast_signed())
        });
        Ok(is_announced || is_silent || AgentState::of_word(&row.agent_state) == AgentState::Stopped)
    }
}

/// Reads the stored runs; unreadable ones are replaced by the next request.
fn read(stored: Value) -> Option<Runs> {
    serde_json::from_value(stored)
        .inspect_err(|error| tracing::warn!(%error, "the stored runs of an agent cannot be read"))
        .ok()
}

fn written(runs: &Runs) -> Result<Value, ApiError> {
    serde_json::to_value(runs).map_err(|error| ApiError::internal(format!("the runs of an agent: {error}")))
}

/// Returns the agent of a node as it is shown.
pub(crate) fn shown_agent(stored: Option<Value>) -> Option<NodeAgent> {
    let runs = read(stored?)?;
    Some(NodeAgent {
        current: runs.current,
        guardian: runs.guardian,
        since: Some(millisecond_time(runs.since)),
        refused: runs.refused,
        refused_at: runs.refused_at.map(millisecond_time),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str) -> (AgentRun, GuardianState) {
        let run = AgentRun { run: id.to_owned(), boot: format!("b-{id}"), journal: format!("j-{id}") };
        (run, GuardianState::Running)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("valid")
    }

    fn first(id: &str) -> Runs {
        let (run, guardian) = run(id);
        Runs::first(run, guardian, at(0))
    }

    fn followed(runs: Runs, id: &str) -> Runs {
        match runs.judge(run(id), false, at(1)) {
            Verdict::Current(next) => next,
            other => panic!("{id} is not current: {other:?}"),
        }
    }

    #[test]
    fn run_that_another_one_followed_is_refused() {
        let runs = followed(first("a"), "b");
        assert_eq!(runs.clone().judge(run("b"), false, at(2)), Verdict::Known);
        let Verdict::Refused(Some(recorded)) = runs.clone().judge(run("a"), false, at(2)) else {
            panic!("the older run is not refused")
        };
        assert_eq!((recorded.refused.clone(), recorded.refused_at), (Some(run("a").0), Some(at(2))));
        assert_eq!(recorded.current, run("b").0);
        assert_eq!(recorded.clone().judge(run("a"), false, at(10)), Verdict::Refused(None));
        assert!(matches!(recorded.judge(run("a"), false, at(30)), Verdict::Refused(Some(_))));
        // With three agents, each but the last one is refused.
        let three = followed(runs, "c");
        for older in ["a", "b"] {
            assert!(matches!(three.clone().judge(run(older), false, at(3)), Verdict::Refused(_)));
        }
    }

    #[test]
    fn older_run_reports_again_when_the_newer_one_is_gone() {
        let runs = followed(first("a"), "b");
        let Verdict::Current(back) = runs.judge(run("a"), true, at(400)) else {
            panic!("it is still refused")
        };
        assert_eq!(back.former, [run("b").0]);
        assert!(matches!(back.judge(run("b"), false, at(401)), Verdict::Refused(_)));
    }

    #[test]
    fn change_of_the_guardian_is_no_other_run() {
        let silent = (run("a").0, GuardianState::Silent);
        let Verdict::Current(next) = first("a").judge(silent, false, at(1)) else { panic!("not recorded") };
        assert_eq!((next.guardian, next.former.len(), next.since), (GuardianState::Silent, 0, at(0)));
    }

    #[test]
    fn restarts_do_not_fill_the_row() {
        let runs = (0..50).fold(first("r"), |runs, number| followed(runs, &format!("r{number}")));
        assert_eq!(runs.former.len(), MOST_FORMER);
    }

    #[test]
    fn run_above_the_limit_is_refused_and_a_superseded_one_only_not_recorded() {
        let too_many = || Err(ApiError::too_many(5, ""));
        let current = first("a").judge(run("b"), false, at(1));
        assert!(current.clone().limited(too_many).is_err_and(|error| error.is_too_many()));
        assert!(matches!(current.limited(|| Ok(())), Ok(Verdict::Current(_))));
        let refused = followed(first("a"), "b").judge(run("a"), false, at(2));
        assert!(matches!(refused.limited(too_many), Ok(Verdict::Refused(None))));
        assert!(matches!(Verdict::Known.limited(|| panic!("nothing is stored")), Ok(Verdict::Known)));
    }
}
