//! The settings of what clients may take: times and sizes of connections, rates of requests, failed logins.

use std::time::Duration;

use evenkeel_exchange::{ExchangeSettings, Rate, RateLimits, TrustedProxies};
use evenkeel_http_server::HttpLimits;
use evenkeel_runtime::{ExitStatus, Failure, settings};

settings! {
    /// What one connection, or one address, may take of the listeners.
    pub struct HttpOptions {
        /// Seconds a request's head, or a TLS handshake, may take [default: 10].
        header_secs: u64 = "header-secs", "EVENKEEL_HEADER_SECS";
        /// Seconds a request's body may take [default: 60].
        body_secs: u64 = "body-secs", "EVENKEEL_BODY_SECS";
        /// Seconds after which a connection without a request is closed [default: 120].
        idle_secs: u64 = "idle-secs", "EVENKEEL_IDLE_SECS";
        /// Seconds a client may refuse to read its answer [default: 60].
        stall_secs: u64 = "stall-secs", "EVENKEEL_STALL_SECS";
        /// Largest line and headers of a request together, in bytes [default: 65536].
        max_header_bytes: usize = "max-header-bytes", "EVENKEEL_MAX_HEADER_BYTES";
        /// Most connections of a listener; more wait [default: 20000].
        max_connections: usize = "max-connections", "EVENKEEL_MAX_CONNECTIONS";
        /// Most connections from one address, 0 for no limit; more are closed at once [default: 10000].
        max_connections_per_address: usize = "max-connections-per-address", "EVENKEEL_MAX_CONNECTIONS_PER_ADDRESS";
    }
}

impl HttpOptions {
    /// The limits of a listener.
    pub fn limits(&self) -> Result<HttpLimits, Failure> {
        let usual = HttpLimits::default();
        let time = |name: &str, given: Option<u64>, usual: Duration| match given {
            Some(0) => Err(Failure::new(ExitStatus::Usage, format!("{name} must be at least 1"))),
            Some(secs) => Ok(Duration::from_secs(secs)),
            None => Ok(usual),
        };
        let header_bytes = self.max_header_bytes.unwrap_or(usual.header_bytes);
        if header_bytes < SMALLEST_HEADERS {
            let text = format!("max-header-bytes must be at least {SMALLEST_HEADERS}");
            return Err(Failure::new(ExitStatus::Usage, text));
        }
        Ok(HttpLimits {
            header_bytes,
            header_time: time("header-secs", self.header_secs, usual.header_time)?,
            body_time: time("body-secs", self.body_secs, usual.body_time)?,
            idle_time: time("idle-secs", self.idle_secs, usual.idle_time)?,
            stall_time: time("stall-secs", self.stall_secs, usual.stall_time)?,
            connection_count: self.max_connections.unwrap_or(usual.connection_count).max(1),
            connections_per_address: self
                .max_connections_per_address
                .unwrap_or(usual.connections_per_address),
            ..usual
        })
    }
}

/// The HTTP layer takes no smaller buffer.
const SMALLEST_HEADERS: usize = 8 * 1024;

settings! {
    /// How often callers and addresses may ask, how often logins may fail, and how long audit records are kept.
    pub struct LimitOptions {
        /// Requests a second of one caller, ten times as many of an agbot; 0 for no limit [default: 500].
        requests_per_caller: u32 = "requests-per-caller", "EVENKEEL_REQUESTS_PER_CALLER";
        /// Requests of one caller that may come at once [default: 5000].
        request_burst_per_caller: u32 = "request-burst-per-caller", "EVENKEEL_REQUEST_BURST_PER_CALLER";
        /// Requests a second from one address; 0 for no limit [default: 5000].
        requests_per_address: u32 = "requests-per-address", "EVENKEEL_REQUESTS_PER_ADDRESS";
        /// Requests from one address that may come at once [default: 50000].
        request_burst_per_address: u32 = "request-burst-per-address", "EVENKEEL_REQUEST_BURST_PER_ADDRESS";
        /// Failed logins a minute from one address; 0 for no limit [default: 1200].
        failed_logins_per_address: u32 = "failed-logins-per-address", "EVENKEEL_FAILED_LOGINS_PER_ADDRESS";
        /// Failed logins from one address that may come at once [default: 1000].
        failed_login_burst_per_address: u32 = "failed-login-burst-per-address", "EVENKEEL_FAILED_LOGIN_BURST_PER_ADDRESS";
        /// Different wrong logins a minute from one address as one caller; 0 for no limit [default: 30].
        failed_logins_per_caller: u32 = "failed-logins-per-caller", "EVENKEEL_FAILED_LOGINS_PER_CALLER";
        /// Different wrong logins from one address as one caller that may come at once [default: 100].
        failed_login_burst_per_caller: u32 = "failed-login-burst-per-caller", "EVENKEEL_FAILED_LOGIN_BURST_PER_CALLER";
        /// Proxies whose X-Forwarded-For is believed: addresses and networks, separated by commas [default: none].
        trusted_proxies: String = "trusted-proxies", "EVENKEEL_TRUSTED_PROXIES";
        /// Days audit records are kept, 0 for ever [default: 90].
        audit_days: u32 = "audit-days", "EVENKEEL_AUDIT_DAYS";
    }
}

impl LimitOptions {
    /// Puts the limits into the settings of an exchange.
    pub fn apply(&self, settings: &mut ExchangeSettings) -> Result<(), Failure> {
        let usual = RateLimits::default();
        settings.rate_limits = RateLimits {
            caller: rate(self.requests_per_caller, self.request_burst_per_caller, 1.0, usual.caller),
            address: rate(self.requests_per_address, self.request_burst_per_address, 1.0, usual.address),
            failed_address: rate(
                self.failed_logins_per_address,
                self.failed_login_burst_per_address,
                60.0,
                usual.failed_address,
            ),
            failed_login: rate(
                self.failed_logins_per_caller,
                self.failed_login_burst_per_caller,
                60.0,
                usual.failed_login,
            ),
        };
        if let Some(text) = &self.trusted_proxies {
            settings.trusted_proxies = text.parse::<TrustedProxies>().map_err(|error| {
                Failure::new(ExitStatus::Usage, format!("trusted-proxies cannot be used: {error}"))
            })?;
        }
        if let Some(days) = self.audit_days {
            settings.audit_age = (days > 0).then(|| Duration::from_secs(u64::from(days) * 86_400));
        }
        Ok(())
    }
}

fn rate(count: Option<u32>, burst: Option<u32>, secs: f64, usual: Rate) -> Rate {
    Rate {
        per_second: count.map_or(usual.per_second, |count| f64::from(count) / secs),
        burst: burst.unwrap_or(usual.burst).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_rates_and_everything_else_stays_usual() {
        let options = LimitOptions {
            failed_logins_per_address: Some(30),
            requests_per_caller: Some(0),
            audit_days: Some(0),
            trusted_proxies: Some("10.0.0.0/8, ::1".to_owned()),
            ..LimitOptions::default()
        };
        let mut settings = ExchangeSettings::default();
        options.apply(&mut settings).expect("usable");
        let usual = RateLimits::default();
        assert_eq!(settings.rate_limits.failed_address, Rate { per_second: 0.5, ..usual.failed_address });
        assert_eq!(settings.rate_limits.caller.per_second, 0.0);
        assert_eq!(settings.rate_limits.address, usual.address);
        assert_eq!(settings.audit_age, None);
        assert_ne!(settings.trusted_proxies, TrustedProxies::default());
        let wrong = LimitOptions { trusted_proxies: Some("everybody".to_owned()), ..LimitOptions::default() };
        assert!(wrong.apply(&mut settings).is_err());
    }

    #[test]
    fn times_of_zero_and_tiny_heads_are_refused() {
        let zero = HttpOptions { idle_secs: Some(0), ..HttpOptions::default() };
        let tiny = HttpOptions { max_header_bytes: Some(100), ..HttpOptions::default() };
        assert!(zero.limits().is_err() && tiny.limits().is_err());
        let given = HttpOptions { body_secs: Some(7), ..HttpOptions::default() };
        assert_eq!(given.limits().expect("usable").body_time, Duration::from_secs(7));
    }
}
