//! How the daemon comes to rest for a restore.

use std::time::Duration;

use agentd_core::runtime::{Slot, Slots, WorkerPause};
use agentd_engine::engine::Engine;
use agentd_integrations::devices::Devices;
use agentd_operations::backup::Quiesce;
use agentd_operations::monitoring::Readiness;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// Replies under way have this long to end; then they are interrupted.
const REPLY_LIMIT: Duration = Duration::from_secs(15);
/// Requests under way have this long to be answered.
const REQUEST_LIMIT: Duration = Duration::from_secs(15);

/// A worker does one bounded piece of work at a time, which takes less than this.
const WORKER_LIMIT: Duration = Duration::from_secs(15);

/// Makes the daemon unready and waits until nothing works on its data.
pub(super) struct Rest {
    readiness: Readiness,
    workers: WorkerPause,
    /// Composed after what needs the rest.
    turns: Slot<(Engine, Devices)>,
}

impl Rest {
    pub(super) fn new(readiness: Readiness, workers: WorkerPause, slots: &mut Slots) -> Self {
        Self { readiness, workers, turns: slots.create() }
    }
}

impl Quiesce for Rest {
    fn quiesce(&self) -> BoxFuture<'_, Result<Box<dyn Send + Sync>, String>> {
        async {
            let restoring = self
                .readiness
                .begin_restore()
                .ok_or_else(|| "it is starting, going down, or in another restore".to_owned())?;
            // Requests first: one that was let in before may still start a turn.
            if !self.readiness.wait_until_quiet(REQUEST_LIMIT).await {
                return Err(format!("requests under way did not end within {} seconds", REQUEST_LIMIT.as_secs()));
            }
            let mut sockets = None;
            if let Some((engine, devices)) = self.turns.get().map(|turns| &**turns) {
                // What comes over a socket is no request, and may start a turn as well.
                sockets = Some(devices.pause().await);
                engine.drain(REPLY_LIMIT).await;
            }
            let Ok(paused) = tokio::time::timeout(WORKER_LIMIT, self.workers.begin()).await else {
                return Err(format!("a background worker did not pause within {} seconds", WORKER_LIMIT.as_secs()));
            };
            let at_rest: Box<dyn Send + Sync> = Box::new((sockets, restoring, paused));
            Ok(at_rest)
        }
        .boxed()
    }
}
