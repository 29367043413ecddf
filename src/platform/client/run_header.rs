//! The header with which an agent names itself in each of its requests.

use std::sync::{Mutex, PoisonError};

use evenkeel_wire::exchange::agent_run::{AgentRun, GuardianState};
use http::HeaderValue;

/// The run of an agent, with the current state of its guardian.
#[derive(Debug)]
pub struct RunHeader {
    run: AgentRun,
    guardian: Mutex<GuardianState>,
}

impl RunHeader {
    /// Creates the header of a run; no guardian enforces its leases yet.
    pub fn new(run: AgentRun) -> Self {
        Self { run, guardian: Mutex::default() }
    }

    /// Sets the guardian state for the next requests.
    pub fn set_guardian(&self, state: GuardianState) {
        *self.guardian.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Returns the guardian state for the next requests.
    pub fn guardian(&self) -> GuardianState {
        *self.guardian.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value of the header; none for ids that are invalid in a header.
    pub(crate) fn value(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(self.run.header(self.guardian())).ok()
    }
}
