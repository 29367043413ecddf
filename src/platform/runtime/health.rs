//! `/livez`, `/readyz`, `/version` and `/metrics`: the state of the process for its operators.
//!
//! Ready means: every dependency responds, and the process is not draining (design, section 6).

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::settings::Secret;

/// Timeout of a dependency's probe.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

type ProbeResult = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;
type Probe = Arc<dyn Fn() -> ProbeResult + Send + Sync>;

/// The dependencies of a process, by name.
#[derive(Clone)]
pub struct Health {
    version: &'static str,
    shutdown: CancellationToken,
    probes: Arc<RwLock<BTreeMap<&'static str, Probe>>>,
    metrics: Metrics,
    metrics_token: Option<Secret<String>>,
}

impl Health {
    /// A process without dependencies; it stops being ready when `shutdown` is cancelled.
    #[must_use]
    pub fn new(version: &'static str, shutdown: CancellationToken, metrics: Metrics) -> Self {
        Self { version, shutdown, probes: Arc::default(), metrics, metrics_token: None }
    }

    /// Shows metrics with the names of policies, units and groups to holders of this token.
    #[must_use]
    pub fn with_metrics_token(self, token: Option<Secret<String>>) -> Self {
        Self { metrics_token: token, ..self }
    }

    /// Adds a dependency, or replaces the one with this name. `probe` returns why it is unavailable, as a message without secrets.
    pub fn depend<F, A>(&self, name: &'static str, probe: F)
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), String>> + Send + 'static,
    {
        let probe: Probe = Arc::new(move || Box::pin(probe()));
        self.probes.write().unwrap_or_else(PoisonError::into_inner).insert(name, probe);
    }

    /// Checks every dependency; the first part is whether the process is ready.
    pub async fn report(&self) -> (bool, Value) {
        let probes = self.probes.read().unwrap_or_else(PoisonError::into_inner).clone();
        let draining = self.shutdown.is_cancelled();
        let mut ready = !draining;
        let mut dependencies = serde_json::Map::new();
        for (name, probe) in probes {
            let result = tokio::time::timeout(PROBE_LIMIT, probe()).await;
            let text = match result {
                Ok(Ok(())) => "ok".to_owned(),
                Ok(Err(reason)) => reason,
                Err(_) => "does not result".to_owned(),
            };
            ready &= text == "ok";
            dependencies.insert(name.to_owned(), Value::String(text));
        }
        let status = if draining {
            "draining"
        } else if ready {
            "ready"
        } else {
            "not ready"
        };
        (ready, json!({ "status": status, "dependencies": dependencies }))
    }

    /// The routes, for the root of a listener.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/livez", get(get_liveness))
            .route("/readyz", get(get_readiness))
            .route("/version", get(get_version))
            .route("/metrics", get(get_metrics))
            .with_state(self.clone())
    }
}

async fn get_liveness() -> Json<Value> {
    Json(json!({ "status": "alive" }))
}

async fn get_readiness(State(health): State<Health>) -> Response {
    let (ready, report) = health.report().await;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, [(header::CACHE_CONTROL, "no-store")], Json(report)).into_response()
}

async fn get_version(State(health): State<Health>) -> Json<Value> {
    Json(json!({ "name": "evenkeel", "version": health.version }))
}

async fn get_metrics(State(health): State<Health>, headers: HeaderMap) -> Response {
    let text = match (&health.metrics_token, bearer(&headers)) {
        (Some(token), Some(given)) if bool::from(given.as_bytes().ct_eq(token.expose().as_bytes())) => {
            health.metrics.render()
        }
        (_, Some(_)) => {
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer realm=\"metrics\"")];
            return (StatusCode::UNAUTHORIZED, challenge, "the token for metrics is wrong\n").into_response();
        }
        (_, None) => health.metrics.render_public(),
    };
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4"), (header::CACHE_CONTROL, "no-store")], text)
        .into_response()
}

/// Returns the token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> Health {
        Health::new("1.2.3", CancellationToken::new(), Metrics::default())
    }

    #[tokio::test]
    async fn readiness_names_the_dependency_that_is_away() {
        let health = health();
        health.depend("database", || async { Ok(()) });
        assert!(health.report().await.0);
        health.depend("feed", || async { Err("has no lease".to_owned()) });
        let (ready, report) = health.report().await;
        assert!(!ready);
        assert_eq!(report["dependencies"]["feed"], "has no lease");
        assert_eq!(report["dependencies"]["database"], "ok");
    }

    #[tokio::test(start_paused = true)]
    async fn dependency_that_hangs_counts_as_away() {
        let health = health();
        health.depend("database", std::future::pending);
        assert_eq!(health.report().await.1["dependencies"]["database"], "does not result");
    }

    #[tokio::test]
    async fn draining_process_is_not_ready() {
        let health = health();
        health.shutdown.cancel();
        let (ready, report) = health.report().await;
        assert!(!ready);
        assert_eq!(report["status"], "draining");
    }

    #[tokio::test]
    async fn names_are_in_the_metrics_for_the_token_only() {
        let metrics = Metrics::default();
        metrics.gauges("orch_task_state", "Tasks", &["policy"], || vec![(vec!["o/p".to_owned()], 1.0)]);
        let health = Health::new("1.2.3", CancellationToken::new(), metrics);
        let with = |authorization: Option<&'static str>| {
            authorization
                .map(|value| (header::AUTHORIZATION, http::HeaderValue::from_static(value)))
                .into_iter()
                .collect()
        };
        let get = async |health: &Health, headers| {
            let response = get_metrics(State(health.clone()), headers).await;
            let status = response.status().as_u16();
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("a body");
            (status, String::from_utf8_lossy(&body).contains("policy=\"o/p\""))
        };
        assert_eq!(get(&health, with(None)).await, (200, false));
        assert_eq!(get(&health, with(Some("Bearer anything"))).await, (401, false), "there is no token");
        let health = health.with_metrics_token(Some("the token".to_owned().into()));
        assert_eq!(get(&health, with(Some("Bearer the token"))).await, (200, true));
        assert_eq!(get(&health, with(Some("bearer other"))).await, (401, false));
        assert_eq!(get(&health, with(Some("Basic dGhlIHRva2Vu"))).await, (200, false));
    }
}
