//! Quiescing of the daemon for a restore.

use std::time::Duration;

use agentd_core::runtime::{Slot, Slots, WorkerPause};
use agentd_engine::engine::Engine;
use agentd_integrations::devices::Devices;
use agentd_operations::backup::Quiesce;
use agentd_operations::monitoring::Readiness;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// Maximum time for running replies; then they are interrupted.
const REPLY_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum time for requests in flight.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum time for workers to pause. One bounded piece of work takes less.
const WORKER_TIMEOUT: Duration = Duration::from_secs(15);

/// Marks the daemon as not ready and waits until nothing accesses its data.
pub(super) struct QuiesceDaemon {
    readiness: Readiness,
    workers: WorkerPause,
    /// Filled later: these services are composed after the backup service.
    turns: Slot<(Engine, Devices)>,
}

impl QuiesceDaemon {
    pub(super) fn new(readiness: Readiness, workers: WorkerPause, slots: &mut Slots) -> Self {
        Self { readiness, workers, turns: slots.create() }
    }
}

impl Quiesce for QuiesceDaemon {
    fn quiesce(&self) -> BoxFuture<'_, Result<Box<dyn Send + Sync>, String>> {
        async {
            let restoring = self
                .readiness
                .begin_restore()
                .ok_or_else(|| "the daemon is starting, shutting down, or already restoring".to_owned())?;
            // Requests first, because an admitted request may still start a turn.
            if !self.readiness.wait_until_quiet(REQUEST_TIMEOUT).await {
                return Err(format!("requests in flight did not finish within {} seconds", REQUEST_TIMEOUT.as_secs()));
            }
            let mut sockets = None;
            if let Some((engine, devices)) = self.turns.get().map(|turns| &**turns) {
                // Messages on device sockets are not requests and may start turns as well.
                sockets = Some(devices.pause().await);
                engine.drain(REPLY_TIMEOUT).await;
            }
            let Ok(paused) = tokio::time::timeout(WORKER_TIMEOUT, self.workers.begin()).await else {
                return Err(format!("a background worker did not pause within {} seconds", WORKER_TIMEOUT.as_secs()));
            };
            let quiesced: Box<dyn Send + Sync> = Box::new((sockets, restoring, paused));
            Ok(quiesced)
        }
        .boxed()
    }
}
