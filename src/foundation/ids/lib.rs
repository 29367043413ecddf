//! Ids: one type for each kind of object, from the API to SQL to the planner.
//!
//! An id is a short shared text: cloning copies a pointer, so that models, queues and maps can hold ids freely. Ids order as
//! text. The exchange decides which characters a name may contain, not this crate.

mod agreement;
#[cfg(feature = "sqlx")]
mod column;
mod error;
mod org;
mod policy;
mod qualified;
mod task;
mod text;
mod user;

pub use agreement::AgreementId;
pub use error::IdError;
pub use org::OrgId;
pub use qualified::{AgbotId, GroupId, NmpId, NodeId, PatternId, PolicyId, ServiceId, ServiceKey};
pub use task::TaskId;
pub use user::UserId;
