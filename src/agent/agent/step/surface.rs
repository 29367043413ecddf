//! Errors of services shown to users in the exchange (agreement protocol 5.6).

use evenkeel_wire::agent::event_log::SurfacedError;
use evenkeel_wire::agreement::reason;
use serde::{Deserialize, Serialize};

use super::{State, WorkloadName};

/// Event code of the error that the container engine does not respond.
const ENGINE_DOWN: &str = "error_container_engine";

/// One error; at most one per service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SurfaceError {
    /// Number.
    pub id: u64,
    /// Event code.
    pub code: String,
    /// Human-readable message.
    pub message: String,
    /// The service.
    pub workload: WorkloadName,
    /// When it happened, seconds since 1970.
    pub at: u64,
}

impl SurfaceError {
    /// Returns the entry of the exchange's error list.
    pub fn record(&self) -> SurfacedError {
        let time = i64::try_from(self.at).ok().and_then(|secs| jiff::Timestamp::from_second(secs).ok());
        let timestamp =
            time.map_or_else(String::new, |time| time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string());
        SurfacedError {
            record_id: self.id.to_string(),
            message: self.message.clone(),
            event_code: self.code.clone(),
            hidden: false,
            workload: (&self.workload).into(),
            timestamp,
        }
    }
}

fn event_code(reason: u64) -> Option<&'static str> {
    Some(match reason {
        reason::SERVICE_TERMINATED => "error_start_container",
        reason::START_TIMEOUT => "cancel_agreement_execution_timeout",
        reason::SERVICE_SUSPENDED => "cancel_agreement_service_suspended",
        reason::IMAGE_LOAD_FAILED
        | reason::IMAGE_DATA_ERROR
        | reason::IMAGE_FETCH_FAILED
        | reason::IMAGE_FETCH_UNAUTHORIZED => "error_image_load",
        reason::DEPENDENCY_FAILED => "dependent_service_failed",
        reason::DEPENDENCY_IMAGE_LOAD_FAILED | reason::DEPENDENCY_IMAGE_FETCH_FAILED => {
            "error_start_dependent_service"
        }
        _ => return None,
    })
}

impl State {
    /// Adds an error when an agreement ends for a reason that is one; a newer error replaces the older one of the same service.
    /// `detail`: why the service failed.
    pub(super) fn surface(&mut self, workload: WorkloadName, reason: u64, detail: Option<String>, now: u64) {
        let Some(code) = event_code(reason) else { return };
        let detail = detail.map(|detail| format!(" ({detail})")).unwrap_or_default();
        let (service, version) = (workload.qualified_url(), &workload.version);
        let message = format!("{service} {version}: {}{detail}", reason::describe(reason));
        self.replace_error(SurfaceError { id: 0, code: code.to_owned(), message, workload, at: now });
    }

    /// Shows, as an error of no service, why none can be started; removes that when the container engine responds.
    pub(super) fn surface_engine(&mut self, lack: Option<&'static str>, now: u64) {
        let is_shown = self.errors.iter().any(|error| error.code == ENGINE_DOWN);
        let Some(lack) = lack else {
            self.errors.retain(|error| error.code != ENGINE_DOWN);
            return;
        };
        if !is_shown {
            let message = format!("no service can be started: {lack}");
            let workload = WorkloadName::default();
            self.replace_error(SurfaceError {
                id: 0,
                code: ENGINE_DOWN.to_owned(),
                message,
                workload,
                at: now,
            });
        }
    }

    /// Adds an error in the place of the one of the same service, with the next number.
    fn replace_error(&mut self, error: SurfaceError) {
        let id = self.errors.iter().map(|error| error.id + 1).max().unwrap_or(1);
        self.errors.retain(|other| other.workload.qualified_url() != error.workload.qualified_url());
        self.errors.push(SurfaceError { id, ..error });
    }

    /// Removes the errors of services that have run without failure for a while.
    pub(super) fn forget_healed(&mut self, now: u64) {
        let healed = self.recovered(now);
        self.errors.retain(|error| !healed.contains(&error.workload.qualified_url()));
    }
}
