//! The plan of a change of a selection, its execution, and its progress.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use evenkeel_ids::NodeId;
use evenkeel_wire::agbot::fleet::FleetNode;
use futures_util::{StreamExt, stream};

use super::change::{ChosenChange, NodesChange};
use super::plan::{PlannedNode, SelectionPlan};
use super::selection::{AT_ONCE, Selection};
use crate::address::{address_of, encoded, with_fields};
use crate::failure::Failure;
use crate::form::{Form, Query};
use crate::layout::{self, Tab};
use crate::progress::Progress;
use crate::reads;
use crate::session::Reader;

/// Nodes that a page names.
const NAMED: usize = 50;

/// Refusals that a page names.
const REFUSALS: usize = 200;

/// Longest reason of a change, in characters.
const LONGEST_REASON: usize = 200;

#[derive(Template)]
#[template(path = "selection-plan.html")]
struct PlanPage<'a> {
    base: String,
    change: &'static NodesChange,
    words: String,
    plan: &'a SelectionPlan,
    fields: Vec<(&'static str, &'a str)>,
    typed: &'a (String, String),
    token: String,
    command: String,
    back: String,
    /// Why the reader may not carry it out; empty if it may.
    objection: String,
    is_renewed: bool,
}

impl PlanPage<'_> {
    fn named(&self) -> &[PlannedNode] {
        self.plan.nodes.get(..NAMED).unwrap_or(&self.plan.nodes)
    }

    fn others(&self) -> usize {
        self.plan.nodes.len().saturating_sub(NAMED)
    }

    fn stopped(&self) -> u64 {
        self.plan.policies.iter().map(|policy| policy.stopped).sum()
    }

    fn href(&self, path: &str, name: &str) -> String {
        format!("{}/{path}/{}", self.base, encoded(name))
    }
}

/// A selection with its change, as a form sends it.
struct Request {
    org: String,
    base: String,
    selection: Selection,
    chosen: ChosenChange,
}

impl Request {
    fn read(org: &str, form: &Form) -> Result<Self, Failure> {
        let base = address_of(org, &[]);
        let (chosen, selection) = (ChosenChange::read(form)?, Selection::read(form)?);
        Ok(Self { org: org.to_owned(), base, selection, chosen })
    }

    async fn plan(&self, reader: &Reader) -> Result<SelectionPlan, Failure> {
        SelectionPlan::of(reader, &self.org, &self.selection, &self.chosen).await
    }

    /// Shows the plan, again if the state has changed since it was shown.
    async fn planned(
        &self,
        reader: &Reader,
        plan: &SelectionPlan,
        is_renewed: bool,
    ) -> Result<Response, Failure> {
        let account = reads::account(reader).await?;
        let command = format!("{} {}", self.chosen.command(), self.selection.options());
        let page = PlanPage {
            base: self.base.clone(),
            change: self.chosen.change,
            words: self.chosen.words(),
            plan,
            fields: self.selection.fields(),
            typed: &self.chosen.typed,
            token: plan.token(&self.selection, &self.chosen),
            command: command.trim_end().to_owned(),
            back: self.selection.list(&self.base),
            objection: account.role_objection(),
            is_renewed,
        };
        Ok(layout::show(reader, &self.org, Tab::Nodes, self.chosen.change.title, &page))
    }

    /// Returns the address of the page that shows the progress.
    fn done(&self) -> String {
        let mut fields = vec![("action", self.chosen.change.name)];
        fields.extend(self.selection.fields());
        if self.chosen.tag().is_some() {
            fields.extend([("name", self.chosen.typed.0.as_str()), ("value", self.chosen.typed.1.as_str())]);
        }
        with_fields(&format!("{}/selection/done", self.base), fields)
    }
}

/// Shows what a change of a selection would do.
pub(super) async fn show_plan(
    reader: Reader,
    Path(org): Path<String>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let request = Request::read(&org, &form)?;
    let plan = request.plan(&reader).await?;
    request.planned(&reader, &plan, false).await
}

/// Changes each node of a selection, unless its plan no longer holds.
pub(super) async fn carry_out(
    reader: Reader,
    Path(org): Path<String>,
    form: Form,
) -> Result<Response, Failure> {
    let request = Request::read(&org, &form)?;
    let reason = form.get("reason").unwrap_or_default();
    if reason.chars().count() > LONGEST_REASON {
        return Err(Failure::Input(format!("reason must not be longer than {LONGEST_REASON} characters")));
    }
    let plan = request.plan(&reader).await?;
    if form.require("token")? != plan.token(&request.selection, &request.chosen) {
        return request.planned(&reader, &plan, true).await;
    }
    let (chosen, client) = (&request.chosen, &reader.client_with_reason(reason)?);
    let change = |node: NodeId| async move {
        let outcome = client.change_node(&node, &chosen.of_node).await;
        outcome.err().map(|error| (node.name().to_owned(), Failure::from(error).text()))
    };
    let changed = plan.nodes.iter().filter(|node| node.is_changed);
    let changes: Vec<_> = changed.map(|node| NodeId::new(&request.org, &node.name)).map(change).collect();
    let refused: Vec<(String, String)> =
        stream::iter(changes).buffered(AT_ONCE).filter_map(std::future::ready).collect().await;
    if refused.is_empty() {
        // A page that is loaded again must not carry the change out again.
        return Ok(Redirect::to(&request.done()).into_response());
    }
    let tried = plan.changed();
    progress(&reader, &request, tried, refused).await
}

/// Shows the progress of a change.
pub(super) async fn show_done(
    reader: Reader,
    Path(org): Path<String>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let request = Request::read(&org, &form)?;
    progress(&reader, &request, 0, Vec::new()).await
}

#[derive(Template)]
#[template(path = "selection-done.html")]
struct DonePage {
    change: &'static NodesChange,
    words: String,
    /// Nodes that were tried when some of them were refused.
    tried: usize,
    /// Nodes that were refused, each with the reason.
    refused: Vec<(String, String)>,
    /// Refusals that are not named.
    more_refused: usize,
    /// Nodes that are so now.
    progress: Progress,
    running: u32,
    /// True for a change after which instances leave.
    is_leaving: bool,
    again: String,
    back: String,
}

async fn progress(
    reader: &Reader,
    request: &Request,
    tried: usize,
    mut refused: Vec<(String, String)>,
) -> Result<Response, Failure> {
    let (chosen, selection) = (&request.chosen, &request.selection);
    let (done, total, running) = match chosen.tag() {
        Some(_) => {
            let plan = SelectionPlan::of(reader, &request.org, selection, chosen).await?;
            (plan.unchanged(), plan.nodes.len(), 0)
        }
        None => {
            let nodes = selection.nodes(reader, &request.org, true).await?;
            let is_so = |node: &&FleetNode| chosen.is_so(node) == Some(true);
            let running = nodes.iter().filter(is_so).map(|node| node.running).sum();
            (nodes.iter().filter(is_so).count(), nodes.len(), running)
        }
    };
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let failed = number(refused.len());
    let more_refused = refused.len().saturating_sub(REFUSALS);
    refused.truncate(REFUSALS);
    let page = DonePage {
        change: chosen.change,
        words: chosen.words(),
        tried,
        refused,
        more_refused,
        progress: Progress::new(number(done), number(total), failed),
        running,
        is_leaving: chosen.change.name == "drain",
        again: request.done(),
        back: selection.list(&request.base),
    };
    Ok(layout::show(reader, &request.org, Tab::Nodes, chosen.change.title, &page))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::plan::PlannedPolicy;

    const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&";

    #[test]
    fn plan_escapes_names_and_states_what_stops() {
        let plan = SelectionPlan {
            nodes: vec![PlannedNode {
                name: HOSTILE.into(),
                now: HOSTILE.into(),
                is_changed: true,
                running: 1,
            }],
            running: 1,
            policies: vec![PlannedPolicy { name: HOSTILE.into(), here: 1, all: 2, stopped: 1 }],
            whole_groups: vec![(HOSTILE.into(), 2)],
        };
        let form = Form::parse(b"action=drain&scope=all&filter=%3Cimg+src%3Dx%3E");
        let request = Request::read("o", &form).expect("a request");
        let page = PlanPage {
            base: request.base.clone(),
            change: request.chosen.change,
            words: HOSTILE.into(),
            plan: &plan,
            fields: request.selection.fields(),
            typed: &request.chosen.typed,
            token: "t".into(),
            command: format!("hzn {HOSTILE}"),
            back: request.selection.list(&request.base),
            objection: String::new(),
            is_renewed: true,
        };
        let text = page.render().expect("a page");
        assert!(!text.contains("<img"), "{text}");
        for part in
            ["Nothing was done", "name=\"token\" value=\"t\"", "name=\"scope\" value=\"all\"", "never stops"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let page = PlanPage { objection: "your role viewer changes nothing".into(), ..page };
        assert!(
            page.render().expect("a page").contains("disabled title=\"your role viewer changes nothing\"")
        );
    }

    #[test]
    fn progress_names_each_refusal_and_escapes_it() {
        let form = Form::parse(b"action=drain&node=a&node=b");
        let request = Request::read("o", &form).expect("a request");
        assert_eq!(request.done(), "/console/orgs/o/selection/done?action=drain&node=a&node=b");
        let page = DonePage {
            change: request.chosen.change,
            words: request.chosen.words(),
            tried: 2,
            refused: vec![(HOSTILE.into(), HOSTILE.into())],
            more_refused: 3,
            progress: Progress::new(1, 2, 1),
            running: 4,
            is_leaving: true,
            again: request.done(),
            back: request.selection.list(&request.base),
        };
        let text = page.render().expect("a page");
        assert!(!text.contains("<img") && text.contains("and 3 more"), "{text}");
        assert!(text.contains("1 of 2 nodes") && text.contains("4 instances still run"), "{text}");
    }
}
