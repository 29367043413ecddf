//! Changes of administration: a form, then its plan with the `hzn` line, then the change, if the plan still holds.
//!
//! What a change depends on is in its address, apart from secrets: the form leads to that address, and the plan is the page there. Secrets are
//! typed into the plan and sent with it alone. Read [`Change`] in `catalog.rs` first; each of the other files has the plans and effects of one area.

mod api_key;
mod catalog;
mod field;
mod health;
mod link;
mod setting;
mod user;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use evenkeel_client::{Client, ClientError, Credentials};
use evenkeel_wire::exchange::user::ApiKeyResponse;
use http::StatusCode;
use http::request::Parts;

use crate::Console;
use crate::address::{address_of, with_fields};
use crate::failure::Failure;
use crate::form::{Form, Query};
use crate::layout::{self, Place};
use crate::login;
use crate::plan_token::token_of;
use crate::session::{self, Reader};

use catalog::{Change, Effect, REASON};
use field::{Field, FieldView, blamed};
pub(crate) use health::SYSTEM;
pub(crate) use link::ChangeLink;

/// Marks an address as that of a plan.
const STEP: &str = "step";
const PLAN: &str = "plan";

/// A change as a reader wants it.
struct Wanted<'r> {
    reader: &'r Reader,
    org: &'r str,
    change: &'static Change,
    /// The fields in the address.
    form: &'r Form,
}

/// Why a change is refused.
enum Refused {
    /// The value of a field, by its name.
    Field(&'static str, String),
    Whole(Failure),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Whole(failure)
    }
}

impl From<ClientError> for Refused {
    fn from(error: ClientError) -> Self {
        Self::Whole(error.into())
    }
}

/// What a change would do now, as far as the API knows it.
#[derive(Default, Hash)]
struct ChangePlan {
    /// What it is about, as it is now and as it will be.
    facts: Vec<(&'static str, String)>,
    /// What it concerns: name and effect of each.
    concerned: Vec<(String, String)>,
    warnings: Vec<String>,
}

/// A plan with what belongs to it on its page.
struct Planned {
    plan: ChangePlan,
    /// The commands that do the same.
    command: String,
    /// Why the reader may not carry it out; empty if it may.
    objection: String,
    /// What is typed into it: secrets that it needs, or [`REASON`].
    secrets: Vec<&'static Field>,
}

impl Planned {
    /// Returns whether the change is requested, because a second person has to approve it.
    fn is_request(&self) -> bool {
        self.secrets.contains(&&REASON)
    }
}

/// What a change has led to.
enum Outcome {
    Done,
    /// A new API key with its value.
    Key(Box<ApiKeyResponse>),
    /// A request for an approval, whose page follows.
    Requested(Response),
    /// The session of the reader has ended.
    LoggedOut,
}

/// What a plan is sent with.
struct Sent<'r> {
    console: &'r Console,
    parts: &'r Parts,
    form: &'r Form,
}

impl Sent<'_> {
    /// Returns the API with the account of the reader and the password that a field holds.
    fn client(&self, reader: &Reader, field: &'static str) -> Result<Client, Refused> {
        let credentials = Credentials::new(&reader.session.org, &reader.session.user, self.form.exact(field));
        session::caller(self.parts, self.console, &credentials)
            .ok_or_else(|| Refused::Field(field, "it contains characters that no password has".to_owned()))
    }
}

impl Wanted<'_> {
    /// Returns the value of a field; empty if it is missing.
    fn value(&self, name: &str) -> &str {
        self.form.get(name).unwrap_or_default()
    }

    /// Returns the text of a value that was chosen; that of another value in seconds.
    fn duration(&self, name: &str) -> String {
        let value = self.value(name);
        let field = self.change.inputs().find(|field| field.name == name);
        match field.and_then(|field| field.text_of(value)) {
            Some(text) => text.to_owned(),
            None => format!("{value} seconds"),
        }
    }

    /// Returns the address of the plan, or of the form.
    fn address(&self, is_plan: bool) -> String {
        let fields = self.change.fields.iter().map(|field| (field.name, self.form.exact(field.name)));
        address(self.org, self.change.name, fields, is_plan)
    }

    /// Shows a page about the change.
    fn respond(&self, status: StatusCode, page: &impl Template) -> Response {
        let place = Place { org: self.org, tab: self.change.tab };
        layout::show_still(self.reader, place, status, self.change.title, page)
    }

    fn back(&self) -> String {
        self.change.back(self.org, self.form)
    }

    fn show_form(&self, status: StatusCode, mistake: Option<(&'static str, String)>) -> Response {
        let view =
            |field: &'static Field| FieldView::new(field, self.form.exact(field.name), mistake.as_ref());
        let page = FormPage {
            change: self.change,
            facts: self.objects(),
            fields: self.change.inputs().map(view).collect(),
            address: self.objects_address(),
            back: self.back(),
        };
        self.respond(status, &page)
    }

    fn objects(&self) -> Vec<(&'static str, String)> {
        let objects = self.change.fields.iter().filter(|field| field.is_object());
        let given = objects.filter(|field| !self.form.exact(field.name).is_empty());
        given.map(|field| (field.label, self.form.exact(field.name).to_owned())).collect()
    }

    /// Returns the address with what the change is about only.
    fn objects_address(&self) -> String {
        let objects = self.change.fields.iter().filter(|field| field.is_object());
        let fields = objects.map(|field| (field.name, self.form.exact(field.name)));
        address(self.org, self.change.name, fields, false)
    }

    fn show_plan(&self, planned: &Planned, shown: Shown) -> Response {
        let view = |field: &'static Field| FieldView::new(field, "", shown.mistake.as_ref());
        let page = PlannedPage {
            change: self.change,
            planned,
            secrets: planned.secrets.iter().map(|field| view(field)).collect(),
            token: self.token(planned),
            address: self.address(true),
            edit: self.change.inputs().next().map(|_| self.address(false)),
            back: self.back(),
            error: shown.error,
            is_renewed: shown.is_renewed,
        };
        self.respond(shown.status, &page)
    }

    /// Returns a text that differs when the plan, the change or one of its fields does.
    fn token(&self, planned: &Planned) -> String {
        token_of(&(&planned.plan, self.address(true)))
    }

    /// Returns what the change would do; what the API refuses is about the field that it names.
    async fn plan(&self) -> Result<Planned, Refused> {
        self.planned().await.map_err(|refused| match refused {
            Refused::Whole(failure) if failure.is_input() => {
                let text = failure.text();
                let field = blamed(&text, self.change.inputs()).map(|field| field.name);
                field.map_or(Refused::Whole(failure), |name| Refused::Field(name, text))
            }
            refused => refused,
        })
    }

    async fn planned(&self) -> Result<Planned, Refused> {
        for field in self.change.inputs().filter(|field| field.is_required) {
            if self.value(field.name).is_empty() {
                return Err(Refused::Field(field.name, "must not be empty".to_owned()));
            }
        }
        match self.change.effect {
            Effect::CreateUser => user::plan_creation(self).await,
            Effect::SetRole => user::plan_role(self).await,
            Effect::SetPassword => user::plan_password(self).await,
            Effect::RemoveUser => user::plan_removal(self).await,
            Effect::CreateKey => api_key::plan_creation(self).await,
            Effect::RemoveKey => api_key::plan_removal(self).await,
            Effect::Set => setting::plan(self).await,
            Effect::ReportHealth | Effect::SuppressHealth => health::plan(self).await,
        }
    }

    async fn run(&self, sent: &Sent<'_>) -> Result<Outcome, Refused> {
        match self.change.effect {
            Effect::CreateUser => user::create(self, sent).await,
            Effect::SetRole => user::set_role(self).await,
            Effect::SetPassword => user::set_password(self, sent).await,
            Effect::RemoveUser => user::remove(self).await,
            Effect::CreateKey => api_key::create(self, sent).await,
            Effect::RemoveKey => api_key::remove(self).await,
            Effect::Set => setting::set(self, sent).await,
            Effect::ReportHealth | Effect::SuppressHealth => health::report(self).await,
        }
    }
}

/// How the page of a plan differs from that of a plan that was only asked for.
struct Shown {
    status: StatusCode,
    error: String,
    mistake: Option<(&'static str, String)>,
    is_renewed: bool,
}

impl Default for Shown {
    fn default() -> Self {
        Self { status: StatusCode::OK, error: String::new(), mistake: None, is_renewed: false }
    }
}

/// Returns the address of a change with fields, of which those that are empty are left out.
fn address<'f>(
    org: &str,
    change: &str,
    fields: impl Iterator<Item = (&'f str, &'f str)>,
    is_plan: bool,
) -> String {
    let step = is_plan.then_some((STEP, PLAN));
    with_fields(&address_of(org, &["change", change]), fields.chain(step))
}

#[derive(Template)]
#[template(path = "change-form.html")]
struct FormPage {
    change: &'static Change,
    facts: Vec<(&'static str, String)>,
    fields: Vec<FieldView>,
    address: String,
    back: String,
}

#[derive(Template)]
#[template(path = "change-plan.html")]
struct PlannedPage<'a> {
    change: &'static Change,
    planned: &'a Planned,
    secrets: Vec<FieldView>,
    token: String,
    address: String,
    /// The form, if the change has one.
    edit: Option<String>,
    back: String,
    error: String,
    is_renewed: bool,
}

#[derive(Template)]
#[template(path = "administration-done.html")]
struct FinishedPage {
    change: &'static Change,
    facts: Vec<(&'static str, String)>,
    back: String,
}

#[derive(Template)]
#[template(path = "key-created.html")]
struct KeyPage<'a> {
    key: &'a ApiKeyResponse,
    back: String,
}

fn chosen<'r>(reader: &'r Reader, org: &'r str, name: &str, form: &'r Form) -> Result<Wanted<'r>, Failure> {
    let change = Change::find(name).ok_or_else(|| Failure::Missing(format!("there is no change {name}")))?;
    for field in change.fields.iter().filter(|field| field.is_object() && field.is_required) {
        form.require(field.name)?;
    }
    Ok(Wanted { reader, org, change, form })
}

/// Shows the form of a change, or its plan.
pub(crate) async fn show(
    reader: Reader,
    Path((org, name)): Path<(String, String)>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let wanted = chosen(&reader, &org, &name, &form)?;
    let has_form = wanted.change.inputs().next().is_some();
    if has_form && form.get(STEP) != Some(PLAN) {
        return Ok(wanted.show_form(StatusCode::OK, None));
    }
    match wanted.plan().await {
        Ok(planned) => Ok(wanted.show_plan(&planned, Shown::default())),
        Err(Refused::Field(name, text)) if has_form => {
            Ok(wanted.show_form(StatusCode::OK, Some((name, text))))
        }
        Err(refused) => Err(failure(refused)),
    }
}

/// Leads from a form to its plan, or carries a change out unless its plan no longer holds.
pub(crate) async fn send(
    State(console): State<Console>,
    parts: Parts,
    reader: Reader,
    Path((org, name)): Path<(String, String)>,
    Query(query): Query,
    form: Form,
) -> Result<Response, Failure> {
    let wanted = chosen(&reader, &org, &name, &query)?;
    let Some(token) = form.get("token") else {
        let value =
            |field: &Field| if field.is_object() { query.exact(field.name) } else { form.exact(field.name) };
        let fields = wanted.change.fields.iter().map(|field| (field.name, value(field)));
        return Ok(Redirect::to(&address(&org, wanted.change.name, fields, true)).into_response());
    };
    let planned = match wanted.plan().await {
        Ok(planned) => planned,
        Err(Refused::Field(name, text)) => {
            return Ok(wanted.show_form(StatusCode::BAD_REQUEST, Some((name, text))));
        }
        Err(refused) => return Err(failure(refused)),
    };
    if token != wanted.token(&planned) {
        return Ok(wanted.show_plan(&planned, Shown { is_renewed: true, ..Shown::default() }));
    }
    let missing = planned.secrets.iter().find(|field| field.is_required && form.exact(field.name).is_empty());
    let ran = match missing {
        Some(field) => Err(Refused::Field(field.name, "must not be empty".to_owned())),
        None => wanted.run(&Sent { console: &console, parts: &parts, form: &form }).await,
    };
    match ran {
        Ok(Outcome::Done) => {
            // A page that is loaded again must not carry the change out again.
            let fields = wanted.change.fields.iter().filter(|field| field.is_object());
            let fields = fields.map(|field| (field.name, query.exact(field.name)));
            let done = address_of(&org, &["change", wanted.change.name, "done"]);
            Ok(Redirect::to(&with_fields(&done, fields)).into_response())
        }
        Ok(Outcome::Key(key)) => {
            Ok(wanted.respond(StatusCode::OK, &KeyPage { key: &key, back: wanted.back() }))
        }
        Ok(Outcome::Requested(response)) => Ok(response),
        Ok(Outcome::LoggedOut) => Ok(login::leave(&console, &parts.headers)),
        Err(refused) => refuse(&wanted, &planned, refused),
    }
}

/// Shows why a change was refused: beside the field that it is about, if the message says so.
fn refuse(wanted: &Wanted<'_>, planned: &Planned, refused: Refused) -> Result<Response, Failure> {
    let (field, text, status) = match refused {
        Refused::Field(name, text) => (Some(name), text, StatusCode::BAD_REQUEST),
        Refused::Whole(failure) => match failure.refusal() {
            None => return Err(failure),
            Some(status) => {
                let text = failure.text();
                let fields = planned.secrets.iter().copied().chain(wanted.change.inputs());
                (blamed(&text, fields).map(|field| field.name), text, status)
            }
        },
    };
    match field {
        Some(name) if planned.secrets.iter().any(|field| field.name == name) => {
            let mistake = Some((name, text));
            Ok(wanted.show_plan(planned, Shown { status, mistake, ..Shown::default() }))
        }
        Some(name) => Ok(wanted.show_form(status, Some((name, text)))),
        None => Ok(wanted.show_plan(planned, Shown { status, error: text, ..Shown::default() })),
    }
}

/// Shows that a change was carried out.
pub(crate) async fn show_done(
    reader: Reader,
    Path((org, name)): Path<(String, String)>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let wanted = chosen(&reader, &org, &name, &form)?;
    let page = FinishedPage { change: wanted.change, facts: wanted.objects(), back: wanted.back() };
    Ok(wanted.respond(StatusCode::OK, &page))
}

fn failure(refused: Refused) -> Failure {
    match refused {
        Refused::Field(name, text) => Failure::Input(format!("{name}: {text}")),
        Refused::Whole(failure) => failure,
    }
}
