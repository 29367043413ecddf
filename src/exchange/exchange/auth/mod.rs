//! Authentication of callers: Basic credentials and tokens of an identity provider, checked once and then cached.
//!
//! Source: exchange-api 2; design 3.5.

mod argon;
mod basic;
mod bearer;
mod credentials;
pub(crate) mod demotion;
mod forwarded;
mod hash;
mod hash_queue;
mod layer;
mod presented;
mod remembered;
mod withdrawals;

pub(crate) use bearer::BearerLogins;
pub use credentials::Credentials;
pub(crate) use credentials::caller as caller_of;
pub(crate) use forwarded::{ActingAgbot, confirm_agbot, is_by_agbot};
pub use hash::SecretHasher;
pub(crate) use layer::{Authenticated, ClientAddress, authenticate, authenticate_departed};
pub(crate) use presented::{PresentedLogin, login_changed};
pub(crate) use withdrawals::Withdrawals;
