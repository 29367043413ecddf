//! A change of a document: an editable copy, its plan, and the write that is made only if the plan still holds.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use evenkeel_domain::text::is_unsafe;
use evenkeel_wire::exchange::plan_approval::ApprovalWrite;
use http::StatusCode;
use serde_json::{Value, json};

use super::documents::kind_of;
use super::plan_view::PlanView;
use crate::approval;
use crate::document::{self, MAX_DOCUMENT, PlannedDocument, Revisable, StoredDocument};
use crate::failure::Failure;
use crate::form::{DocumentForm, Form, Query};
use crate::layout;
use crate::reads;
use crate::session::Reader;

/// Longest reason, in characters.
const LONGEST_REASON: usize = 1_000;

/// Source of the copy, other than the stored document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Origin {
    /// The revision to undo to.
    revision: Option<i64>,
    /// The wanted number of instances.
    scale: Option<u32>,
}

impl Origin {
    fn read(form: &Form) -> Result<Self, Failure> {
        Ok(Self { revision: form.number("revision")?, scale: form.number("scale")? })
    }

    /// Returns the document of this origin; none when there is none, or another one of its kind is to be edited.
    async fn document(
        self,
        reader: &Reader,
        document: &Revisable,
        stored: Option<&StoredDocument>,
    ) -> Result<Option<Value>, Failure> {
        match (self, stored) {
            (Self { revision: Some(number), .. }, _) => {
                let found = document::revision(reader, document, number).await?.document;
                Ok(Some(found).filter(|found| !found.is_null()))
            }
            (Self { scale: Some(count), .. }, Some(stored)) => scaled(&stored.document, count).map(Some),
            (_, stored) => Ok(stored.map(|stored| stored.document.clone())),
        }
    }
}

/// Returns a deployment policy that wants another number of instances.
///
/// # Errors
/// When its mode has no such number.
fn scaled(policy: &Value, count: u32) -> Result<Value, Failure> {
    let mut policy = policy.clone();
    let settings = policy.get_mut("orchestration").filter(|settings| settings.is_object());
    let settings = settings.ok_or_else(|| Failure::Input("the policy has no orchestration".to_owned()))?;
    match settings["mode"].as_str().unwrap_or("global") {
        "replicated" => settings["replicas"] = json!(count),
        "flex" if settings["flex"].is_object() || settings["flex"].is_null() => {
            settings["flex"]["target"] = json!(count);
        }
        mode => return Err(Failure::Input(format!("scale: the mode {mode} has no number of instances"))),
    }
    Ok(policy)
}

#[derive(Template)]
#[template(path = "change.html")]
struct ChangePage {
    heading: &'static str,
    document: Revisable,
    /// The document of the form.
    text: String,
    reason: String,
    origin: Origin,
    /// Reason for which the document was neither planned nor written; empty without one.
    problem: String,
    /// True if the plan that was shown no longer holds.
    is_renewed: bool,
    plan: Option<PlanView>,
    command: String,
    /// Reason for which the reader may not apply the plan; empty if it may.
    objection: String,
    exists: bool,
    /// True if the write is requested, because a second person has to approve it.
    is_request: bool,
    status: StatusCode,
}

impl ChangePage {
    fn longest() -> usize {
        MAX_DOCUMENT
    }

    /// Returns whether the command reads the document from a file.
    fn reads_file(&self) -> bool {
        self.command.contains(document::FILE)
    }
}

/// Facts that the pages of one change share.
struct Change {
    document: Revisable,
    origin: Origin,
    stored: Option<StoredDocument>,
    objection: String,
    reason: String,
    /// True if a second person has to approve the writes of the reader in the organization.
    needs_approval: bool,
}

impl Change {
    async fn read(
        reader: &Reader,
        (org, kind, name): (&str, &str, &str),
        form: &Form,
    ) -> Result<Self, Failure> {
        let document = Revisable::new(kind_of(kind)?, org, name);
        let (stored, account, needs_approval) = tokio::try_join!(
            document::stored(reader, &document),
            reads::account(reader),
            approval::is_needed(reader, org)
        )?;
        Ok(Self {
            needs_approval,
            objection: document::objection(&account, &document, stored.as_ref()),
            origin: Origin::read(form)?,
            reason: form.owned("reason").unwrap_or_default(),
            stored,
            document,
        })
    }

    /// Returns the write that a second person has to approve; none if the reader makes it.
    fn to_approve(&self, wanted: &Value) -> Option<ApprovalWrite> {
        let stored = self.stored.as_ref().map(|stored| &stored.document);
        self.document.to_approve(stored, wanted).filter(|_| self.needs_approval)
    }

    /// Plans a document.
    async fn plan(&self, reader: &Reader, wanted: &Value) -> Result<(PlannedDocument, PlanView), Failure> {
        let planned = PlannedDocument::of(reader, &self.document, self.stored.as_ref(), wanted).await?;
        let left = document::time_left(reader, &self.document).await?;
        let view = PlanView::new(planned.clone(), left);
        Ok((planned, view))
    }

    /// Returns the command that writes a document.
    async fn command(
        &self,
        reader: &Reader,
        wanted: &Value,
        planned: &PlannedDocument,
    ) -> Result<String, Failure> {
        if let Some(write) = self.to_approve(wanted) {
            return Ok(self.document.request_command(&write, &self.reason));
        }
        let original = self.origin.document(reader, &self.document, self.stored.as_ref()).await;
        let is_original =
            original.is_ok_and(|original| original.is_some_and(|one| document::is_same(&one, wanted)));
        Ok(match self.origin {
            Origin { revision: Some(number), .. } if is_original => {
                self.document.undo_command(number, &self.reason)
            }
            Origin { scale: Some(count), .. } if is_original => {
                self.document.scale_command(count, &self.reason)
            }
            _ => {
                let stored = self.stored.as_ref().map(|stored| &stored.document);
                let token = planned.command_token();
                self.document.write_command((stored, wanted), &self.reason, token)
            }
        })
    }

    /// Returns the page without a plan.
    fn page(self, text: String) -> ChangePage {
        ChangePage {
            heading: match self.origin {
                Origin { revision: Some(_), .. } => "Undo",
                Origin { scale: Some(_), .. } => "Scale",
                _ => "Change",
            },
            exists: self.stored.is_some(),
            origin: self.origin,
            objection: self.objection,
            reason: self.reason,
            document: self.document,
            text,
            problem: String::new(),
            is_renewed: false,
            plan: None,
            command: String::new(),
            is_request: false,
            status: StatusCode::OK,
        }
    }

    /// Returns the page with the plan of a document, or with the reason why there is none.
    async fn planned_page(
        mut self,
        reader: &Reader,
        (text, wanted): (String, &Value),
    ) -> Result<ChangePage, Failure> {
        let (planned, view) = match self.plan(reader, wanted).await {
            Ok(planned) => planned,
            Err(failure) => return refused(self.page(text), failure),
        };
        if self.objection.is_empty() && planned.difference.is_empty() {
            "the document does not differ from the stored one".clone_into(&mut self.objection);
        }
        let command = self.command(reader, wanted, &planned).await?;
        let is_request = self.to_approve(wanted).is_some();
        Ok(ChangePage { plan: Some(view), command, is_request, ..self.page(text) })
    }
}

/// Returns a page with the message of the API beside the document, unless it is about something else.
fn refused(page: ChangePage, failure: Failure) -> Result<ChangePage, Failure> {
    if failure.is_about_document() {
        return Ok(ChangePage { problem: failure.text(), status: failure.status(), ..page });
    }
    Err(failure)
}

fn respond(reader: &Reader, page: &ChangePage) -> Response {
    let (tab, org) = (page.document.kind.tab(), page.document.org.as_str());
    let title = format!("{}: {}", page.heading, page.document.name);
    let mut response = layout::show(reader, org, tab, &title, page);
    *response.status_mut() = page.status;
    response
}

/// Shows the stored document to be edited, or one of a revision or of another number of instances with its plan.
pub(crate) async fn show(
    reader: Reader,
    Path((org, kind, name)): Path<(String, String, String)>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let change = Change::read(&reader, (&org, &kind, &name), &form).await?;
    let wanted = change.origin.document(&reader, &change.document, change.stored.as_ref()).await?;
    let missing = || match change.origin.revision {
        Some(number) => Failure::Input(format!("revision {number} is the removal of the document")),
        None => Failure::Missing(format!("the {} does not exist", change.document.title())),
    };
    let wanted = wanted.ok_or_else(missing)?;
    let text = document::shown_text(&wanted);
    let page = if change.origin == Origin::default() {
        change.page(text)
    } else {
        change.planned_page(&reader, (text, &wanted)).await?
    };
    Ok(respond(&reader, &page))
}

/// Shows the plan of the document of the form, or writes it if the plan that was shown still holds.
pub(crate) async fn submit(
    reader: Reader,
    Path((org, kind, name)): Path<(String, String, String)>,
    DocumentForm(form): DocumentForm,
) -> Result<Response, Failure> {
    let change = Change::read(&reader, (&org, &kind, &name), &form).await?;
    let text = document::kept_text(form.exact("document"));
    let read =
        document::read_document(&text).and_then(|wanted| check_reason(&change.reason).map(|()| wanted));
    let wanted = match read {
        Ok(wanted) => wanted,
        Err(problem) => {
            let page = ChangePage { problem, status: StatusCode::BAD_REQUEST, ..change.page(text) };
            return Ok(respond(&reader, &page));
        }
    };
    if form.get("step") != Some("apply") {
        return Ok(respond(&reader, &change.planned_page(&reader, (text, &wanted)).await?));
    }
    apply(&reader, change, (text, &wanted), form.exact("token")).await
}

fn check_reason(reason: &str) -> Result<(), String> {
    match reason.chars().count() {
        // A page replaces characters that turn a text, so that they would not be those that were written.
        _ if reason.chars().any(is_unsafe) => {
            Err("reason: it must have printable characters only".to_owned())
        }
        count if count > LONGEST_REASON => {
            Err(format!("reason: it has {count} characters, and may have {LONGEST_REASON}"))
        }
        _ => Ok(()),
    }
}

/// Writes a document unless its plan is another one than that with the token.
async fn apply(
    reader: &Reader,
    change: Change,
    (text, wanted): (String, &Value),
    token: &str,
) -> Result<Response, Failure> {
    let page = match change.plan(reader, wanted).await {
        Ok((planned, _)) if planned.token == token => None,
        Ok(_) => Some(None),
        Err(failure) => Some(Some(failure)),
    };
    match page {
        Some(Some(failure)) => return Ok(respond(reader, &refused(change.page(text), failure)?)),
        Some(None) => {
            let page = change.planned_page(reader, (text, wanted)).await?;
            return Ok(respond(reader, &ChangePage { is_renewed: true, ..page }));
        }
        None => {}
    }
    if let Some(write) = change.to_approve(wanted) {
        return request(reader, change, (text, wanted), write).await;
    }
    let exists = change.stored.is_some();
    let written = document::write(reader, &change.document, wanted, (exists, &change.reason)).await;
    if let Err(error) = written {
        return Ok(respond(reader, &refused(change.page(text), Failure::Api(error))?));
    }
    // A page that is loaded again must not write again.
    let newest = document::newest(reader, &change.document).await?;
    let number = newest.map(|newest| newest.revision).unwrap_or_default();
    let href = format!("{}/change/done?revision={number}", change.document.href());
    Ok(Redirect::to(&href).into_response())
}

/// Requests the approval of a write.
async fn request(
    reader: &Reader,
    change: Change,
    (text, wanted): (String, &Value),
    write: ApprovalWrite,
) -> Result<Response, Failure> {
    if change.reason.is_empty() {
        let problem = "reason: the second person needs one".to_owned();
        let page = change.planned_page(reader, (text, wanted)).await?;
        return Ok(respond(reader, &ChangePage { problem, status: StatusCode::BAD_REQUEST, ..page }));
    }
    match approval::request(reader, &change.document.org, write, &change.reason).await {
        Ok(response) => Ok(response),
        Err(failure) => Ok(respond(reader, &refused(change.page(text), failure)?)),
    }
}

#[derive(Template)]
#[template(path = "change-done.html")]
struct DonePage {
    document: Revisable,
    href: String,
    revision: evenkeel_wire::exchange::revision::Revision,
}

/// Shows that a document was written.
pub(crate) async fn show_done(
    reader: Reader,
    Path((org, kind, name)): Path<(String, String, String)>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let document = Revisable::new(kind_of(&kind)?, &org, &name);
    let number: Option<i64> = form.number("revision")?;
    let number = number.ok_or_else(|| Failure::Input("revision must not be empty".to_owned()))?;
    let revision = document::revision(&reader, &document, number).await?.about;
    let href = format!("{}/revisions/{number}", document.href());
    let page = DonePage { document, href, revision };
    let (tab, title) = (page.document.kind.tab(), format!("Written: {name}"));
    Ok(layout::show(&reader, &org, tab, &title, &page))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::RevisableKind;

    const HOSTILE: &str = "</textarea><script>alert(1)</script>\u{202e}\"'&";

    fn change(objection: &str, origin: Origin) -> Change {
        Change {
            needs_approval: false,
            document: Revisable::new(RevisableKind::DeploymentPolicy, "o", HOSTILE),
            origin,
            stored: Some(StoredDocument { document: json!({"label": HOSTILE}), owner: None }),
            objection: objection.to_owned(),
            reason: HOSTILE.to_owned(),
        }
    }

    fn plan() -> PlanView {
        let (before, after) = (json!({"label": HOSTILE}), json!({"label": "x".repeat(1_000)}));
        let planned = PlannedDocument {
            difference: document::difference(&before, &after),
            policy: serde_json::from_value(
                json!({"policy": "o/p", "token": "0a", "complete": true, "units": [
                {"name": HOSTILE, "blocked": [{"slot": HOSTILE, "reason": HOSTILE}], "unplaced": HOSTILE,
                 "changes": [{"action": "stop", "slot": HOSTILE, "from": HOSTILE, "reason": HOSTILE}]}],
                "warnings": [HOSTILE]}),
            )
            .ok(),
            stops: Vec::new(),
            is_planned: true,
            token: "0b".to_owned(),
        };
        assert!(planned.policy.is_some());
        PlanView::new(planned, Some("2 min".to_owned()))
    }

    #[test]
    fn hostile_documents_names_and_reasons_stay_text() {
        let page = change("", Origin::default()).page(document::shown_text(&json!({"label": HOSTILE})));
        let page = ChangePage {
            plan: Some(plan()),
            command: HOSTILE.to_owned(),
            problem: HOSTILE.to_owned(),
            ..page
        };
        let text = page.render().expect("a page");
        assert!(!text.contains("<script") && text.matches("</textarea>").count() == 1, "{text}");
        assert!(text.contains(&"x".repeat(1_000)) && text.contains("2 min"), "{text}");
        assert!(text.contains(r"\u202e"), "characters that turn a text are escapes in a document: {text}");
        assert!(text.contains("name=\"token\" value=\"0b\""), "{text}");
    }

    #[test]
    fn only_a_plan_can_be_applied_and_only_by_those_who_may() {
        let apply = "value=\"apply\"";
        let without = change("", Origin::default()).page("{}".to_owned());
        assert!(!without.render().expect("a page").contains(apply));
        let with = |objection: &str| {
            let page = change(objection, Origin::default()).page("{}".to_owned());
            ChangePage { plan: Some(plan()), ..page }.render().expect("a page")
        };
        assert!(with("").contains("value=\"apply\">Apply the plan"));
        let refused = with("your role viewer changes nothing");
        assert!(refused.contains("value=\"apply\" disabled title=\"your role viewer"), "{refused}");
    }

    #[test]
    fn origin_stays_with_the_form() {
        let origin = Origin { revision: Some(3), scale: None };
        let text = change("", origin).page("{}".to_owned()).render().expect("a page");
        assert!(text.contains("name=\"revision\" value=\"3\"") && text.contains("<h1>Undo "), "{text}");
    }

    #[test]
    fn number_of_instances_is_a_member_of_its_mode() {
        let of = |settings: Value| scaled(&json!({"orchestration": settings}), 4);
        let found = of(json!({"mode": "replicated", "replicas": 2})).expect("a document");
        assert_eq!(found["orchestration"]["replicas"], 4);
        let found = of(json!({"mode": "flex", "flex": {"min": 1, "max": 9}})).expect("a document");
        assert_eq!(found["orchestration"]["flex"], json!({"min": 1, "max": 9, "target": 4}));
        let refused = |settings: Value| of(settings).expect_err("a refusal").to_string();
        assert_eq!(refused(json!({})), "scale: the mode global has no number of instances");
        assert_eq!(
            refused(json!({"mode": "flex", "flex": 3})),
            "scale: the mode flex has no number of instances"
        );
        assert_eq!(refused(Value::Null), "the policy has no orchestration");
    }

    #[test]
    fn reasons_are_short_and_printable() {
        assert_eq!(check_reason("größer, ticket 7"), Ok(()));
        assert_eq!(check_reason(&"é".repeat(1_000)), Ok(()));
        assert!(check_reason(&"é".repeat(1_001)).is_err_and(|text| text.contains("1001 characters")));
        assert!(check_reason("a\tb").is_err() && check_reason("a\u{202e}b").is_err());
    }
}
