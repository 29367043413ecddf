//! The security log of failed logins, and their counts by reason.
//!
//! A line names the client prefix, the name that was tried and the reason, never a secret. The first failures of a
//! minute are logged at once. The others are summed up and logged at its end, so that a flood of guesses does not flood
//! the log. Public counts do not distinguish unknown names from wrong secrets, because that would reveal which names
//! exist.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_runtime::metrics::{Counter, Metrics};
use evenkeel_runtime::worker::Worker;

/// Length of a window.
const WINDOW: Duration = Duration::from_secs(60);
/// Number of lines that are logged at once in a window, and number of lines at its end.
const LINES: usize = 20;
/// Maximum number of pairs of prefix and name that are counted separately in a window.
const KEPT: usize = 1_000;
/// Characters of a name that are logged.
const NAME_LENGTH: usize = 128;
/// Labels of the counts.
const LABELS: [&str; 4] = ["credentials", "malformed", "token", "limited"];

/// Reason why a login failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginFailure {
    /// There is no login of this name.
    UnknownName,
    /// The secret is another one.
    WrongSecret,
    /// The login has no secret and cannot be used.
    Disabled,
    /// The credentials cannot be read.
    Malformed,
    /// The token of an identity provider is not accepted.
    Token,
    /// Too many earlier logins failed; this one was not checked.
    Limited,
    /// The exchange did not accept the credentials and gives no reason.
    Refused,
}

impl LoginFailure {
    fn reason(self) -> &'static str {
        match self {
            Self::UnknownName => "unknown name",
            Self::WrongSecret => "wrong secret",
            Self::Disabled => "login without a secret",
            Self::Malformed => "malformed credentials",
            Self::Token => "token not accepted",
            Self::Limited => "too many failed logins before",
            Self::Refused => "refused by the exchange",
        }
    }

    fn label(self) -> usize {
        match self {
            Self::UnknownName | Self::WrongSecret | Self::Disabled | Self::Refused => 0,
            Self::Malformed => 1,
            Self::Token => 2,
            Self::Limited => 3,
        }
    }
}

/// Counts and logs failed logins; clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct FailedLogins(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    counts: [Counter; LABELS.len()],
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    lines: usize,
    /// Failures that were not logged, by prefix and name.
    held: BTreeMap<(IpAddr, String), Held>,
    /// Failures of pairs that found no room.
    others: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    failure: LoginFailure,
    count: u64,
}

/// Summary of a window, logged at its end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    lines: Vec<(IpAddr, String, Held)>,
    others: u64,
}

impl FailedLogins {
    /// Counts a failed login and logs it, at once or summed up with others. Logins without a prefix are ignored: with
    /// them, the process itself checks whether its account exists.
    pub fn record(&self, failure: LoginFailure, prefix: Option<IpAddr>, name: &str) {
        let Some(prefix) = prefix else { return };
        self.0.counts[failure.label()].increment();
        let name: String = name.chars().take(NAME_LENGTH).collect();
        if self.lock().admits_line(prefix, &name, failure) {
            tracing::warn!(
                target: "security",
                { client.prefix = %prefix, login.name = ?name, reason = failure.reason() },
                "login failed"
            );
        }
    }

    /// Registers the counts.
    pub fn register(&self, name: &'static str, metrics: &Metrics) {
        let inner = self.0.clone();
        let help = "Failed logins by reason; credentials: an unknown name or a wrong secret";
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
        metrics.counted_by(name, help, &["reason"], move || {
            let values = LABELS.iter().zip(&inner.counts);
            values.map(|(label, count)| (vec![(*label).to_owned()], count.value() as f64)).collect()
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Window> {
        self.0.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_window(&self) {
        let summary = std::mem::take(&mut *self.lock()).summary();
        for (prefix, name, held) in summary.lines {
            tracing::warn!(
                target: "security",
                { client.prefix = %prefix, login.name = ?name, reason = held.failure.reason(), count = held.count },
                "further logins failed within a minute"
            );
        }
        if summary.others > 0 {
            tracing::warn!(target: "security", count = summary.others, "logins of other names failed within a minute");
        }
    }
}

impl Window {
    /// Counts a failure; returns whether it is logged at once.
    fn admits_line(&mut self, prefix: IpAddr, name: &str, failure: LoginFailure) -> bool {
        let key = (prefix, name.to_owned());
        if let Some(held) = self.held.get_mut(&key) {
            *held = Held { failure, count: held.count + 1 };
            return false;
        }
        if self.held.len() >= KEPT {
            self.others += 1;
            return false;
        }
        let is_logged = self.lines < LINES;
        self.lines += usize::from(is_logged);
        self.held.insert(key, Held { failure, count: u64::from(!is_logged) });
        is_logged
    }

    /// Returns the pairs with the most failures, and the number of all others.
    fn summary(self) -> Summary {
        let held = self.held.into_iter().filter(|(_, held)| held.count > 0);
        let mut lines: Vec<_> = held.map(|((prefix, name), held)| (prefix, name, held)).collect();
        lines.sort_by_key(|(_, _, held)| std::cmp::Reverse(held.count));
        let rest = lines.split_off(lines.len().min(LINES));
        let others = self.others + rest.iter().map(|(_, _, held)| held.count).sum::<u64>();
        Summary { lines, others }
    }
}

/// Logs the failures that were summed up, at the end of each window.
#[derive(Debug)]
pub struct FailedLoginReporter(pub FailedLogins);

impl Worker for FailedLoginReporter {
    type Error = Infallible;

    const NAME: &'static str = "failed_login_reporter";

    async fn pass(&mut self) -> Result<(), Infallible> {
        self.0.end_window();
        Ok(())
    }

    fn pause(&self) -> Duration {
        WINDOW
    }

    fn first_pause(&self) -> Duration {
        WINDOW
    }

    async fn finish(&mut self) {
        self.0.end_window();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: usize) -> IpAddr {
        IpAddr::from(u32::try_from(number).expect("small").to_be_bytes())
    }

    #[test]
    fn first_failure_of_a_pair_is_logged_and_the_others_are_added_up() {
        let mut window = Window::default();
        assert!(window.admits_line(address(1), "o/u", LoginFailure::WrongSecret));
        assert!(!window.admits_line(address(1), "o/u", LoginFailure::WrongSecret));
        assert!(!window.admits_line(address(1), "o/u", LoginFailure::Limited));
        assert!(window.admits_line(address(2), "o/u", LoginFailure::WrongSecret));
        let held = Held { failure: LoginFailure::Limited, count: 2 };
        assert_eq!(
            window.summary(),
            Summary { lines: vec![(address(1), "o/u".to_owned(), held)], others: 0 }
        );
    }

    #[test]
    fn flood_of_names_is_a_bounded_number_of_lines_and_is_counted_whole() {
        let mut window = Window::default();
        let total = 100_000;
        let logged = (0..total)
            .filter(|number| {
                window.admits_line(address(*number), &format!("o/{number}"), LoginFailure::UnknownName)
            })
            .count();
        assert_eq!(logged, LINES);
        assert_eq!(window.held.len(), KEPT);
        let Summary { lines, others } = window.summary();
        assert_eq!(lines.len(), LINES);
        let added_up: u64 = lines.iter().map(|(_, _, held)| held.count).sum::<u64>() + others;
        assert_eq!(added_up, (total - LINES) as u64);
    }

    #[test]
    fn public_counts_do_not_reveal_which_names_exist() {
        let (failed, metrics) = (FailedLogins::default(), Metrics::default());
        failed.register("failed_logins_total", &metrics);
        for failure in [LoginFailure::UnknownName, LoginFailure::WrongSecret, LoginFailure::Disabled] {
            failed.record(failure, Some(address(1)), "o/u");
        }
        failed.record(LoginFailure::Limited, Some(address(1)), "o/u");
        failed.record(LoginFailure::UnknownName, None, "o/own");
        let text = metrics.render();
        assert!(text.contains("failed_logins_total{reason=\"credentials\"} 3\n"), "{text}");
        assert!(text.contains("failed_logins_total{reason=\"limited\"} 1\n"), "{text}");
    }
}
