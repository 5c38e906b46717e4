//! Last use of keys and sessions: recorded by requests without waiting, written by a worker.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::{Db, StoreError, Tx};
use agentd_web::CallerKind;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::auth::store;
use crate::auth::store::Hash;

/// Minimum interval between two writes of a credential's last use.
const WRITE_INTERVAL: Duration = Duration::from_secs(60);

/// Pending writes of last uses, bounded by the number of active credentials.
#[derive(Debug, Default)]
pub(crate) struct CredentialUses {
    pending: Mutex<HashMap<Hash, (CallerKind, Timestamp)>>,
    wake: Arc<Notify>,
}

/// Last recorded use of a credential.
#[derive(Debug)]
pub(super) struct LastUse(AtomicI64);

impl LastUse {
    pub(super) fn new(last_used: Option<Timestamp>) -> Self {
        Self(AtomicI64::new(last_used.map_or(i64::MIN, Timestamp::as_micros)))
    }
}

impl CredentialUses {
    /// Records a use. Costs an atomic read, and once a minute per credential a lock.
    pub(super) fn record(&self, kind: CallerKind, hash: &Hash, last_use: &LastUse, now: Timestamp) {
        let before = last_use.0.load(Ordering::Relaxed);
        if before != i64::MIN && now < Timestamp::from_micros(before) + WRITE_INTERVAL {
            return;
        }
        if last_use.0.compare_exchange(before, now.as_micros(), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.pending.lock().insert(*hash, (kind, now));
            self.wake.notify_one();
        }
    }

    pub(crate) fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }

    /// Writes the pending uses and returns their number.
    pub(crate) async fn write(&self, db: &Db) -> Result<usize, StoreError> {
        let pending: Vec<(Hash, (CallerKind, Timestamp))> = self.pending.lock().drain().collect();
        if pending.is_empty() {
            return Ok(0);
        }
        db.write_relaxed(async move |tx: &mut Tx| {
            tx.keep_version();
            for (hash, (kind, used_at)) in &pending {
                let not_after = *used_at - WRITE_INTERVAL;
                match kind {
                    CallerKind::Session => {
                        store::sessions::update_last_used(tx, hash, *used_at, not_after).await?;
                    }
                    _ => store::keys::update_last_used(tx, hash, *used_at, not_after).await?,
                }
            }
            Ok(pending.len())
        })
        .await
    }
}
