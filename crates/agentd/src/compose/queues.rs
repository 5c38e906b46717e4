//! Queues that domains keep in tables of their own.

use agentd_store::StoreError;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::hooks::{HookError, Hooks};
use crate::monitoring::{QueueDepth, ReportsQueue};

/// Deliveries of hooks.
pub(super) struct HookDeliveries(pub(super) Hooks);

impl ReportsQueue for HookDeliveries {
    fn depth(&self) -> BoxFuture<'_, Result<QueueDepth, StoreError>> {
        async {
            let counts = self.0.queue_stats().await.map_err(|error| match error {
                HookError::Store(error) => error,
                _ => StoreError::Aborted,
            })?;
            Ok(QueueDepth {
                queue: "hook_deliveries".to_owned(),
                pending: counts.pending + counts.failed,
                leased: counts.processing,
                dead_letter: counts.dead_letter,
            })
        }
        .boxed()
    }
}
