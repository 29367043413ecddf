//! The credentials that a request presented, by which its caller is identified again when its login may have been withdrawn.
//!
//! Between the identification of a caller and the end of its request lie waits: for the body, for a slow hash, for a permit, for changes.
//! [`Exchange::confirm`] is to be asked after each of them.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_access::Caller;
use http::{HeaderMap, HeaderValue, header};

use super::bearer::{self, ORGANIZATION};
use super::layer::identify;
use crate::{ApiError, Exchange};

/// Credentials of a request.
pub(crate) struct PresentedLogin {
    authorization: Option<HeaderValue>,
    /// The organization that was asked for with a token.
    organization: Option<HeaderValue>,
    address: Option<IpAddr>,
    /// True for the login of a node that was deleted: it is not among the logins, and allows one operation that checks it itself.
    is_departed: bool,
    /// The position in the withdrawals before the latest identification.
    seen: AtomicU64,
}

impl PresentedLogin {
    /// The credentials in the headers of a request from an address, to be identified after that.
    pub(super) fn of(exchange: &Exchange, headers: &HeaderMap, address: Option<IpAddr>) -> PresentedLogin {
        let authorization = headers.get(header::AUTHORIZATION).cloned();
        let is_token = authorization.as_ref().is_some_and(bearer::is_token);
        PresentedLogin {
            organization: headers.get(ORGANIZATION).filter(|_| is_token).cloned(),
            authorization,
            address,
            is_departed: false,
            seen: AtomicU64::new(exchange.withdrawals().position()),
        }
    }

    /// The login of a node that was deleted.
    pub(crate) fn of_departed(address: Option<IpAddr>) -> PresentedLogin {
        PresentedLogin {
            authorization: None,
            organization: None,
            address,
            is_departed: true,
            seen: AtomicU64::new(0),
        }
    }

    /// Returns whether it is the login of a node that was deleted.
    pub(crate) fn is_departed(&self) -> bool {
        self.is_departed
    }

    pub(super) fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    pub(super) fn organization(&self) -> Option<&HeaderValue> {
        self.organization.as_ref()
    }

    pub(super) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Tokens expire, whatever happens to their account; their identification finds that out.
    fn expires(&self) -> bool {
        self.authorization.as_ref().is_some_and(bearer::is_token)
    }
}

impl Exchange {
    /// Returns whether a login was withdrawn or changed since its caller was identified, as far as this exchange knows.
    pub(crate) fn is_withdrawn(&self, login: &PresentedLogin, caller: &Caller) -> bool {
        if login.is_departed {
            return false;
        }
        let seen = login.seen.load(Ordering::SeqCst);
        let position = self.withdrawals().position();
        if position == seen {
            return false;
        }
        let is_concerned = self.withdrawals().concern(caller, seen);
        if !is_concerned {
            // The next check begins here. Another one may have come further meanwhile.
            login.seen.fetch_max(position, Ordering::SeqCst);
        }
        is_concerned
    }

    /// Returns whether the caller of a login need not be identified again.
    pub(crate) fn is_confirmed(&self, login: &PresentedLogin, caller: &Caller) -> bool {
        self.feed().is_current() && !login.expires() && !self.is_withdrawn(login, caller)
    }

    /// Identifies the caller of a login again.
    ///
    /// # Errors
    /// 401 when the login was withdrawn; those of an identification.
    pub(crate) async fn identify_again(&self, login: &PresentedLogin) -> Result<Arc<Caller>, ApiError> {
        let position = self.withdrawals().position();
        let caller = identify(self, login).await?;
        login.seen.store(position, Ordering::SeqCst);
        Ok(caller)
    }

    /// Checks that a login is still that of a caller; at once, unless it was changed.
    ///
    /// # Errors
    /// 401 when the login was withdrawn, 503 when its rights were changed; those of an identification.
    pub(crate) async fn confirm(&self, login: &PresentedLogin, caller: &Caller) -> Result<(), ApiError> {
        if self.is_confirmed(login, caller) || login.is_departed {
            return Ok(());
        }
        // Rare and large: it must not make the path of every poll large, too.
        let found = Box::pin(self.identify_again(login)).await?;
        if *found == *caller { Ok(()) } else { Err(login_changed()) }
    }
}

/// The 503 for a request whose login was changed while it was carried out. No 401, on which agents unregister: the login may be valid.
pub(crate) fn login_changed() -> ApiError {
    ApiError::unavailable("the login of the caller was changed while the request was carried out; try again")
}
