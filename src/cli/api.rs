//! Calls of one server: the client's, with failures in words; `--verbose` and `--dry-run` are observers of its transport.

use std::time::Duration;

use bytes::Bytes;
use evenkeel_client::{Answer, Client, ClientError, Observer, Path};
use evenkeel_wire::exchange::utility::ApiResponse;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::Value;

use crate::constraints;
use crate::exit::{CliError, Outcome};
use crate::output::note;

/// One server: an exchange, an agbot or an agent.
#[derive(Debug, Clone)]
pub struct Api {
    /// The client with the caller's credentials.
    pub client: Client,
    /// Address, for messages.
    pub url: String,
    /// The setting that names the address.
    pub source: &'static str,
    /// Whether writes are left out.
    pub is_dry_run: bool,
}

impl Api {
    /// Makes a call of the client; `doing` says what for: "reading node x".
    ///
    /// # Errors
    /// With status 5 when the call fails.
    pub async fn call<T>(
        &self,
        doing: &str,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Outcome<T> {
        call.await.map_err(|error| self.failed(doing, &error))
    }

    /// Reads JSON of free form, to be shown as it is; `None` when there is nothing (404).
    ///
    /// # Errors
    /// With status 5 for any other answer.
    pub async fn find(&self, doing: &str, path: &Path) -> Outcome<Option<Value>> {
        self.call(doing, self.client.get(path.clone())).await
    }

    /// Reads JSON that must be there.
    ///
    /// # Errors
    /// With status 5 for any answer but 200.
    pub async fn get(&self, doing: &str, path: &Path) -> Outcome<Value> {
        let answer = self.send(doing, Method::GET, path, None).await?;
        match answer.status {
            StatusCode::OK => answer.json().map_err(|error| self.failed(doing, &error)),
            _ => Err(self.failed(doing, &answer.unexpected())),
        }
    }

    /// Writes JSON, or nothing.
    ///
    /// # Errors
    /// With status 5 for any answer but 200, 201 and 204.
    pub async fn write(
        &self,
        doing: &str,
        method: Method,
        path: &Path,
        body: Option<&Value>,
    ) -> Outcome<ApiResponse> {
        let answer = self.attempt(doing, method, path, body).await?;
        if is_success(answer.status) {
            return Ok(answer.json().unwrap_or_default());
        }
        Err(self.failed(doing, &answer.unexpected()))
    }

    /// Creates a resource; `advice` is what to do when something has its name already.
    ///
    /// # Errors
    /// With status 5 for any answer but 200, 201 and 204.
    pub async fn create(&self, doing: &str, path: &Path, body: &Value, advice: &str) -> Outcome {
        let answer = self.attempt(doing, Method::POST, path, Some(body)).await?;
        match answer.status {
            status if is_success(status) => Ok(()),
            StatusCode::CONFLICT => Err(self.failed(doing, &answer.unexpected()).with_advice(advice)),
            _ => Err(self.failed(doing, &answer.unexpected())),
        }
    }

    /// Writes JSON, or nothing, and returns the answer whatever its status.
    ///
    /// # Errors
    /// With status 5 when nobody answers.
    pub async fn attempt(
        &self,
        doing: &str,
        method: Method,
        path: &Path,
        body: Option<&Value>,
    ) -> Outcome<Answer> {
        self.send(doing, method, path, body.map(|body| Bytes::from(body.to_string()))).await
    }

    /// Removes a thing; false when it was not there (404).
    ///
    /// # Errors
    /// With status 5 for any answer but 200, 204 and 404.
    pub async fn delete(&self, doing: &str, path: &Path) -> Outcome<bool> {
        self.call(doing, self.client.delete(path.clone())).await
    }

    /// Reports what a write did; nothing with `--dry-run`, which did not do it.
    pub fn report_done(&self, text: &str) {
        if !self.is_dry_run {
            note(text);
        }
    }

    /// The failure of a call.
    pub fn failed(&self, doing: &str, error: &ClientError) -> CliError {
        CliError::call(format!("{doing} failed"), error, &self.url, self.source)
    }

    /// Sends a request; with `--dry-run` a write is only told and counts as done.
    ///
    /// # Errors
    /// With status 5 when nobody answers.
    pub async fn send(
        &self,
        doing: &str,
        method: Method,
        path: &Path,
        body: Option<Bytes>,
    ) -> Outcome<Answer> {
        self.send_within(doing, method, path, body, HeaderMap::new(), None).await
    }

    /// The same with headers and another longest wait for the answer.
    ///
    /// # Errors
    /// As [`Api::send`].
    #[expect(clippy::too_many_arguments, reason = "the parts of a request")]
    pub async fn send_within(
        &self,
        doing: &str,
        method: Method,
        path: &Path,
        body: Option<Bytes>,
        headers: HeaderMap,
        longest: Option<Duration>,
    ) -> Outcome<Answer> {
        if let Some(body) = &body {
            constraints::check(path.shown(), body)?;
        }
        self.call(doing, self.client.send_with(method, path, body, headers, longest)).await
    }
}

/// What is told of the calls of a server, and which of them are left out.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Address of the server.
    pub url: String,
    /// Whether calls are told on standard error.
    pub is_verbose: bool,
    /// Whether writes are left out and told instead.
    pub is_dry_run: bool,
}

impl Observer for Trace {
    fn intercept(&self, request: &Request<Bytes>) -> Option<Response<Bytes>> {
        let method = request.method();
        if !self.is_dry_run || method == Method::GET {
            return None;
        }
        note(format!("dry run: {method} {}{}", self.url, request.uri().path()));
        if !request.body().is_empty() {
            note(shown_body(request.body()));
        }
        let mut response = Response::new(Bytes::new());
        *response.status_mut() =
            if method == Method::DELETE { StatusCode::NO_CONTENT } else { StatusCode::CREATED };
        Some(response)
    }

    fn observe(&self, method: &Method, path: &str, outcome: Result<&Response<Bytes>, &ClientError>) {
        if self.is_verbose {
            let told =
                outcome.map_or_else(ToString::to_string, |response| response.status().as_u16().to_string());
            note(format!("[verbose] {method} {}{path}: {told}", self.url));
        }
        for text in outcome.ok().into_iter().flat_map(|response| constraints::warnings(response.headers())) {
            note(format!("warning: {text}"));
        }
    }
}

/// A body as `--dry-run` prints it: indented JSON whose secrets are hidden; any other text as it is.
fn shown_body(body: &Bytes) -> String {
    match serde_json::from_slice::<Value>(body) {
        Ok(mut value) => {
            hide_secrets(&mut value);
            format!("{value:#}")
        }
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    }
}

fn hide_secrets(value: &mut Value) {
    const SECRETS: [&str; 3] = ["password", "token", "exchangeToken"];
    match value {
        Value::Object(members) => members.iter_mut().for_each(|(name, member)| match member {
            Value::String(text) if SECRETS.contains(&name.as_str()) && !text.is_empty() => {
                *member = Value::from("********");
            }
            inner => hide_secrets(inner),
        }),
        Value::Array(elements) => elements.iter_mut().for_each(hide_secrets),
        _ => {}
    }
}

/// Answers whether a write was accepted.
pub fn is_success(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 201 | 204)
}
