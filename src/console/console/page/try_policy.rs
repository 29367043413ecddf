//! Another document of a deployment policy, tried without writing it: where instances would run, what prevents it, and what would help.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::agbot::plan::PlanResponse;
use http::StatusCode;
use serde_json::Value;

use super::plan_view::PartView;
use crate::document::{self, MAX_DOCUMENT, Revisable, RevisableKind};
use crate::failure::Failure;
use crate::form::DocumentForm;
use crate::layout::{self, Tab};
use crate::session::Reader;

/// A change that would help.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HelpRow {
    change: String,
    /// Further instances that get a node.
    more: u64,
    outcome: String,
}

#[derive(Template)]
#[template(path = "try.html")]
struct TryPage {
    document: Revisable,
    text: String,
    problem: String,
    status: StatusCode,
    parts: Vec<PartView>,
    warnings: Vec<String>,
    /// Changes that would help, the best first; none if nobody asked for them.
    help: Option<Vec<HelpRow>>,
}

impl TryPage {
    fn new(org: &str, policy: &str, text: String) -> Self {
        Self {
            document: Revisable::new(RevisableKind::DeploymentPolicy, org, policy),
            text,
            problem: String::new(),
            status: StatusCode::OK,
            parts: Vec::new(),
            warnings: Vec::new(),
            help: None,
        }
    }

    fn longest() -> usize {
        MAX_DOCUMENT
    }

    fn respond(&self, reader: &Reader) -> Response {
        let title = format!("Try: {}", self.document.name);
        let mut response = layout::show(reader, &self.document.org, Tab::Policies, &title, self);
        *response.status_mut() = self.status;
        response
    }
}

/// Shows the stored document to be edited.
pub(crate) async fn show(
    reader: Reader,
    Path((org, policy)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let document = Revisable::new(RevisableKind::DeploymentPolicy, &org, &policy);
    let stored = document::stored(&reader, &document).await?;
    let stored =
        stored.ok_or_else(|| Failure::Missing(format!("the {} does not exist", document.title())))?;
    Ok(TryPage::new(&org, &policy, document::shown_text(&stored.document)).respond(&reader))
}

/// Shows the placement by the document of the form, and what would help if that is asked for.
pub(crate) async fn submit(
    reader: Reader,
    Path((org, policy)): Path<(String, String)>,
    DocumentForm(form): DocumentForm,
) -> Result<Response, Failure> {
    let text = document::kept_text(form.exact("document"));
    let page = TryPage::new(&org, &policy, text);
    let wanted = match document::read_document(&page.text) {
        Ok(wanted) => wanted,
        Err(problem) => {
            let page = TryPage { problem, status: StatusCode::BAD_REQUEST, ..page };
            return Ok(page.respond(&reader));
        }
    };
    let plan = match plan_of(&reader, &page.document, &wanted).await {
        Ok(plan) => plan,
        Err(failure) if failure.is_about_document() => {
            let page = TryPage { problem: failure.text(), status: failure.status(), ..page };
            return Ok(page.respond(&reader));
        }
        Err(failure) => return Err(failure),
    };
    let is_help_wanted = form.get("step") == Some("help");
    let parts = parts_of(plan.workload_units);
    let help = match is_help_wanted {
        true => Some(help(&reader, &page.document, &wanted, placed(&parts)).await?),
        false => None,
    };
    Ok(TryPage { parts, warnings: plan.warnings, help, ..page }.respond(&reader))
}

async fn plan_of(reader: &Reader, document: &Revisable, wanted: &Value) -> Result<PlanResponse, Failure> {
    let planned = reader.client.plan_deployment_policy(&document.org, &document.name, Some(wanted)).await?;
    planned.ok_or_else(|| Failure::Missing(format!("no agbot of this hub serves the {}", document.title())))
}

fn parts_of(found: Vec<evenkeel_wire::agbot::plan::PlannedWorkloadUnit>) -> Vec<PartView> {
    found.into_iter().map(PartView::new).collect()
}

/// Returns the number of instances that have a node then.
fn placed(parts: &[PartView]) -> u64 {
    parts.iter().map(|part| part.instances.1).sum()
}

/// Plans the policy without each of its constraints, and returns the changes that give more instances a node.
async fn help(
    reader: &Reader,
    document: &Revisable,
    wanted: &Value,
    before: u64,
) -> Result<Vec<HelpRow>, Failure> {
    let mut found = Vec::new();
    for (change, variation) in document::variations(wanted) {
        match plan_of(reader, document, &variation).await {
            Ok(plan) => {
                let parts = parts_of(plan.workload_units);
                found.extend(row(change, &parts, before));
            }
            // A policy without it may be one that the hub refuses.
            Err(failure) if failure.is_about_document() => {}
            Err(failure) => return Err(failure),
        }
    }
    found.sort_by_key(|row| std::cmp::Reverse(row.more));
    Ok(found)
}

fn row(change: String, parts: &[PartView], before: u64) -> Option<HelpRow> {
    let more = placed(parts).checked_sub(before).filter(|more| *more > 0)?;
    let unplaced: Vec<&str> = parts.iter().filter_map(|part| part.unplaced.as_deref()).collect();
    let outcome =
        if unplaced.is_empty() { "every wanted instance has a node".to_owned() } else { unplaced.join("; ") };
    Some(HelpRow { change, more, outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "</textarea><script>alert(1)</script>";

    fn part(now: u64, then: u64, unplaced: Option<&str>) -> PartView {
        PartView {
            name: "all".to_owned(),
            unplaced: unplaced.map(str::to_owned),
            blocked: Vec::new(),
            other_blocked: 0,
            stages: Vec::new(),
            instances: (now, then),
        }
    }

    #[test]
    fn only_what_gives_more_instances_a_node_helps() {
        assert_eq!(row("c".to_owned(), &[part(0, 2, None)], 2), None);
        let helped = row("c".to_owned(), &[part(0, 3, Some("1 of 4 is missing"))], 2).expect("a row");
        assert_eq!((helped.more, helped.outcome.as_str()), (1, "1 of 4 is missing"));
        let helped = row("c".to_owned(), &[part(0, 3, None)], 0).expect("a row");
        assert_eq!(helped.outcome, "every wanted instance has a node");
    }

    #[test]
    fn documents_and_messages_stay_text() {
        let page = TryPage {
            problem: HOSTILE.to_owned(),
            parts: vec![part(1, 0, Some(HOSTILE))],
            warnings: vec![HOSTILE.to_owned()],
            help: Some(vec![HelpRow { change: HOSTILE.to_owned(), more: 1, outcome: HOSTILE.to_owned() }]),
            ..TryPage::new("o", HOSTILE, HOSTILE.to_owned())
        };
        let text = page.render().expect("a page");
        assert!(!text.contains("<script") && text.matches("</textarea>").count() == 1, "{text}");
        assert!(text.contains("aria-invalid=\"true\"") && text.contains("role=\"alert\""), "{text}");
    }
}
