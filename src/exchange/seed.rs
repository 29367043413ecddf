//! What every exchange has from its first start: the organizations `root` and `IBM`, and the root user.
//!
//! Source: exchange contract 2.3.

use evenkeel_access::{MULTI_TENANT_ORG, ROOT_ORG};
use evenkeel_store::exchange::seed;
use evenkeel_store::{Database, retry};
use jiff::Timestamp;
use uuid::Uuid;

use crate::ApiError;
use crate::auth::SecretHasher;

/// Makes what is missing; the root password is set anew at each start, `None` disables root.
pub(crate) async fn seed(
    database: &Database,
    hasher: &SecretHasher,
    root_password: Option<&str>,
    now: Timestamp,
) -> Result<(), ApiError> {
    let password_hash = match root_password {
        Some(password) => {
            let stored = seed::find_root_password(&mut *database.acquire().await?).await?;
            match stored {
                Some(stored) if hasher.verify(password, &stored).await? => Some(stored),
                _ => Some(hasher.hash(password).await?),
            }
        }
        None => None,
    };
    retry("exchange.seed", || async {
        let mut tx = database.begin().await?;
        let root = ("Root Org", "Organization for the root user only");
        seed::insert_organization(&mut tx, ROOT_ORG, "", root.0, root.1, now).await?;
        let shared = ("IBM Org", "Organization containing IBM services");
        seed::insert_organization(&mut tx, MULTI_TENANT_ORG, "IBM", shared.0, shared.1, now).await?;
        seed::upsert_root(&mut tx, Uuid::now_v7(), password_hash.as_deref(), now).await?;
        tx.commit().await
    })
    .await
    .map_err(ApiError::from)
}
