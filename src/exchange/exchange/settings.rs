//! Settings of an exchange.

use std::str::FromStr;
use std::time::Duration;

use evenkeel_exchange_store::document_revision::RevisionLimits;
use evenkeel_exchange_store::message::Volume;
use evenkeel_oidc::OidcSettings;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::limit::RateLimits;

/// Treatment of a policy with an unreadable constraint, which selects nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InvalidConstraints {
    /// It is stored, as the reference stores it, and the response carries a warning.
    #[default]
    Warn,
    /// It is refused with 400.
    Refuse,
}

impl FromStr for InvalidConstraints {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "warn" => Ok(Self::Warn),
            "refuse" => Ok(Self::Refuse),
            _ => Err("must be warn or refuse".to_owned()),
        }
    }
}

/// Treatment of new names with blanks, control or invisible characters, and of new secrets of fewer than four
/// characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeakIdentities {
    /// They are stored, as the reference stores them.
    #[default]
    Accept,
    /// They are refused with 400.
    Refuse,
}

impl FromStr for WeakIdentities {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "accept" => Ok(Self::Accept),
            "refuse" => Ok(Self::Refuse),
            _ => Err("must be accept or refuse".to_owned()),
        }
    }
}

/// Settings of an exchange.
#[derive(Debug, Clone)]
pub struct ExchangeSettings {
    /// Password of `root/root`; `None` disables root.
    pub root_password: Option<String>,
    /// Largest accepted request body, in bytes.
    pub max_body_bytes: usize,
    /// Treatment of policies with unreadable constraints.
    pub invalid_constraints: InvalidConstraints,
    /// Treatment of weak new names and secrets.
    pub weak_identities: WeakIdentities,
    /// Simultaneous slow password checks.
    pub login_slots: usize,
    /// Limits of contract section 8.
    pub limits: Limits,
    /// Limits on the bytes of documents.
    pub document_bytes: DocumentBytes,
    /// Limits on the revisions of documents.
    pub revisions: RevisionSettings,
    /// Limits on mailboxes.
    pub mailboxes: MailboxLimits,
    /// Age at which changes are removed.
    pub change_age: Duration,
    /// Interval at which old changes and messages are removed.
    pub cleanup_period: Duration,
    /// Age at which audit records are removed; `None` keeps them.
    pub audit_age: Option<Duration>,
    /// Request rates of callers and addresses.
    pub rate_limits: RateLimits,
    /// Silence, in seconds, after which a node is down unless its organization sets another: that of the hub's agbot.
    pub node_down_after_secs: u64,
    /// Time in seconds that nodes get to be heard again after a start of the agbot, unless their organization sets another: that of the
    /// hub's agbot.
    pub rejoin_grace_secs: u64,
    /// Identity provider whose tokens are accepted; `None` accepts none.
    pub oidc: Option<OidcSettings>,
}

/// Limits of contract section 8; 0 switches a limit off, except for nodes.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Nodes an account may own, and ceiling of an organization's own limit.
    pub nodes: i64,
    /// Agbots an account may own.
    pub agbots: i64,
    /// Services an account may own.
    pub services: i64,
    /// Patterns an account may own.
    pub patterns: i64,
    /// Deployment policies an account may own.
    pub deployment_policies: i64,
    /// Management policies an account may own.
    pub management_policies: i64,
    /// HA groups an account may own.
    pub ha_groups: i64,
    /// Agreements of one node.
    pub node_agreements: i64,
    /// Agreements of one agbot.
    pub agbot_agreements: i64,
    /// Patterns and deployment policies together that one agbot serves, unless it is of the shared organization.
    pub served_entries: i64,
    /// Messages in one mailbox.
    pub messages: i64,
}

/// Bytes that the documents of an account may have together beyond a share that each document may have; 0 switches a limit off.
#[derive(Debug, Clone)]
pub struct DocumentBytes {
    /// Nodes, with their policies, statuses and errors.
    pub nodes: i64,
    /// Services, with their policies.
    pub services: i64,
    /// Patterns, deployment policies and management policies.
    pub policies: i64,
}

impl Default for DocumentBytes {
    /// With the shares of as many nodes and policies as an account may own, the lists that an agbot reads keep below their limits of 256 MiB
    /// and 64 MiB.
    fn default() -> Self {
        DocumentBytes { nodes: 64 * MIB, services: 64 * MIB, policies: 16 * MIB }
    }
}

/// Limits on the revisions of documents; the newest one of a document that exists always stays.
#[derive(Debug, Clone)]
pub struct RevisionSettings {
    /// Number and bytes.
    pub limits: RevisionLimits,
    /// Age at which revisions are removed.
    pub age: Duration,
}

impl RevisionSettings {
    /// Returns the instant before which revisions are too old.
    pub(crate) fn kept_since(&self, now: Timestamp) -> Timestamp {
        let age = SignedDuration::try_from(self.age).unwrap_or(SignedDuration::MAX);
        now.saturating_sub(age).unwrap_or(Timestamp::MIN)
    }
}

impl Default for RevisionSettings {
    fn default() -> Self {
        RevisionSettings {
            limits: RevisionLimits { count: 20, document_bytes: 4 * MIB, org_bytes: 256 * MIB },
            age: Duration::from_secs(400 * 86_400),
        }
    }
}

/// Limits on mailboxes; a message counts with the key of its sender.
#[derive(Debug, Clone)]
pub struct MailboxLimits {
    /// Bytes of a message.
    pub message_bytes: usize,
    /// Longest time that a message is kept, whatever its sender asks for.
    pub lifetime: Duration,
    /// The mailbox of a node.
    pub node: Volume,
    /// Limits of one agbot in the mailbox of a node.
    pub node_sender: Volume,
    /// The mailbox of an agbot.
    pub agbot: Volume,
    /// Limits of the nodes of one organization together in the mailbox of an agbot.
    pub agbot_org: Volume,
    /// Limits of one node in the mailbox of an agbot.
    pub agbot_sender: Volume,
}

const MIB: i64 = 1024 * 1024;

impl Default for MailboxLimits {
    fn default() -> Self {
        MailboxLimits {
            message_bytes: 64 * 1024,
            lifetime: Duration::from_secs(86_400),
            node: Volume { messages: 1_000, bytes: 8 * MIB },
            node_sender: Volume { messages: 500, bytes: 4 * MIB },
            agbot: Volume { messages: 40_000, bytes: 256 * MIB },
            agbot_org: Volume { messages: 20_000, bytes: 128 * MIB },
            agbot_sender: Volume { messages: 200, bytes: 2 * MIB },
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            nodes: 45_000,
            agbots: 1_000,
            services: 1_000,
            patterns: 1_000,
            deployment_policies: 5_000,
            management_policies: 5_000,
            ha_groups: 1_000,
            node_agreements: 1_000,
            // The agbot of a hub has those of all nodes.
            agbot_agreements: 0,
            served_entries: 1_000,
            messages: 0,
        }
    }
}

impl Default for ExchangeSettings {
    fn default() -> Self {
        ExchangeSettings {
            root_password: None,
            max_body_bytes: 1024 * 1024,
            invalid_constraints: InvalidConstraints::default(),
            weak_identities: WeakIdentities::default(),
            // Half of the processors, so that a flood of logins leaves the other half to all other requests.
            login_slots: std::thread::available_parallelism().map_or(1, |count| count.get().div_ceil(2)),
            limits: Limits::default(),
            document_bytes: DocumentBytes::default(),
            revisions: RevisionSettings::default(),
            mailboxes: MailboxLimits::default(),
            change_age: Duration::from_secs(14_400),
            cleanup_period: Duration::from_secs(1_800),
            audit_age: Some(Duration::from_secs(90 * 86_400)),
            rate_limits: RateLimits::default(),
            node_down_after_secs: 180,
            rejoin_grace_secs: 90,
            oidc: None,
        }
    }
}
