//! Renews the leases of turns that run in this process and polls for cancellations.

use std::error::Error as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use agentd_store::{Durability, StoreError, Tx};
use tokio::sync::watch;

use super::resume;
use crate::engine::error::EngineError;
use crate::engine::live::Stop;
use crate::engine::state::{EngineState, LEASE_DURATION};
use crate::engine::store;

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// Delay after a failed renewal.
const RETRY_DELAY: Duration = Duration::from_secs(1);
pub(crate) const WAKE_BATCH_SIZE: u32 = 50;

impl EngineState {
    /// Starts the supervisor that renews leases and polls cancellations, at most once. A daemon that never runs a turn
    /// does not need it.
    pub(crate) fn supervise(self: &Arc<Self>) {
        if self.is_supervised.swap(true, Ordering::AcqRel) {
            return;
        }
        let cancels = self.context.db.watch(store::CANCELS);
        let engine = Arc::downgrade(self);
        let run = async |engine: Weak<EngineState>, mut cancels: watch::Receiver<u64>| {
            let mut heartbeat = tokio::time::interval(HEARTBEAT_INTERVAL);
            heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                let is_cancel = tokio::select! {
                    // A continuous stream of cancellations must not keep leases from being renewed.
                    biased;
                    _ = heartbeat.tick() => false,
                    changed = cancels.changed() => match changed {
                        Ok(()) => true,
                        Err(_) => return,
                    },
                };
                let Some(engine) = engine.upgrade() else { return };
                if engine.live.count() == 0 && !is_cancel {
                    continue;
                }
                let outcome = if is_cancel { engine.poll_cancellations().await } else { engine.renew_leases().await };
                if let Err(error) = outcome {
                    tracing::warn!(%error, source = error.source().map(tracing::field::display), "failed to renew leases or poll cancellations");
                    if !is_cancel {
                        // Other replicas take over turns whose lease expires.
                        heartbeat.reset_after(RETRY_DELAY);
                    }
                }
            }
        };
        let work = move || run(engine.clone(), cancels.clone());
        self.context.supervise("engine.supervisor", work);
    }

    async fn renew_leases(&self) -> Result<(), EngineError> {
        let owner = self.holder.as_str().to_owned();
        let providers = self.providers.clone();
        let renew = async move |tx: &mut Tx| {
            store::renew_leases(tx, &owner, LEASE_DURATION).await?;
            providers.renew_reservations(tx).await
        };
        // The statement locks the rows that it renews. Under serializable isolation it would conflict with every turn
        // that starts or ends.
        Ok(self.context.db.write_locking::<_, StoreError, _>(Durability::Relaxed, renew).await?)
    }

    async fn poll_cancellations(self: &Arc<Self>) -> Result<(), EngineError> {
        let mut read = self.context.db.read().await?;
        for id in store::list_cancelled(&mut read, self.holder.as_str()).await? {
            if let Some(live) = self.live.find(&id) {
                live.stop(Stop::Cancel);
            }
        }
        // Parked turns have no owner: any replica may end them.
        let waiting = store::parked::list_decided(&mut read, WAKE_BATCH_SIZE).await?;
        drop(read);
        resume::wake_all(self, &waiting).await.map(|_| ())
    }
}
