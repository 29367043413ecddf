//! Policies and statuses of the nodes of a page, so that who needs them for a fleet need not request those of each node.

use std::collections::BTreeMap;

use evenkeel_exchange_store::node_part::{self, NodePolicyRow, NodeStatusRow};
use evenkeel_store::StoreError;
use evenkeel_wire::exchange::node::NodeParts;

use super::{policy, status};
use crate::{ApiError, Exchange};

/// What belongs to some nodes of an organization, by the bare id.
pub(super) struct PartsOfNodes {
    policies: BTreeMap<String, NodePolicyRow>,
    statuses: BTreeMap<String, NodeStatusRow>,
}

impl PartsOfNodes {
    /// Reads the parts of nodes whose records the caller may read.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn read(exchange: &Exchange, org: &str, nodes: &[String]) -> Result<Self, ApiError> {
        let (policies, statuses) = exchange
            .database()
            .read(async |connection| {
                let policies = node_part::list_policies(connection, org, nodes).await?;
                Ok::<_, StoreError>((policies, node_part::list_statuses(connection, org, nodes).await?))
            })
            .await?;
        Ok(Self { policies: policies.into_iter().collect(), statuses: statuses.into_iter().collect() })
    }

    /// Takes out those of one node.
    pub(super) fn take(&mut self, node: &str) -> NodeParts {
        NodeParts {
            policy: self.policies.remove(node).map(policy::response),
            status: self.statuses.remove(node).map(status::response),
        }
    }
}
