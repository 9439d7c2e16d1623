//! Forgets client tokens after their time.
//!
//! Tokens are indexed by the hour in which they expire. A pass walks the index from its start and deletes what has
//! expired, in bounded transactions; a token that was renewed meanwhile is seen by the transaction and stays.

use async_trait::async_trait;
use state::{PageRequest, PassContext, PassError, PassReport, Reconciler, Record, Scope, StoreError, Tx};
use std::time::Duration;
use time::OffsetDateTime;

use crate::limits::{CLIENT_TOKEN_SWEEP_BATCH, CLIENT_TOKEN_SWEEP_EVERY};
use crate::records::ClientToken;

/// The reconciler.
pub struct ClientTokenSweep;

#[async_trait]
impl Reconciler for ClientTokenSweep {
    fn name(&self) -> &'static str {
        "iam-client-token-sweep"
    }

    fn watches(&self) -> &[&'static str] {
        &[]
    }

    fn resync(&self) -> Duration {
        CLIENT_TOKEN_SWEEP_EVERY
    }

    async fn pass(&self, context: &PassContext) -> Result<PassReport, PassError> {
        let now = OffsetDateTime::now_utc();
        let request = PageRequest {
            limit: CLIENT_TOKEN_SWEEP_BATCH,
            ..PageRequest::default()
        };
        let page = context
            .store
            .page_by_index::<ClientToken>("expiry", &[], request)
            .await?;
        let mut report = PassReport {
            examined: page.rows.len() as u64,
            ..PassReport::default()
        };
        let full = page.rows.len() == CLIENT_TOKEN_SWEEP_BATCH;
        let expired: Vec<ClientToken> = page
            .rows
            .into_iter()
            .map(|row| row.record)
            .filter(|token| token.expires <= now)
            .collect();
        if expired.is_empty() {
            return Ok(report);
        }
        let expired = &expired;
        let delete = |tx: Tx| async move {
            let mut deleted = 0;
            for token in expired {
                let scope = Scope::account(token.account);
                let id = token.key().id;
                if tx
                    .find::<ClientToken>(&scope, &id)
                    .await?
                    .is_some_and(|found| found.expires <= now)
                {
                    tx.delete::<ClientToken>(&scope, &id)?;
                    deleted += 1;
                }
            }
            Ok::<u64, StoreError>(deleted)
        };
        report.changed = context.store.update(delete).await?;
        if full {
            report.due_in(Duration::ZERO);
        }
        Ok(report)
    }
}
