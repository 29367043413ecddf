//! Saved views: selections of nodes under a name.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use evenkeel_wire::agbot::fleet::FleetNodesQuery;
use evenkeel_wire::agbot::saved_view::{LONGEST_VIEW_NAME, PutSavedView, SavedView};

use super::selection::{Choice, choice_of};
use crate::address::{address_of, with_fields};
use crate::command_line::word;
use crate::failure::Failure;
use crate::form::{Form, Query};
use crate::layout::{self, Tab};
use crate::reads::{self, Account};
use crate::session::Reader;

/// Views that a page lists.
const LISTED: usize = 200;

/// A saved view with the addresses of its nodes and of its removal.
pub(crate) struct ViewLink {
    pub(crate) name: String,
    /// Description, selection and owner.
    pub(crate) about: String,
    pub(crate) href: String,
    pub(crate) removal: String,
    /// True if the page shows it.
    pub(crate) is_current: bool,
    /// Why the reader may not remove it; empty if it may.
    pub(crate) objection: String,
}

/// The saved views of an organization.
pub(crate) struct ViewLinks {
    pub(crate) views: Vec<ViewLink>,
    /// Where the current selection can be saved; empty if it selects all nodes.
    pub(crate) save: String,
    /// Why the reader may save none; empty if it may.
    pub(crate) objection: String,
}

/// Returns the saved views, for a page that shows a selection.
pub(crate) async fn of_page(
    reader: &Reader,
    org: &str,
    choice: &Choice,
    account: &Account,
) -> Result<ViewLinks, Failure> {
    let views = reader.client.saved_views(org).await?;
    Ok(links(org, &views, choice, account))
}

fn links(org: &str, views: &[SavedView], choice: &Choice, account: &Account) -> ViewLinks {
    let base = address_of(org, &[]);
    let link = |view: &SavedView| {
        let selection = choice_of_view(view);
        let mut about = vec![selection.options()];
        about.extend(view.description.clone());
        about.push(format!("saved by {}", view.owner));
        ViewLink {
            href: selection.list(&base),
            removal: with_fields(&format!("{base}/views/remove"), [("view", view.name.as_str())]),
            about: about.join("; "),
            is_current: selection == *choice,
            objection: account.objection(org, Some(&view.owner)),
            name: view.name.clone(),
        }
    };
    let save = match choice.is_all() {
        true => String::new(),
        false => with_fields(&format!("{base}/views/new"), choice.fields()),
    };
    ViewLinks {
        views: views.iter().take(LISTED).map(link).collect(),
        save,
        objection: account.role_objection(),
    }
}

fn choice_of_view(view: &SavedView) -> Choice {
    let PutSavedView { state, availability, group, filter, .. } = view.selection();
    Choice { state, availability, group, filter }
}

#[derive(Template)]
#[template(path = "view-new.html")]
struct NewPage {
    base: String,
    choice: Choice,
    /// Nodes that it selects now.
    count: u64,
    command: String,
    name: String,
    longest: usize,
    objection: String,
    error: String,
}

/// Shows the form that saves a selection.
pub(super) async fn show_form(
    reader: Reader,
    Path(org): Path<String>,
    Query(form): Query,
) -> Result<Response, Failure> {
    form_page(&reader, &org, &form, String::new()).await
}

async fn form_page(reader: &Reader, org: &str, form: &Form, error: String) -> Result<Response, Failure> {
    let choice = choice_of(form);
    let query = FleetNodesQuery { limit: Some(1), count: Some(true), ..choice.query() };
    let (found, account) = tokio::try_join!(reads::nodes(reader, org, &query), reads::account(reader))?;
    let name = form.owned("view").unwrap_or_default();
    let shown = if name.is_empty() { "NAME".to_owned() } else { word(&name) };
    let page = NewPage {
        base: address_of(org, &[]),
        command: format!("hzn exchange view save {shown} {}", choice.options()),
        choice,
        count: found.count.unwrap_or_default(),
        name,
        longest: LONGEST_VIEW_NAME,
        objection: account.role_objection(),
        error,
    };
    Ok(layout::show(reader, org, Tab::Nodes, "Save a view", &page))
}

/// Saves a selection.
pub(super) async fn save(reader: Reader, Path(org): Path<String>, form: Form) -> Result<Response, Failure> {
    let Choice { state, availability, group, filter } = choice_of(&form);
    let view = PutSavedView { description: form.owned("description"), state, availability, group, filter };
    let name = form.get("view").unwrap_or_default();
    if name.is_empty() {
        return form_page(&reader, &org, &form, "the name of the view must not be empty".to_owned()).await;
    }
    match reader.client.put_saved_view(&org, name, &view).await.map_err(Failure::from) {
        Ok(_) => {
            let base = address_of(&org, &[]);
            Ok(Redirect::to(&choice_of(&form).list(&base)).into_response())
        }
        // A name with a mistake is shown with it, so that it can be corrected.
        Err(failure) if failure.is_input() => form_page(&reader, &org, &form, failure.text()).await,
        Err(failure) => Err(failure),
    }
}

#[derive(Template)]
#[template(path = "view-remove.html")]
struct RemovePage {
    base: String,
    view: ViewLink,
    command: String,
}

/// Shows what would be removed.
pub(super) async fn show_removal(
    reader: Reader,
    Path(org): Path<String>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let name = form.require("view")?;
    let (views, account) =
        tokio::try_join!(async { Ok(reader.client.saved_views(&org).await?) }, reads::account(&reader))?;
    let found = links(&org, &views, &Choice::default(), &account).views;
    let view = found.into_iter().find(|view| view.name == name);
    let view = view.ok_or_else(|| Failure::Missing(format!("the view {name} does not exist")))?;
    let page = RemovePage {
        base: address_of(&org, &[]),
        command: format!("hzn exchange view remove {}", word(name)),
        view,
    };
    Ok(layout::show(&reader, &org, Tab::Nodes, "Remove a view", &page))
}

/// Removes a view.
pub(super) async fn remove(reader: Reader, Path(org): Path<String>, form: Form) -> Result<Response, Failure> {
    let name = form.require("view")?;
    if !reader.client.delete_saved_view(&org, name).await? {
        let text = format!("the view {name} does not exist, or belongs to another user");
        return Err(Failure::Missing(text));
    }
    Ok(Redirect::to(&address_of(&org, &["nodes"])).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&";

    fn view(name: &str, owner: &str) -> SavedView {
        SavedView {
            name: name.into(),
            owner: owner.into(),
            state: Some("down".into()),
            filter: Some(HOSTILE.into()),
            ..SavedView::default()
        }
    }

    fn user() -> Account {
        Account { name: "o/u".into(), ..Account::default() }
    }

    #[test]
    fn views_lead_to_their_nodes_and_only_own_ones_are_removed() {
        let views = [view("mine", "o/u"), view("theirs", "o/v")];
        let found = links("o", &views, &choice_of_view(&views[0]), &user());
        assert!(found.views[0].href.starts_with("/console/orgs/o/nodes?state=down&filter=%3Cimg"));
        assert!(found.views[0].is_current && found.views[0].objection.is_empty());
        assert_eq!(found.views[1].objection, "only o/v and administrators of o may do this");
        assert!(found.save.starts_with("/console/orgs/o/views/new?state=down") && found.objection.is_empty());
        assert!(links("o", &views, &Choice::default(), &user()).save.is_empty());
    }

    #[test]
    fn forms_escape_what_they_show() {
        let page = NewPage {
            base: "/console/orgs/o".into(),
            choice: choice_of_view(&view(HOSTILE, "o/u")),
            count: 1,
            command: format!("hzn {HOSTILE}"),
            name: HOSTILE.into(),
            longest: LONGEST_VIEW_NAME,
            objection: String::new(),
            error: HOSTILE.into(),
        };
        let text = page.render().expect("a page");
        assert!(!text.contains("<img") && text.contains("role=\"alert\""), "{text}");
        let link = links("o", &[view(HOSTILE, "o/v")], &Choice::default(), &user()).views.remove(0);
        let page = RemovePage { base: "/console/orgs/o".into(), view: link, command: HOSTILE.into() };
        let text = page.render().expect("a page");
        assert!(!text.contains("<img") && text.contains("disabled title="), "{text}");
    }
}
