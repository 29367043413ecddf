//! Settings of an agbot.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use evenkeel_client::AllowedAddresses;
use evenkeel_planner_record::settings::PlannerSettings;
use serde::Deserialize;

/// The rule for policies and patterns that another agbot of the exchange is configured to serve as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OtherAgbotsRule {
    /// Leaves them to the other agbot.
    Yield,
    /// Serves them anyway.
    Ignore,
}

impl FromStr for OtherAgbotsRule {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "yield" => Ok(Self::Yield),
            "ignore" => Ok(Self::Ignore),
            _ => Err("must be yield or ignore".to_owned()),
        }
    }
}

/// The rule for organizations that are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewOrgs {
    /// Nothing; an administrator configures what is served.
    Ignore,
    /// Serve those that are created from now on.
    Serve,
    /// Serve those whose creation has this number in the change feed, or a later one.
    ServeFrom(i64),
}

/// Settings of an agbot.
#[derive(Debug, Clone)]
pub struct AgbotSettings {
    /// Organization of the agbot in the exchange.
    pub org: String,
    /// Id of the agbot in the exchange; all instances share it.
    pub id: String,
    /// File of the messaging key, shared by all instances; created when missing.
    pub key_file: PathBuf,
    /// Rule for organizations that are created later, besides those that the exchange says it serves.
    pub new_orgs: NewOrgs,
    /// The rule where another agbot serves the same.
    pub other_agbots: OtherAgbotsRule,
    /// The planner's settings.
    pub planner: PlannerSettings,
    /// Longest time a poll of the change feed is parked.
    pub poll_wait: Duration,
    /// Interval between reads of the status of nodes that a decision waits for.
    pub status_period: Duration,
    /// Interval between comparisons of everything with the exchange.
    pub reconcile_period: Duration,
    /// Validity of a partition lease without renewal.
    pub lease_time: Duration,
    /// Retention of ended agreements.
    pub ended_agreements: Duration,
    /// Retention of events, and of the states that are over.
    pub history: Duration,
    /// Size that the states that are over may reach; the oldest ones are removed first.
    pub history_bytes: i64,
    /// Retention of finished rollouts.
    pub rollout_history: Duration,
    /// Lifetime of a message in a mailbox.
    pub message_time: Duration,
    /// The addresses that the hub's own checks and calls may reach besides public ones.
    pub checks_addresses: AllowedAddresses,
    /// Authorities that the hub's own checks and calls trust in addition to those of the system, PEM.
    pub checks_ca_file: Option<PathBuf>,
}

impl AgbotSettings {
    /// Returns the default settings for an identity.
    #[must_use]
    pub fn new(org: &str, id: &str, key_file: PathBuf) -> AgbotSettings {
        AgbotSettings {
            org: org.to_owned(),
            id: id.to_owned(),
            key_file,
            new_orgs: NewOrgs::Ignore,
            other_agbots: OtherAgbotsRule::Ignore,
            planner: PlannerSettings::default(),
            poll_wait: Duration::from_secs(20),
            status_period: Duration::from_millis(400),
            reconcile_period: Duration::from_secs(300),
            lease_time: Duration::from_secs(6),
            ended_agreements: Duration::from_secs(24 * 3600),
            history: Duration::from_secs(30 * 24 * 3600),
            history_bytes: 2 * 1024 * 1024 * 1024,
            rollout_history: Duration::from_secs(30 * 24 * 3600),
            message_time: Duration::from_secs(240),
            checks_addresses: AllowedAddresses::default(),
            checks_ca_file: None,
        }
    }
}
