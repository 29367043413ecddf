//! Internal events of the exchanges on one database: rows of the feed that clients do not see.
//!
//! Source: docs/adr/0011-writes-wait-for-every-exchange.md.

use evenkeel_exchange_store::change::{Change, SequencedChange};

use crate::Exchange;
use crate::feed::{CREDENTIAL, INTERNAL, Observer};

/// A setting that holds on every running exchange, its id `path=value`; without a value the configured settings hold again.
const CONFIGURATION: &str = "configuration";
/// The run of an agent, which may no longer be the current one.
const AGENT_RUN: &str = "agentrun";
/// Changes that were removed by hand.
const REMOVED_CHANGES: &str = "removedchanges";

impl Observer for Exchange {
    fn observe(&self, row: &SequencedChange) {
        if row.category != INTERNAL {
            if row.resource == "nodemsgs" && row.operation == "created" {
                self.conversations().note_message(&row.org, &row.id, self.now());
            }
            return;
        }
        match (row.resource.as_str(), row.id.split_once('=')) {
            (CONFIGURATION, Some((path, value))) => self.change_setting(path, value),
            (CONFIGURATION, None) => self.reload_settings(),
            (REMOVED_CHANGES, _) => self.feed().forget_rows(),
            (AGENT_RUN, _) => self.agent_runs().forget(&row.org, &row.id),
            _ => self.forget(&row.org, &row.id),
        }
    }

    fn start_anew(&self) {
        self.forget("*", "*");
    }
}

/// The internal row that makes every exchange forget a credential: one login, `id` `*` for a whole organization.
pub(crate) fn forget_login(org: &str, id: &str) -> Change {
    internal(org, id, CREDENTIAL, "deleted")
}

/// The internal row that makes every exchange read again which run reports for a node.
pub(crate) fn forget_run(org: &str, node: &str) -> Change {
    internal(org, node, AGENT_RUN, "modified")
}

/// The internal row that sets `path` to `value` on every running exchange.
pub(crate) fn set_everywhere(path: &str, value: &str) -> Change {
    internal("*", &format!("{path}={value}"), CONFIGURATION, "modified")
}

/// The internal row that takes back all such settings.
pub(crate) fn reload_everywhere() -> Change {
    internal("*", "*", CONFIGURATION, "deleted")
}

/// The internal row that makes every exchange drop the changes it has in memory, after a removal by hand.
pub(crate) fn forget_changes() -> Change {
    internal("*", "*", REMOVED_CHANGES, "deleted")
}

fn internal(org: &str, id: &str, resource: &'static str, operation: &'static str) -> Change {
    Change {
        org: org.to_owned(),
        id: id.to_owned(),
        category: INTERNAL,
        resource,
        operation,
        is_public: false,
    }
}
