//! The reader's account and its sessions.

use askama::Template;
use axum::response::Response;
use jiff::Timestamp;

use super::moment::Moment;
use crate::address::address_of;
use crate::failure::Failure;
use crate::layout::show_alone;
use crate::reads::{self, Account};
use crate::session::Reader;

struct SessionRow {
    id: String,
    begun: Moment,
    expires_at: String,
    is_own: bool,
}

#[derive(Template)]
#[template(path = "account.html")]
struct Page {
    account: Account,
    /// The page of the account, with its API keys.
    user: String,
    sessions: Vec<SessionRow>,
}

pub(crate) async fn show(reader: Reader) -> Result<Response, Failure> {
    let now = Timestamp::now();
    let sessions = reads::sessions(&reader).await?.into_iter().map(|key| SessionRow {
        begun: Moment::new(&key.last_updated, now),
        expires_at: key.expires_at.unwrap_or_default(),
        is_own: key.id == reader.session.key_id,
        id: key.id,
    });
    let page = Page {
        account: reads::account(&reader).await?,
        user: address_of(&reader.session.org, &["users", &reader.session.user]),
        sessions: sessions.collect(),
    };
    Ok(show_alone(&reader, "Account", &page))
}
