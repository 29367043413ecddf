//! Initial contents of every exchange: the organizations `root` and `IBM`, and the root user.
//!
//! Source: exchange-api 2.3.

use evenkeel_access::{MULTI_TENANT_ORG, ROOT_ORG};
use evenkeel_exchange_store::seed;
use evenkeel_store::{Database, retry};
use jiff::Timestamp;
use uuid::Uuid;

use crate::ApiError;
use crate::auth::SecretHasher;

/// Creates what is missing, and disables root without a password. Returns the stored hash of root's password
/// when it has yet to be compared with the configured one: that is slow, and [`settle_root`] does it.
pub(crate) async fn make_missing(
    database: &Database,
    hasher: &SecretHasher,
    root_password: Option<&str>,
    now: Timestamp,
) -> Result<Option<String>, ApiError> {
    let stored = match root_password {
        Some(_) => database.read(async |connection| seed::find_root_password(connection).await).await?,
        None => None,
    };
    let missing = match root_password {
        Some(password) if stored.is_none() => Some(hasher.hash(password).await?),
        _ => None,
    };
    retry("exchange.seed", || async {
        let mut tx = database.begin().await?;
        let root = ("Root Org", "Organization for the root user only");
        seed::insert_organization(&mut tx, ROOT_ORG, "", root.0, root.1, now).await?;
        let shared = ("IBM Org", "Organization containing IBM services");
        seed::insert_organization(&mut tx, MULTI_TENANT_ORG, "IBM", shared.0, shared.1, now).await?;
        if stored.is_none() {
            seed::upsert_root(&mut tx, Uuid::now_v7(), missing.as_deref(), now).await?;
        }
        tx.commit().await
    })
    .await
    .map_err(ApiError::from)?;
    Ok(stored)
}

/// Sets the configured password of root when the stored hash belongs to another one.
pub(crate) async fn settle_root(
    database: &Database,
    hasher: &SecretHasher,
    password: &str,
    stored: &str,
    now: Timestamp,
) -> Result<(), ApiError> {
    if hasher.verify(password, stored).await? {
        return Ok(());
    }
    let hash = hasher.hash(password).await?;
    retry("exchange.settle_root", || async {
        let mut tx = database.begin().await?;
        seed::upsert_root(&mut tx, Uuid::now_v7(), Some(&hash), now).await?;
        tx.commit().await
    })
    .await
    .map_err(ApiError::from)
}
