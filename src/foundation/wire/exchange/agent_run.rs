//! Identifier of an agent in each of its requests, which distinguishes two agents with the identity of one node.
//!
//! Agents of others send no such header, and other exchanges ignore it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Header with which an agent names itself.
pub const AGENT_RUN_HEADER: &str = "evenkeel-agent";

/// Code of the response to an agent that another one has superseded.
pub const SUPERSEDED: &str = "agent-superseded";

/// Longest id, in bytes.
const LONGEST_ID: usize = 64;

/// State of the guardian that enforces the leases of an agent's tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GuardianState {
    /// It runs, and has confirmed every lease that the agent has reported.
    Running,
    /// It does not run, or the agent has none.
    #[default]
    Absent,
    /// It runs and does not respond.
    Silent,
}

impl GuardianState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Running, Self::Absent, Self::Silent];

    /// Returns the word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Absent => "absent",
            Self::Silent => "silent",
        }
    }
}

/// One run of an agent: from the start of its program until its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentRun {
    /// Id of the run.
    #[schema(required = true)]
    pub run: String,
    /// Id of the boot of its machine.
    #[schema(required = true)]
    pub boot: String,
    /// Id of its journal, which is that of its data directory.
    #[schema(required = true)]
    pub journal: String,
}

/// The agent of a node, as it is shown with its node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAgent {
    /// The run whose reports count.
    #[serde(flatten)]
    pub current: AgentRun,
    /// State of the guardian that enforces the leases of its tasks.
    #[schema(required = true)]
    pub guardian: GuardianState,
    /// When it was first heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Another agent with the identity of the node, if one was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<AgentRun>,
    /// When it was refused last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_at: Option<String>,
}

/// Reason why a header cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the header Evenkeel-Agent {0}")]
pub struct InvalidAgentRun(String);

impl AgentRun {
    /// Returns the value of the header.
    #[must_use]
    pub fn header(&self, guardian: GuardianState) -> String {
        let Self { run, boot, journal } = self;
        format!("run={run};boot={boot};journal={journal};guardian={}", guardian.word())
    }

    /// Reads the value of the header. Names that are not known are left out.
    ///
    /// # Errors
    /// [`InvalidAgentRun`] with the name and the rule.
    pub fn parse(header: &str) -> Result<(Self, GuardianState), InvalidAgentRun> {
        let (mut read, mut guardian) = (Self::default(), GuardianState::default());
        for part in header.split(';') {
            let (name, value) = part.trim().split_once('=').unwrap_or((part.trim(), ""));
            let target = match name {
                "run" => &mut read.run,
                "boot" => &mut read.boot,
                "journal" => &mut read.journal,
                "guardian" => {
                    let found = GuardianState::ALL.into_iter().find(|one| one.word() == value);
                    guardian = found.unwrap_or_default();
                    continue;
                }
                _ => continue,
            };
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            if value.len() > LONGEST_ID || !value.bytes().all(is_plain) {
                let rule = format!(
                    "has {name} with other characters than letters, digits and -, or more than {LONGEST_ID}"
                );
                return Err(InvalidAgentRun(rule));
            }
            value.clone_into(target);
        }
        if read.run.is_empty() {
            return Err(InvalidAgentRun("must have run".to_owned()));
        }
        Ok((read, guardian))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_read_as_it_was_written() {
        let run = AgentRun { run: "r1".into(), boot: "b-2".into(), journal: "j3".into() };
        for guardian in GuardianState::ALL {
            let header = run.header(guardian);
            assert_eq!(AgentRun::parse(&header), Ok((run.clone(), guardian)), "{header}");
        }
        let later = AgentRun::parse("run=r1; color=red; guardian=purple");
        assert_eq!(
            later.map(|(run, guardian)| (run.run, guardian)),
            Ok(("r1".to_owned(), GuardianState::Absent))
        );
    }

    #[test]
    fn header_that_cannot_be_used_is_refused_with_the_rule() {
        let refused = |header: &str| AgentRun::parse(header).expect_err(header).to_string();
        assert_eq!(refused("boot=b"), "the header Evenkeel-Agent must have run");
        assert!(refused("run=a b").starts_with("the header Evenkeel-Agent has run with other characters"));
        assert!(refused(&format!("run=r;boot={}", "x".repeat(65))).contains("has boot with"));
    }
}
