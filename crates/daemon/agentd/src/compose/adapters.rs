//! Adapters between domains that must not depend on each other.

use agentd_automation::hooks::{HookError, Hooks};
use agentd_automation::scheduler::{ACTIVITY_QUARTER_MICROS, Activity, ActivitySource};
use agentd_base::Timestamp;
use agentd_conversation::chat::Chat;
use agentd_core::auth::{Auth, AuthError};
use agentd_operations::monitoring::{BootstrapReporter, QueueDepth, QueueReporter};
use agentd_store::StoreError;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// Reports to monitoring whether no API key exists yet.
pub(super) struct Bootstrap(pub(super) Auth);

impl BootstrapReporter for Bootstrap {
    fn bootstrap_mode(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            match self.0.recent_bootstrap_state().await {
                Ok(state) => Ok(state.bootstrap_mode),
                Err(AuthError::Store(error)) => Err(error),
                // Reading the state fails in no other way.
                Err(_) => Err(StoreError::Closed),
            }
        })
    }
}

/// Reports the owner's activity to the scheduler from the messages that the owner wrote.
pub(super) struct WrittenMessages(pub(super) Chat);

impl ActivitySource for WrittenMessages {
    fn activity_since(&self, since: Timestamp) -> BoxFuture<'_, Result<Vec<Activity>, StoreError>> {
        Box::pin(async move {
            let written = self.0.count_written(since, ACTIVITY_QUARTER_MICROS).await?;
            Ok(written.into_iter().map(|(at, count)| Activity { at, count }).collect())
        })
    }
}

/// Reports the depth of the hook delivery queue, which has a table of its own.
pub(super) struct HookDeliveries(pub(super) Hooks);

impl QueueReporter for HookDeliveries {
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
