//! Limits on the bytes of the documents that an account owns.
//!
//! A change that makes a document larger is refused when the documents of its owner have more bytes beyond their shares than the account may
//! have. Changes that make none larger pass, whatever is stored.

use evenkeel_exchange_store::document_bytes::{self, CountedDocument};
use evenkeel_store::PgConnection;

use crate::ApiError;
use crate::settings::{DocumentBytes, ExchangeSettings};

/// The size of a document before a change.
#[derive(Debug)]
pub(super) struct SizeBefore {
    document: CountedDocument,
    /// Bytes beyond its share; none when the change leaves it within its share.
    excess: Option<i64>,
}

impl SizeBefore {
    /// Measures a document before it is changed, or created.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn measure(
        conn: &mut PgConnection,
        document: CountedDocument,
        org: &str,
        id: &str,
    ) -> Result<SizeBefore, ApiError> {
        let found = document_bytes::find(conn, document, org, id).await?;
        Ok(SizeBefore { document, excess: Some(found.map_or(0, |found| found.bytes)) })
    }

    /// Measures a node before a part of it is written that has so many bytes of a share: reports of nodes come often, and most are small.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn of_node(
        conn: &mut PgConnection,
        (bytes, share): (usize, usize),
        org: &str,
        id: &str,
    ) -> Result<SizeBefore, ApiError> {
        if bytes <= share {
            return Ok(SizeBefore { document: CountedDocument::Node, excess: None });
        }
        SizeBefore::measure(conn, CountedDocument::Node, org, id).await
    }

    /// Checks the change after it was made.
    ///
    /// # Errors
    /// 413 naming the rule.
    pub(super) async fn require_room(
        self,
        conn: &mut PgConnection,
        settings: &ExchangeSettings,
        org: &str,
        id: &str,
    ) -> Result<(), ApiError> {
        let SizeBefore { document, excess } = self;
        let Some(excess) = excess else { return Ok(()) };
        let Some(found) = document_bytes::find(conn, document, org, id).await? else { return Ok(()) };
        let limit = settings.document_bytes.limit(document);
        if limit <= 0 || found.bytes <= excess {
            return Ok(());
        }
        let used = document_bytes::of_account(conn, document, &found.owner_org, &found.owner).await?;
        if used <= limit {
            return Ok(());
        }
        Err(ApiError::too_large(format!(
            "the {} of '{}/{}' would have {used} bytes more than their shares ({}), and an account may have {limit}: make them smaller, or remove some",
            plural(document),
            found.owner_org,
            found.owner,
            shares(document),
        )))
    }
}

impl DocumentBytes {
    fn limit(&self, document: CountedDocument) -> i64 {
        match document {
            CountedDocument::Node => self.nodes,
            CountedDocument::Service => self.services,
            CountedDocument::Pattern
            | CountedDocument::DeploymentPolicy
            | CountedDocument::ManagementPolicy => self.policies,
        }
    }
}

fn plural(document: CountedDocument) -> &'static str {
    match document {
        CountedDocument::Node => "nodes",
        CountedDocument::Service => "services",
        CountedDocument::Pattern | CountedDocument::DeploymentPolicy | CountedDocument::ManagementPolicy => {
            "patterns and policies"
        }
    }
}

fn shares(document: CountedDocument) -> &'static str {
    match document {
        CountedDocument::Node => {
            "4 KiB for each record and policy, 16 KiB for each status and list of errors"
        }
        CountedDocument::Service => "8 KiB for each service and each policy of one",
        CountedDocument::Pattern | CountedDocument::DeploymentPolicy | CountedDocument::ManagementPolicy => {
            "8 KiB for each"
        }
    }
}
