//! Settings of the limits on clients: times and sizes of connections, rates of requests, failed logins.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use evenkeel_exchange::{
    DocumentBytes, ExchangeSettings, MailboxLimits, RateLimits, RevisionLimits, RevisionSettings, Volume,
};
use evenkeel_http_server::HttpLimits;
use evenkeel_http_server::limit::{LoginLimits, Rate};
use evenkeel_http_server::middleware::{Middleware, MiddlewareSettings, TransportSecurity};
use evenkeel_runtime::{ExitStatus, Failure, Secret, settings};

use super::settings::secret_of_setting;

settings! {
    /// Limits of one connection and of one address on the listeners.
    pub struct HttpOptions {
        /// Seconds a request's head, or a TLS handshake, may take [default: 10].
        header_secs: u64 = "header-secs", "EVENKEEL_HEADER_SECS";
        /// Seconds a request's body may take [default: 60].
        body_secs: u64 = "body-secs", "EVENKEEL_BODY_SECS";
        /// Seconds after which a connection without a request is closed [default: 120].
        idle_secs: u64 = "idle-secs", "EVENKEEL_IDLE_SECS";
        /// Seconds after which a connection without a request is closed that had no request with valid credentials [default: 10].
        anonymous_idle_secs: u64 = "anonymous-idle-secs", "EVENKEEL_ANONYMOUS_IDLE_SECS";
        /// Seconds for which a client may leave a response unread [default: 60].
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
            anonymous_idle_time: time(
                "anonymous-idle-secs",
                self.anonymous_idle_secs,
                usual.anonymous_idle_time,
            )?,
            stall_time: time("stall-secs", self.stall_secs, usual.stall_time)?,
            connection_count: self.max_connections.unwrap_or(usual.connection_count).max(1),
            connections_per_address: self
                .max_connections_per_address
                .unwrap_or(usual.connections_per_address),
            ..usual
        })
    }
}

/// A token that cannot be guessed.
const SHORTEST_TOKEN: usize = 16;

/// The HTTP layer takes no smaller buffer.
const SMALLEST_HEADERS: usize = 8 * 1024;

settings! {
    /// Limits of a client before its request reaches a role, on every listener.
    pub struct ClientOptions {
        /// Requests a second from one address; 0 for no limit [default: 5000].
        requests_per_address: u32 = "requests-per-address", "EVENKEEL_REQUESTS_PER_ADDRESS";
        /// Requests from one address that may arrive at once [default: 50000].
        request_burst_per_address: u32 = "request-burst-per-address", "EVENKEEL_REQUEST_BURST_PER_ADDRESS";
        /// Failed logins a minute from one address; 0 for no limit [default: 1200].
        failed_logins_per_address: u32 = "failed-logins-per-address", "EVENKEEL_FAILED_LOGINS_PER_ADDRESS";
        /// Failed logins from one address that may arrive at once [default: 1000].
        failed_login_burst_per_address: u32 = "failed-login-burst-per-address", "EVENKEEL_FAILED_LOGIN_BURST_PER_ADDRESS";
        /// Different wrong logins a minute from one address as one caller; 0 for no limit [default: 30].
        failed_logins_per_caller: u32 = "failed-logins-per-caller", "EVENKEEL_FAILED_LOGINS_PER_CALLER";
        /// Different wrong logins from one address as one caller that may arrive at once [default: 100].
        failed_login_burst_per_caller: u32 = "failed-login-burst-per-caller", "EVENKEEL_FAILED_LOGIN_BURST_PER_CALLER";
        /// Proxies whose X-Forwarded-For is trusted: addresses and networks, separated by commas [default: none].
        trusted_proxies: String = "trusted-proxies", "EVENKEEL_TRUSTED_PROXIES";
        /// Origins of web pages that may use the API from browsers, such as https://console.example.com, separated by commas [default: none].
        cors_origins: String = "cors-origins", "EVENKEEL_CORS_ORIGINS";
        /// Value of the header Strict-Transport-Security, or off [default: max-age=63072000].
        strict_transport_security: String = "strict-transport-security", "EVENKEEL_STRICT_TRANSPORT_SECURITY";
        /// Memory in bytes for large request bodies that are received at the same time; one address may use a quarter of it [default: 67108864].
        request_body_memory: usize = "request-body-memory", "EVENKEEL_REQUEST_BODY_MEMORY";
        /// Memory in bytes for large responses that clients have not read yet; one address may use a quarter of it [default: 1073741824].
        response_memory: usize = "response-memory", "EVENKEEL_RESPONSE_MEMORY";
        /// File that holds the token with which /metrics names policies, units and groups; without it none are named.
        metrics_token_file: PathBuf = "metrics-token-file", "EVENKEEL_METRICS_TOKEN_FILE";
    }
}

impl ClientOptions {
    /// The middleware of the listeners.
    pub fn middleware(&self) -> Result<Middleware, Failure> {
        self.middleware_settings().map(Middleware::new)
    }

    fn middleware_settings(&self) -> Result<MiddlewareSettings, Failure> {
        let origins = self.cors_origins.as_deref().unwrap_or_default();
        let transport_security = self.strict_transport_security.as_deref();
        let usual = MiddlewareSettings::default();
        let settings = MiddlewareSettings {
            trusted_proxies: used("trusted-proxies", self.trusted_proxies.as_deref().unwrap_or_default())?,
            address_rate: self.address_rate(),
            origins: used("cors-origins", origins)?,
            transport_security: match transport_security {
                Some(text) => used("strict-transport-security", text)?,
                None => TransportSecurity::default(),
            },
            body_memory: self.request_body_memory.unwrap_or(usual.body_memory),
            response_memory: self.response_memory.unwrap_or(usual.response_memory),
        };
        Ok(settings)
    }

    /// Checks that the share of one client suffices for a body of the maximum size.
    pub fn check_body_memory(&self, max_body_bytes: usize) -> Result<(), Failure> {
        if max_body_bytes <= self.middleware_settings()?.body_memory_per_client() {
            return Ok(());
        }
        let text =
            format!("request-body-memory must be at least four times max-body-bytes, {max_body_bytes}");
        Err(Failure::new(ExitStatus::Usage, text))
    }

    /// The token for metrics with names.
    pub fn metrics_token(&self) -> Result<Option<Secret<String>>, Failure> {
        let token = self.metrics_token_file.as_deref().map(secret_of_setting).transpose()?;
        match &token {
            Some(token) if token.expose().len() < SHORTEST_TOKEN => {
                let text = format!("metrics-token-file must hold at least {SHORTEST_TOKEN} characters");
                Err(Failure::new(ExitStatus::Usage, text))
            }
            _ => Ok(token),
        }
    }

    /// The limits on failed logins of an agbot.
    pub fn login_limits(&self) -> LoginLimits {
        LoginLimits::new(self.failed_address_rate(), self.failed_login_rate())
    }

    fn address_rate(&self) -> Rate {
        rate(self.requests_per_address, self.request_burst_per_address, 1.0, RateLimits::default().address)
    }

    fn failed_address_rate(&self) -> Rate {
        let usual = RateLimits::default().failed_address;
        rate(self.failed_logins_per_address, self.failed_login_burst_per_address, 60.0, usual)
    }

    fn failed_login_rate(&self) -> Rate {
        let usual = RateLimits::default().failed_login;
        rate(self.failed_logins_per_caller, self.failed_login_burst_per_caller, 60.0, usual)
    }
}

/// Reads the text of a setting.
pub fn used<T: FromStr<Err: std::fmt::Display>>(name: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|error| Failure::new(ExitStatus::Usage, format!("{name} cannot be used: {error}")))
}

settings! {
    /// Request rates of the callers of an exchange, and the retention of its audit records.
    pub struct LimitOptions {
        /// Requests a second of one caller, ten times as many of an agbot; 0 for no limit [default: 500].
        requests_per_caller: u32 = "requests-per-caller", "EVENKEEL_REQUESTS_PER_CALLER";
        /// Requests of one caller that may arrive at once [default: 5000].
        request_burst_per_caller: u32 = "request-burst-per-caller", "EVENKEEL_REQUEST_BURST_PER_CALLER";
        /// Days audit records are kept, 0 for ever [default: 90].
        audit_days: u32 = "audit-days", "EVENKEEL_AUDIT_DAYS";
        /// Largest message between a node and an agbot in bytes [default: 65536].
        max_message_bytes: usize = "max-message-bytes", "EVENKEEL_MAX_MESSAGE_BYTES";
        /// Seconds after which a message is removed, regardless of the lifetime that its sender requests [default: 86400].
        max_message_secs: u64 = "max-message-secs", "EVENKEEL_MAX_MESSAGE_SECS";
        /// Most messages in the mailbox of a node; half as many of one agbot [default: 1000].
        max_node_messages: u32 = "max-node-messages", "EVENKEEL_MAX_NODE_MESSAGES";
        /// Most bytes of messages in the mailbox of a node; half as many of one agbot [default: 8388608].
        max_node_message_bytes: u32 = "max-node-message-bytes", "EVENKEEL_MAX_NODE_MESSAGE_BYTES";
        /// Most messages in the mailbox of an agbot; half as many of one organization [default: 40000].
        max_agbot_messages: u32 = "max-agbot-messages", "EVENKEEL_MAX_AGBOT_MESSAGES";
        /// Most bytes of messages in the mailbox of an agbot; half as many of one organization [default: 268435456].
        max_agbot_message_bytes: u32 = "max-agbot-message-bytes", "EVENKEEL_MAX_AGBOT_MESSAGE_BYTES";
        /// Most bytes that the nodes of one account have together beyond 4 KiB of each record and policy and 16 KiB of each status and
        /// list of errors; 0 for no limit [default: 67108864].
        max_account_node_bytes: u64 = "max-account-node-bytes", "EVENKEEL_MAX_ACCOUNT_NODE_BYTES";
        /// Most bytes that the services of one account, and their policies, have together beyond 8 KiB of each; 0 for no limit
        /// [default: 67108864].
        max_account_service_bytes: u64 = "max-account-service-bytes", "EVENKEEL_MAX_ACCOUNT_SERVICE_BYTES";
        /// Most bytes that the patterns, deployment policies and management policies of one account have together beyond 8 KiB of
        /// each; 0 for no limit [default: 16777216].
        max_account_policy_bytes: u64 = "max-account-policy-bytes", "EVENKEEL_MAX_ACCOUNT_POLICY_BYTES";
        /// Most revisions that are kept of one document [default: 20].
        max_revisions: u32 = "max-revisions", "EVENKEEL_MAX_REVISIONS";
        /// Days revisions are kept [default: 400].
        revision_days: u32 = "revision-days", "EVENKEEL_REVISION_DAYS";
        /// Most bytes of the revisions of one document [default: 4194304].
        max_document_revision_bytes: u32 = "max-document-revision-bytes", "EVENKEEL_MAX_DOCUMENT_REVISION_BYTES";
        /// Most bytes of all revisions of one organization, besides the newest revision of each document [default: 268435456].
        max_org_revision_bytes: u32 = "max-org-revision-bytes", "EVENKEEL_MAX_ORG_REVISION_BYTES";
    }
}

impl LimitOptions {
    /// Puts the limits into the settings of an exchange.
    pub fn apply(&self, clients: &ClientOptions, settings: &mut ExchangeSettings) {
        let usual = RateLimits::default();
        settings.rate_limits = RateLimits {
            caller: rate(self.requests_per_caller, self.request_burst_per_caller, 1.0, usual.caller),
            address: clients.address_rate(),
            failed_address: clients.failed_address_rate(),
            failed_login: clients.failed_login_rate(),
        };
        settings.mailboxes = self.mailboxes();
        settings.document_bytes = self.document_bytes();
        settings.revisions = self.revisions();
        if let Some(days) = self.audit_days {
            settings.audit_age = (days > 0).then(|| Duration::from_secs(u64::from(days) * 86_400));
        }
    }
}

impl LimitOptions {
    fn mailboxes(&self) -> MailboxLimits {
        let usual = MailboxLimits::default();
        let node = volume(self.max_node_messages, self.max_node_message_bytes, usual.node);
        let agbot = volume(self.max_agbot_messages, self.max_agbot_message_bytes, usual.agbot);
        MailboxLimits {
            message_bytes: self.max_message_bytes.unwrap_or(usual.message_bytes),
            lifetime: self.max_message_secs.map_or(usual.lifetime, Duration::from_secs),
            node,
            node_sender: half(node),
            agbot,
            agbot_org: half(agbot),
            agbot_sender: usual.agbot_sender,
        }
    }
}

impl LimitOptions {
    fn document_bytes(&self) -> DocumentBytes {
        let usual = DocumentBytes::default();
        let limit =
            |given: Option<u64>, usual| given.map_or(usual, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        DocumentBytes {
            nodes: limit(self.max_account_node_bytes, usual.nodes),
            services: limit(self.max_account_service_bytes, usual.services),
            policies: limit(self.max_account_policy_bytes, usual.policies),
        }
    }
}

impl LimitOptions {
    fn revisions(&self) -> RevisionSettings {
        let usual = RevisionSettings::default();
        let limit = |given: Option<u32>, usual| given.map_or(usual, i64::from);
        RevisionSettings {
            limits: RevisionLimits {
                count: limit(self.max_revisions, usual.limits.count),
                document_bytes: limit(self.max_document_revision_bytes, usual.limits.document_bytes),
                org_bytes: limit(self.max_org_revision_bytes, usual.limits.org_bytes),
            },
            age: self.revision_days.map_or(usual.age, |days| Duration::from_secs(u64::from(days) * 86_400)),
        }
    }
}

/// Returns half of a volume, which is the share of one sender or of the senders of one organization.
fn half(whole: Volume) -> Volume {
    Volume { messages: (whole.messages / 2).max(1), bytes: whole.bytes / 2 }
}

fn volume(messages: Option<u32>, bytes: Option<u32>, usual: Volume) -> Volume {
    Volume {
        messages: messages.map_or(usual.messages, i64::from).max(1),
        bytes: bytes.map_or(usual.bytes, i64::from),
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
        let options =
            LimitOptions { requests_per_caller: Some(0), audit_days: Some(0), ..LimitOptions::default() };
        let clients = ClientOptions { failed_logins_per_address: Some(30), ..ClientOptions::default() };
        let mut settings = ExchangeSettings::default();
        options.apply(&clients, &mut settings);
        let usual = RateLimits::default();
        assert_eq!(settings.rate_limits.failed_address, Rate { per_second: 0.5, ..usual.failed_address });
        assert_eq!(settings.rate_limits.caller.per_second, 0.0);
        assert_eq!(settings.rate_limits.address, usual.address);
        assert_eq!(settings.audit_age, None);
    }

    #[test]
    fn every_client_has_the_memory_for_the_largest_body() {
        let clients = ClientOptions { request_body_memory: Some(4_000), ..ClientOptions::default() };
        assert!(clients.check_body_memory(1_000).is_ok());
        let failure = clients.check_body_memory(1_001).expect_err("a quarter is less than that");
        assert!(
            failure.to_string().contains("request-body-memory must be at least four times max-body-bytes")
        );
    }

    #[test]
    fn proxies_origins_and_headers_are_read_or_refused() {
        let given = |text: &str| Some(text.to_owned());
        let usual = ClientOptions::default();
        let good = ClientOptions {
            trusted_proxies: given("10.0.0.0/8, ::1"),
            cors_origins: given("https://console.example, http://localhost:3000"),
            strict_transport_security: given("max-age=60; includeSubDomains"),
            ..usual.clone()
        };
        assert!(usual.middleware().is_ok() && good.middleware().is_ok());
        for (wrong, name) in [
            (ClientOptions { trusted_proxies: given("everybody"), ..usual.clone() }, "trusted-proxies"),
            (ClientOptions { cors_origins: given("*"), ..usual.clone() }, "cors-origins"),
            (
                ClientOptions { strict_transport_security: given("yes"), ..usual.clone() },
                "strict-transport-security",
            ),
        ] {
            let failure = wrong.middleware().expect_err("it cannot be used").to_string();
            assert!(failure.contains(name), "{failure}");
        }
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
