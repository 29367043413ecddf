//! The header with which an agent names itself in each of its requests.

use std::sync::{Mutex, PoisonError};

use evenkeel_wire::exchange::agent_run::{AgentRun, GuardianState};
use http::HeaderValue;

/// The run of an agent, with the state of its guardian as it is now.
#[derive(Debug)]
pub struct RunHeader {
    run: AgentRun,
    guardian: Mutex<GuardianState>,
}

impl RunHeader {
    /// Names a run; no guardian enforces its leases yet.
    pub fn new(run: AgentRun) -> Self {
        Self { run, guardian: Mutex::default() }
    }

    /// Sets the guardian state that the next requests carry.
    pub fn set_guardian(&self, state: GuardianState) {
        *self.guardian.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Returns the guardian state that the next requests carry.
    pub fn guardian(&self) -> GuardianState {
        *self.guardian.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value of the header; none for ids that do not fit one.
    pub(crate) fn value(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(self.run.header(self.guardian())).ok()
    }
}
