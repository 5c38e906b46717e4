//! Keeps hold of the turns that run here, and hears of those that are to end.

use std::error::Error as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use agentd_store::{Durability, StoreError, Tx};
use tokio::sync::watch;

use super::resume;
use crate::engine::error::EngineError;
use crate::engine::live::Stop;
use crate::engine::state::{EngineState, LEASE};
use crate::engine::store;

const HEARTBEAT: Duration = Duration::from_secs(10);
/// After a renewal that failed.
const RETRY: Duration = Duration::from_secs(1);
pub(crate) const WOKEN_A_BATCH: u32 = 50;

impl EngineState {
    /// Starts, once, what renews leases and hears of cancellations. A daemon that never runs a
    /// turn has nothing to supervise.
    pub(crate) fn supervise(self: &Arc<Self>) {
        if self.is_supervised.swap(true, Ordering::AcqRel) {
            return;
        }
        let cancels = self.context.db.watch(store::CANCELS);
        let engine = Arc::downgrade(self);
        let look_after = async |engine: Weak<EngineState>, mut cancels: watch::Receiver<u64>| {
            let mut heartbeat = tokio::time::interval(HEARTBEAT);
            heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                let is_cancel = tokio::select! {
                    // Cancellations that come without an end must not keep leases from being renewed.
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
                let outcome = if is_cancel { engine.hear_cancels().await } else { engine.renew_leases().await };
                if let Err(error) = outcome {
                    tracing::warn!(%error, source = error.source().map(tracing::field::display), "running sessions cannot be looked after now");
                    if !is_cancel {
                        // Others take over what is not renewed in time.
                        heartbeat.reset_after(RETRY);
                    }
                }
            }
        };
        let work = move || look_after(engine.clone(), cancels.clone());
        self.context.supervise("engine.supervisor", work);
    }

    async fn renew_leases(&self) -> Result<(), EngineError> {
        let owner = self.holder.as_str().to_owned();
        let providers = self.providers.clone();
        let renew = async move |tx: &mut Tx| {
            store::renew_leases(tx, &owner, LEASE).await?;
            providers.renew_reservations(tx).await
        };
        // It names the rows that it renews, and collides with every turn that begins or ends if it depends on all others.
        Ok(self.context.db.write_locking::<_, StoreError, _>(Durability::Relaxed, renew).await?)
    }

    async fn hear_cancels(self: &Arc<Self>) -> Result<(), EngineError> {
        let mut read = self.context.db.read().await?;
        for id in store::list_cancelled(&mut read, self.holder.as_str()).await? {
            if let Some(live) = self.live.find(&id) {
                live.stop(Stop::Cancel);
            }
        }
        // Those that wait are held by nobody: any replica may end them.
        let waiting = store::parked::list_decided(&mut read, WOKEN_A_BATCH).await?;
        drop(read);
        resume::wake_all(self, &waiting).await.map(|_| ())
    }
}
