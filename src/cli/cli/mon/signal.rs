//! Signals that end the screen: the terminal must be restored first.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals by which other programs terminate this one.
pub struct Signals {
    hangup: Signal,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Installs the handlers; from now on these signals no longer terminate the process.
    ///
    /// # Errors
    /// When the process cannot install signal handlers.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for a signal; returns the exit status that shells show for it.
    pub async fn next(&mut self) -> i32 {
        let kind = tokio::select! {
            _ = self.hangup.recv() => SignalKind::hangup(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        };
        128 + kind.as_raw_value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn signal_from_outside_has_the_exit_status_that_shells_show() {
        let mut signals = Signals::listen().unwrap();
        for (name, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
            let kill = format!("kill -{name} {}", std::process::id());
            assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
            assert_eq!(signals.next().await, status);
        }
    }
}
