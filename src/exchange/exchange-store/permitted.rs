//! The transaction of a caller who has a right.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use evenkeel_access::{Permission, PermissionCondition, WriteRight, right};
use evenkeel_store::Transaction;
use sqlx::PgConnection;

/// A transaction in which the right `R` holds.
///
/// Functions that change data for a caller take one, so that a forgotten check does not compile.
pub struct Permitted<R> {
    tx: Transaction,
    condition: Option<Arc<PermissionCondition>>,
    right: PhantomData<fn() -> R>,
}

impl<R: WriteRight> Permitted<R> {
    /// Puts a transaction under a permission.
    pub fn new(tx: Transaction, permission: &Permission<R>) -> Permitted<R> {
        Permitted { tx, condition: permission.condition().cloned(), right: PhantomData }
    }
}

/// The login of a person whose account an identity provider describes: it has no permission yet, and changes nothing but that account.
#[derive(Debug)]
pub enum Login {}

impl Permitted<Login> {
    /// Puts a transaction under a login.
    #[must_use]
    pub fn of_login(tx: Transaction) -> Permitted<Login> {
        Permitted { tx, condition: None, right: PhantomData }
    }
}

impl<R> Permitted<R> {
    /// Returns what has to be decided again in this transaction before it changes anything.
    #[must_use]
    pub fn condition(&self) -> Option<Arc<PermissionCondition>> {
        self.condition.clone()
    }

    /// The transaction, to be committed.
    #[must_use]
    pub fn into_transaction(self) -> Transaction {
        self.tx
    }
}

impl<R> Deref for Permitted<R> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.tx
    }
}

impl<R> DerefMut for Permitted<R> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.tx
    }
}

/// Rights that allow adding an account: replacing an absent one adds it, and emptying the exchange keeps root.
pub trait CreatesAccounts: WriteRight {}

impl CreatesAccounts for right::AdminAction {}
impl CreatesAccounts for right::UserCreate {}
impl CreatesAccounts for right::UserWrite {}

/// Rights that allow changing an account: its own, and that to change its password.
pub trait WritesAccounts: WriteRight {}

impl WritesAccounts for right::PasswordWrite {}
impl WritesAccounts for right::UserWrite {}

/// Rights that allow adding an organization: emptying the exchange keeps root's.
pub trait CreatesOrganizations: WriteRight {}

impl CreatesOrganizations for right::AdminAction {}
impl CreatesOrganizations for right::OrgCreate {}

/// Rights that allow changing signing keys: those to change what holds the keys.
pub trait WritesKeys: WriteRight {}

impl WritesKeys for right::PatternWrite {}
impl WritesKeys for right::ServiceWrite {}

/// Rights that allow removing messages to a node: its own, and that to send one, which makes room.
pub trait ClearsNodeMailbox: WriteRight {}

impl ClearsNodeMailbox for right::NodeMessage {}
impl ClearsNodeMailbox for right::NodeWrite {}

/// Rights that allow removing messages to an agbot: its own, and that to send one, which makes room.
pub trait ClearsAgbotMailbox: WriteRight {}

impl ClearsAgbotMailbox for right::AgbotMessage {}
impl ClearsAgbotMailbox for right::AgbotWrite {}

/// Rights that allow removing nodes: their own, and that to remove the user who owns them.
pub trait RemovesNodes: WriteRight {}

impl RemovesNodes for right::NodeWrite {}
impl RemovesNodes for right::UserWrite {}

/// Rights that allow approving an agbot: an administrator who writes an agbot approves it.
pub trait ApprovesAgbots: WriteRight {}

impl ApprovesAgbots for right::AgbotApprove {}
impl ApprovesAgbots for right::AgbotWrite {}

/// Rights that use up an approval of a plan: those to write what a second person approves, and that to have an agbot carry out an action.
pub trait UsesPlanApprovals: WriteRight {}

impl UsesPlanApprovals for right::DeploymentPolicyCreate {}
impl UsesPlanApprovals for right::DeploymentPolicyWrite {}
impl UsesPlanApprovals for right::OrgChange {}
impl UsesPlanApprovals for right::PlanApprovalWrite {}
