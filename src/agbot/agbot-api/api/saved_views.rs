//! Saved views of an organization: every account that may list nodes reads them, users change their own, administrators all.

use axum::Json;
use evenkeel_agbot::{AgbotError, Context};
use evenkeel_agbot_store::saved_view::{self as views, SavedViewRow};
use evenkeel_api::{BodyKind, Content, Input, OrgPath, Refusal};
use evenkeel_domain::object::{Members, Object};
use evenkeel_domain::orchestration::MembersError;
use evenkeel_planner_model::model::Reach;
use evenkeel_planner_record::facts::Availability;
use evenkeel_store::retry;
use evenkeel_wire::agbot::saved_view::{
    LONGEST_VIEW_NAME, LONGEST_VIEW_TEXT, MOST_VIEWS, MOST_VIEWS_OF_OWNER, PutSavedView, SavedView,
    SavedViews,
};
use evenkeel_wire::exchange::utility::ApiResponse;
use evenkeel_wire::page::MAX_FILTER;
use http::StatusCode;
use serde_json::{Value, json};

use super::actions::failed;
use super::parameters::known;
use super::path::ViewPath;
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op, Sent, unreadable};
use super::{done, list_page};
use crate::shown::workload_shape::time;

impl Input<AgbotRequest> for PutSavedView {
    const KIND: BodyKind = BodyKind::Raw;

    fn read(sent: Sent) -> Result<PutSavedView, Refusal> {
        let read = sent.members(of_body)?;
        if let Some(filter) = &read.filter {
            list_page::parsed(filter)?;
        }
        Ok(read)
    }

    fn body() -> Content {
        Content::read::<PutSavedView>()
    }
}

fn of_body(value: Value) -> Result<PutSavedView, MembersError> {
    const MEMBERS: Members = known(&["description", "state", "availability", "group", "filter"]);
    let mut body = Object::open(String::new(), value, &MEMBERS)?;
    let mut text = |member: &str, most: usize| match body.text(member, most)? {
        Some(text) if text.contains('\0') => Err(body.broken(member, "must not hold a NUL character")),
        found => Ok(found.filter(|text| !text.is_empty())),
    };
    let read = PutSavedView {
        description: text("description", LONGEST_VIEW_TEXT)?,
        state: text("state", LONGEST_VIEW_TEXT)?,
        availability: text("availability", LONGEST_VIEW_TEXT)?,
        group: text("group", LONGEST_VIEW_TEXT)?,
        filter: text("filter", MAX_FILTER)?,
    };
    for (member, word, words) in [
        ("state", &read.state, &Reach::NAMES[..]),
        ("availability", &read.availability, &Availability::NAMES[..]),
    ] {
        if word.as_deref().is_some_and(|word| !words.contains(&word)) {
            return Err(body.broken(member, &format!("must be one of {}", words.join(", "))));
        }
    }
    let PutSavedView { state, availability, group, filter, .. } = &read;
    if [state, availability, group, filter].into_iter().all(Option::is_none) {
        return Err(body.broken("filter", "must be given, or state, availability or group"));
    }
    Ok(read)
}

/// Checks the name of a view.
///
/// # Errors
/// 400 with the rule that it breaks.
fn require_name(name: &str) -> Result<(), Refusal> {
    let rule = match name {
        "" => "must not be empty".to_owned(),
        name if name.len() > LONGEST_VIEW_NAME => {
            format!("must not be longer than {LONGEST_VIEW_NAME} bytes")
        }
        name if name.trim() != name => "must not begin or end with blanks".to_owned(),
        name if name.contains('/') || name.chars().any(char::is_control) => {
            "must not hold a slash or control characters".to_owned()
        }
        _ => return Ok(()),
    };
    Err(Refusal::invalid_input(format!("the name of the view {rule}")))
}

/// Lists the saved views of an organization.
pub(super) async fn list_saved_views(
    op: Op<OrgPath>,
    _: Permission<right::NodesRead>,
) -> Result<Json<SavedViews>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let rows = context.database.read(async |connection| views::list_views(connection, &org).await).await;
    let rows = rows.map_err(|error| unreadable(&error))?;
    Ok(Json(SavedViews { views: rows.into_iter().map(shape).collect() }))
}

fn shape(row: SavedViewRow) -> SavedView {
    // What another version wrote and this one does not know selects nothing here.
    let selection: PutSavedView = serde_json::from_value(row.selection).unwrap_or_default();
    let PutSavedView { description, state, availability, group, filter } = selection;
    let (name, owner, last_updated) = (row.name, row.owner, time(row.updated_at));
    SavedView { name, owner, last_updated, description, state, availability, group, filter }
}

/// Stores a view under a name.
pub(super) async fn replace_saved_view(
    op: Op<ViewPath>,
    permission: Permission<right::NodesOperate>,
    selection: PutSavedView,
) -> Result<Json<ApiResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: ViewPath { org, view: name }, .. } = op;
    require_name(&name)?;
    let (owner, operated) = permission.into_proof();
    let row = SavedViewRow {
        selection: json!(selection),
        updated_at: context.now(),
        org: org.clone(),
        name,
        owner,
    };
    match store(&context, &row, operated.is_all()).await.map_err(|error| failed(&error))? {
        Stored::Done => Ok(Json(done(format!("view {} saved", row.name)))),
        Stored::OfOther => {
            let text = format!("the view {} belongs to another user of {org}", row.name);
            Err(Refusal::new(StatusCode::FORBIDDEN, text))
        }
        Stored::TooMany(of, most) => {
            let text = format!("{of} has {most} saved views, which is the most: remove some");
            Err(Refusal::new(StatusCode::CONFLICT, text))
        }
    }
}

/// Outcome of storing a view.
enum Stored {
    Done,
    OfOther,
    TooMany(String, u32),
}

async fn store(context: &Context, row: &SavedViewRow, may_all: bool) -> Result<Stored, AgbotError> {
    retry("saved_view.store", || async {
        let mut tx = context.database.begin().await?;
        let known = views::list_views(&mut tx, &row.org).await?;
        if known.iter().all(|one| one.name != row.name) {
            let own = known.iter().filter(|one| one.owner == row.owner).count();
            for (of, count, most) in
                [(&row.org, known.len(), MOST_VIEWS), (&row.owner, own, MOST_VIEWS_OF_OWNER)]
            {
                if count as u64 >= u64::from(most) {
                    return Ok(Stored::TooMany(of.clone(), most));
                }
            }
        }
        if !views::upsert_view(&mut tx, row, may_all).await? {
            return Ok(Stored::OfOther);
        }
        tx.commit().await?;
        Ok::<_, AgbotError>(Stored::Done)
    })
    .await
}

/// Removes a view.
pub(super) async fn delete_saved_view(
    op: Op<ViewPath>,
    permission: Permission<right::NodesOperate>,
) -> Result<Json<ApiResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: ViewPath { org, view: name }, .. } = op;
    let (actor, operated) = permission.into_proof();
    let owner = (!operated.is_all()).then_some(actor.as_str());
    let deleted = context
        .database
        .read(async |connection| views::delete_view(connection, (&org, &name), owner).await)
        .await
        .map_err(|error| unreadable(&error))?;
    match deleted {
        true => Ok(Json(done(format!("view {name} removed")))),
        false => {
            let text = format!("the view {name} does not exist in {org}, or belongs to another user");
            Err(Refusal::new(StatusCode::NOT_FOUND, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &Value) -> Result<PutSavedView, String> {
        let sent = Sent { uri: http::Uri::from_static("/"), body: body.to_string().into() };
        PutSavedView::read(sent).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn view_selects_something_in_the_words_of_the_list() {
        let found = read(&json!({"state": "down", "filter": "site == \"north\"", "group": ""})).unwrap();
        assert_eq!((found.state.as_deref(), found.group), (Some("down"), None));
        for (body, rule) in [
            (json!({}), "filter must be given"),
            (json!({"description": "d"}), "filter must be given"),
            (json!({"state": "asleep"}), "state must be one of up, away"),
            (json!({"availability": "off"}), "availability must be one of"),
            (json!({"filter": "site = = x"}), "filter: "),
            (json!({"filter": "x".repeat(5_000)}), "filter"),
            (json!({"group": "a\0b"}), "group must not hold a NUL"),
            (json!({"sort": "name"}), "sort"),
        ] {
            let error = read(&body).unwrap_err();
            assert!(error.contains(rule), "{body}: {error}");
        }
    }

    #[test]
    fn names_of_views_are_short_and_plain() {
        for name in ["a", "down in the north", "größe"] {
            assert!(require_name(name).is_ok(), "{name}");
        }
        let long = "x".repeat(65);
        for name in ["", " a", "a/b", "a\nb", &long] {
            assert!(require_name(name).is_err(), "{name:?}");
        }
    }
}
