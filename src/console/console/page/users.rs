//! The users of an organization, page by page. Ordinary users see themselves.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::exchange::user::{UserResponse, UsersResponse};
use evenkeel_wire::page::{MAX_FILTER, PageQuery};
use http::StatusCode;
use jiff::Timestamp;

use super::audit::is_forbidden;
use super::moment::Moment;
use crate::address::{address_of, query_of};
use crate::administration::{self, objection_to_creation, role_in_words};
use crate::change::ChangeLink;
use crate::failure::Failure;
use crate::form::Query;
use crate::layout::{self, Place, Tab, bare_name};
use crate::reads;
use crate::session::Reader;

/// Users of a page.
const PAGE: u16 = 50;

struct UserRow {
    name: String,
    href: String,
    role: String,
    email: String,
    changed: Moment,
    changed_by: String,
}

impl UserRow {
    fn new(org: &str, id: &str, user: UserResponse, now: Timestamp) -> Self {
        let name = bare_name(org, id).to_owned();
        Self {
            href: address_of(org, &["users", &name]),
            role: role_in_words(&user),
            changed: Moment::new(&user.last_updated, now),
            changed_by: user.updated_by,
            email: user.email,
            name,
        }
    }
}

#[derive(Template)]
#[template(path = "users.html")]
struct Page {
    filter: String,
    error: String,
    users: Vec<UserRow>,
    count: u64,
    count_is_minimum: bool,
    next: Option<String>,
    is_first: bool,
    /// True if the reader sees itself only.
    is_own: bool,
    controls: Vec<ChangeLink>,
    most: usize,
}

pub(crate) async fn show(
    reader: Reader,
    Path(org): Path<String>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let query = PageQuery {
        limit: Some(PAGE),
        after: form.owned("after"),
        filter: form.owned("filter"),
        count: Some(true),
    };
    let account = reads::account(&reader).await?;
    let (found, error, is_own) = match administration::users(&reader, &org, &query).await {
        Ok(found) => (found, String::new(), false),
        Err(failure) if failure.is_input() => (UsersResponse::default(), failure.text(), false),
        Err(failure) if is_forbidden(&failure) && org == reader.session.org => {
            (own(&reader).await?, String::new(), true)
        }
        Err(failure) => return Err(failure),
    };
    let objection = objection_to_creation(&account, &org);
    let controls = vec![ChangeLink::new(&org, "user-create", "Create a user", &[], &objection)];
    let now = Timestamp::now();
    let filter = query.filter.unwrap_or_default();
    let page = Page {
        next: found.next.map(|next| following(&filter, &next)),
        count: found.count.unwrap_or(u64::from(is_own)),
        count_is_minimum: found.count_is_minimum == Some(true),
        users: found.users.into_iter().map(|(id, user)| UserRow::new(&org, &id, user, now)).collect(),
        is_first: query.after.is_none(),
        filter,
        error,
        is_own,
        controls,
        most: MAX_FILTER,
    };
    let place = Place { org: &org, tab: Tab::Users };
    Ok(layout::show_still(&reader, place, StatusCode::OK, "Users", &page))
}

/// Returns the reader as the only user.
async fn own(reader: &Reader) -> Result<UsersResponse, Failure> {
    let found = reader.client.own_user(&reader.session.org).await?;
    Ok(UsersResponse { users: found.into_iter().collect(), ..UsersResponse::default() })
}

fn following(filter: &str, after: &str) -> String {
    format!("?{}", query_of([("filter", filter), ("after", after)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_escaped_and_stay_one_segment() {
        let name = format!("<script>\"'&/..\u{202e}{}", "n".repeat(1_000));
        let user = UserResponse {
            email: name.clone(),
            updated_by: name.clone(),
            role: Some(name.clone()),
            ..UserResponse::default()
        };
        let row = UserRow::new("o", &format!("o/{name}"), user, Timestamp::UNIX_EPOCH);
        assert_eq!(row.href.matches('/').count(), 5, "{}", row.href);
        let page = Page {
            filter: name,
            error: "<b>".to_owned(),
            users: vec![row],
            count: 1,
            count_is_minimum: false,
            next: None,
            is_first: true,
            is_own: false,
            controls: vec![ChangeLink::new("o", "user-create", "Create a user", &[], "<i>")],
            most: MAX_FILTER,
        };
        let with_error = page.render().expect("a page");
        let html = Page { error: String::new(), ..page }.render().expect("a page");
        for html in [with_error, html] {
            assert!(!html.contains("<script>") && !html.contains("<b>") && !html.contains("<i>"), "{html}");
        }
    }

    #[test]
    fn following_page_has_the_same_filter() {
        assert_eq!(following("admin == true", "a&b"), "?filter=admin%20%3D%3D%20true&after=a%26b");
        assert_eq!(following("", "a"), "?after=a");
    }
}
