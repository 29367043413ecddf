//! The process as a whole: its asynchronous runtime and its limit on open files.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::exit::{ExitStatus, Failure};

/// Runs a future to completion on a new multi-threaded runtime.
///
/// # Errors
/// Returns the error of the future, or [`ExitStatus::Failure`] when the runtime cannot be started.
pub fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::from_error(ExitStatus::Failure, &error))?;
    let outcome = runtime.block_on(future);
    // Work on blocking threads (a password check) must not delay the end of the process.
    runtime.shutdown_background();
    outcome
}

/// Raises the limit on open files to what the system allows this process.
pub fn raise_file_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // The default limit works, too, with fewer clients.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
