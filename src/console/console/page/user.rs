//! A user with its API keys.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::exchange::user::{ApiKeySummary, UserResponse};
use http::StatusCode;
use jiff::Timestamp;

use super::moment::Moment;
use crate::administration::{self, UserObjections, role_in_words, role_word};
use crate::change::ChangeLink;
use crate::failure::Failure;
use crate::form::Query;
use crate::layout::{self, Place, Tab};
use crate::reads;
use crate::session::Reader;

/// API keys of a page.
const PAGE: usize = 50;

struct KeyRow {
    id: String,
    label: String,
    description: String,
    role: String,
    created: Moment,
    created_by: String,
    expires_at: String,
    is_session: bool,
    /// True if the reader is logged in with it.
    is_current: bool,
    controls: Vec<ChangeLink>,
}

#[derive(Template)]
#[template(path = "user.html")]
struct Page {
    name: String,
    user: UserResponse,
    has_password: bool,
    role: String,
    changed: Moment,
    is_own: bool,
    controls: Vec<ChangeLink>,
    keys: Vec<KeyRow>,
    /// Number of all keys that the reader sees.
    count: usize,
    next: Option<usize>,
    is_first: bool,
    /// True if keys exist that the reader does not see.
    hides_keys: bool,
}

/// What a page shows of a user, and to whom.
struct Seen<'a> {
    org: &'a str,
    name: &'a str,
    objections: &'a UserObjections,
    has_password: bool,
    own_key: &'a str,
    now: Timestamp,
}

impl Seen<'_> {
    fn key(&self, key: ApiKeySummary) -> KeyRow {
        let fields = [("user", self.name), ("key", key.id.as_str())];
        let remove = ChangeLink::new(self.org, "key-remove", "Remove", &fields, &self.objections.keys);
        let role = UserResponse {
            role: key.role.clone(),
            policies: key.policies.clone(),
            ..UserResponse::default()
        };
        KeyRow {
            is_session: reads::is_session(&key),
            is_current: key.id == self.own_key,
            role: if key.role.is_some() { role_in_words(&role) } else { String::new() },
            created: Moment::new(&key.last_updated, self.now),
            created_by: key.created_by.unwrap_or_default(),
            expires_at: key.expires_at.unwrap_or_default(),
            label: key.label,
            description: key.description,
            id: key.id,
            controls: vec![remove],
        }
    }

    fn controls(&self, user: &UserResponse, is_own: bool) -> Vec<ChangeLink> {
        let policies = user.policies.as_deref().unwrap_or_default().join(", ");
        let of_user = [("user", self.name)];
        let with_role = [("user", self.name), ("role", role_word(user)), ("policies", policies.as_str())];
        let password = if is_own { "Change your password" } else { "Set a new password" };
        let link = |change, text, fields: &[(&str, &str)], objection: &str| {
            ChangeLink::new(self.org, change, text, fields, objection)
        };
        vec![
            link("user-password", password, &of_user, &self.objections.password),
            link("key-create", "Create an API key", &of_user, &self.objections.keys),
            link("user-role", "Change the role", &with_role, &self.objections.role),
            link("user-remove", "Remove the user", &of_user, &self.objections.removal),
        ]
    }

    fn page(&self, mut user: UserResponse, start: usize, (is_own, hides_keys): (bool, bool)) -> Page {
        let mut keys = std::mem::take(&mut user.apikeys);
        keys.sort_by(|one, other| other.last_updated.cmp(&one.last_updated));
        let count = keys.len();
        let shown: Vec<KeyRow> = keys.into_iter().skip(start).take(PAGE).map(|key| self.key(key)).collect();
        let end = start.saturating_add(shown.len());
        Page {
            name: format!("{}/{}", self.org, self.name),
            has_password: self.has_password,
            role: role_in_words(&user),
            changed: Moment::new(&user.last_updated, self.now),
            is_own,
            controls: self.controls(&user, is_own),
            next: (end < count && !shown.is_empty()).then_some(end),
            keys: shown,
            count,
            is_first: start == 0,
            hides_keys,
            user,
        }
    }
}

pub(crate) async fn show(
    reader: Reader,
    Path((org, name)): Path<(String, String)>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let start = form.number("offset")?.unwrap_or(0);
    let (user, account, has_password) = tokio::try_join!(
        administration::user(&reader, &org, &name),
        reads::account(&reader),
        administration::has_password(&reader, &org, &name)
    )?;
    let is_own = account.name == format!("{org}/{name}");
    let objections = UserObjections::new(&account, &org, &name, &user);
    let seen = Seen {
        org: &org,
        name: &name,
        objections: &objections,
        has_password,
        own_key: &reader.session.key_id,
        now: Timestamp::now(),
    };
    let page = seen.page(user, start, (is_own, !is_own && account.role.is_some()));
    let place = Place { org: &org, tab: Tab::Users };
    Ok(layout::show_still(&reader, place, StatusCode::OK, &name, &page))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize, text: &str) -> ApiKeySummary {
        ApiKeySummary {
            id: format!("id-{number}"),
            label: text.to_owned(),
            description: text.to_owned(),
            created_by: Some(text.to_owned()),
            last_updated: format!("2026-01-01T00:00:{number:02}Z"),
            ..ApiKeySummary::default()
        }
    }

    fn shown(user: UserResponse, start: usize, objections: &UserObjections) -> Page {
        let seen = Seen {
            org: "o",
            name: "<b>\u{202e}",
            objections,
            has_password: true,
            own_key: "id-1",
            now: Timestamp::UNIX_EPOCH,
        };
        seen.page(user, start, (false, false))
    }

    #[test]
    fn hostile_texts_are_escaped() {
        let text = format!("<img src=x>\"'{}", "n".repeat(1_000));
        let user = UserResponse {
            email: text.clone(),
            updated_by: text.clone(),
            role: Some(text.clone()),
            policies: Some(vec![text.clone()]),
            apikeys: vec![key(1, &text)],
            ..UserResponse::default()
        };
        let html = shown(user, 0, &UserObjections::default()).render().expect("a page");
        assert!(!html.contains("<img") && !html.contains("<b>"), "{html}");
        assert!(html.contains("user=%3Cb%3E%E2%80%AE"), "{html}");
    }

    #[test]
    fn keys_are_paged_the_newest_first() {
        let user = UserResponse {
            apikeys: (0..60).map(|number| key(number, "k")).collect(),
            ..UserResponse::default()
        };
        let first = shown(user.clone(), 0, &UserObjections::default());
        assert_eq!((first.keys.len(), first.next, first.count), (50, Some(50), 60));
        assert_eq!(first.keys.first().map(|key| key.id.as_str()), Some("id-59"));
        let last = shown(user.clone(), 50, &UserObjections::default());
        assert_eq!((last.keys.len(), last.next), (10, None));
        assert!(shown(user, 99, &UserObjections::default()).keys.is_empty());
    }

    #[test]
    fn controls_that_the_reader_may_not_use_are_disabled() {
        let objections = UserObjections { role: "no <i>".to_owned(), ..UserObjections::default() };
        let user = UserResponse { apikeys: vec![key(1, "k")], ..UserResponse::default() };
        let html = shown(user, 0, &objections).render().expect("a page");
        assert!(html.contains("disabled title=\"no &#60;i&#62;\">Change the role</button>"), "{html}");
        assert!(!html.contains("/change/user-role") && html.contains("/change/user-remove"), "{html}");
    }
}
