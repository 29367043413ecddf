//! The servers that commands call, and messages about failed calls. `--verbose` and `--dry-run` are observers of the client's transport.

use bytes::Bytes;
use evenkeel_client::{Client, ClientError, Observer};
use evenkeel_wire::RawJson;
use http::{Method, Request, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::constraints;
use crate::exit::{CliError, Outcome};
use crate::output::{print_note, warn};

/// One server: an exchange, an agbot or an agent.
#[derive(Debug, Clone)]
pub struct Server {
    /// The client with the caller's credentials.
    pub client: Client,
    /// Address, for messages.
    pub url: String,
    /// The setting that names the address.
    pub source: &'static str,
    /// True if writes are not sent.
    pub is_dry_run: bool,
}

impl Server {
    /// Awaits a call of the client; `doing` names its purpose: "reading node x".
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

    /// Awaits a call that creates a resource; `advice`: what to do if its name is taken.
    ///
    /// # Errors
    /// With status 5 when the call fails.
    pub async fn create<T>(
        &self,
        doing: &str,
        advice: &str,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Outcome<T> {
        call.await.map_err(|error| {
            let failed = self.failed(doing, &error);
            if error.is_conflict() { failed.with_advice(advice) } else { failed }
        })
    }

    /// Reads a document that the server sent as a typed body.
    ///
    /// # Errors
    /// With status 5 when it has another shape.
    pub fn read<T: DeserializeOwned>(&self, doing: &str, document: &RawJson) -> Outcome<T> {
        document.read().map_err(|error| self.failed(doing, &ClientError::from(error)))
    }

    /// Reads records as typed bodies and keeps the records for display.
    ///
    /// # Errors
    /// See [`Server::read`].
    pub fn read_all<T: DeserializeOwned>(
        &self,
        doing: &str,
        records: Vec<RawJson>,
    ) -> Outcome<Vec<(T, RawJson)>> {
        records.into_iter().map(|record| Ok((self.read(doing, &record)?, record))).collect()
    }

    /// Reports the effect of a write; nothing with `--dry-run`.
    pub fn report_done(&self, text: &str) {
        if !self.is_dry_run {
            print_note(text);
        }
    }

    /// Returns the failure of a call.
    pub fn failed(&self, doing: &str, error: &ClientError) -> CliError {
        CliError::call(format!("{doing} failed"), error, &self.url, self.source)
    }
}

/// Reports the calls of a server, and suppresses those that would write.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Address of the server.
    pub url: String,
    /// True if calls are reported on standard error.
    pub is_verbose: bool,
    /// True if writes are printed instead of sent.
    pub is_dry_run: bool,
}

/// Returns whether a request asks for the plan of a write, `POST …/business/policies/{policy}/plan` or `POST …/orchestration/stops`, which
/// writes nothing.
fn is_plan(request: &Request<Bytes>) -> bool {
    let mut segments = request.uri().path().rsplit('/');
    let [last, second, third, fourth] = [(); 4].map(|()| segments.next().unwrap_or_default());
    request.method() == Method::POST
        && (last == "plan" && third == "policies" && fourth == "business"
            || last == "stops" && second == "orchestration")
}

impl Observer for Trace {
    fn intercept(&self, request: &Request<Bytes>) -> Option<Response<Bytes>> {
        let method = request.method();
        if !self.is_dry_run || method == Method::GET || is_plan(request) {
            return None;
        }
        print_note(format!("dry run: {method} {}{}", self.url, request.uri().path()));
        if !request.body().is_empty() {
            print_note(shown_body(request.body()));
        }
        let mut response = Response::new(Bytes::new());
        *response.status_mut() =
            if method == Method::DELETE { StatusCode::NO_CONTENT } else { StatusCode::CREATED };
        Some(response)
    }

    fn observe(&self, method: &Method, path: &str, outcome: Result<&Response<Bytes>, &ClientError>) {
        if self.is_verbose {
            let result =
                outcome.map_or_else(ToString::to_string, |response| response.status().as_u16().to_string());
            print_note(format!("[verbose] {method} {}{path}: {result}", self.url));
        }
        for text in outcome.ok().into_iter().flat_map(|response| constraints::warnings(response.headers())) {
            warn(text);
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
