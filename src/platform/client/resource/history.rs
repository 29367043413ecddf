//! States at an instant, and the difference of two instants. They are asked for at the agbot's own address.

use evenkeel_wire::agbot::history::{HistoryChanges, HistoryDiffQuery, HistoryQuery, HistoryStates};

use crate::{Client, ClientError, Path};

impl Client {
    /// One page of the states of an organization at an instant; `None` from an agbot that has no history.
    pub async fn history(
        &self,
        org: &str,
        query: &HistoryQuery,
    ) -> Result<Option<HistoryStates>, ClientError> {
        self.get(Path::org(org, &["agbot", "history"]).parameters(query)?).await
    }

    /// One page of the differences of an organization's states at two instants; `None` from an agbot that has no history.
    pub async fn history_changes(
        &self,
        org: &str,
        query: &HistoryDiffQuery,
    ) -> Result<Option<HistoryChanges>, ClientError> {
        self.get(Path::org(org, &["agbot", "history", "diff"]).parameters(query)?).await
    }
}
