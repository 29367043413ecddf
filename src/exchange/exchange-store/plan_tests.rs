//! Plans of the statements that read lists.

use evenkeel_test_database::{TestDatabase, assert_plans};
use sqlx::migrate::Migrator;

const ROLES: &[&Migrator] = &[&crate::MIGRATIONS];

#[tokio::test]
async fn plans_of_lists_are_as_recorded() {
    assert_plans(&TestDatabase::new(ROLES).await, "plans_exchange.txt").await;
}
