//! A fresh database for each test, with the tables of both roles.

use std::ops::Deref;

use sqlx::migrate::Migrator;

const ROLES: &[&Migrator] = &[&evenkeel_exchange_store::MIGRATIONS, &evenkeel_agbot_store::MIGRATIONS];

/// A database of its own. It is dropped with the value.
#[derive(Debug)]
pub struct TestDatabase(evenkeel_test_database::TestDatabase);

impl TestDatabase {
    /// A fresh database with the newest schema and no rows.
    pub async fn new() -> Self {
        Self(evenkeel_test_database::TestDatabase::new(ROLES).await)
    }

    /// A database without any table of ours.
    pub async fn empty() -> Self {
        Self(evenkeel_test_database::TestDatabase::empty(ROLES).await)
    }
}

impl Deref for TestDatabase {
    type Target = evenkeel_test_database::TestDatabase;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
