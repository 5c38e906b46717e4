//! When keys and sessions were last used: noted on the request's path without waiting, written by a worker.

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

/// A credential's last use is written at most once in this time.
const WRITTEN_EVERY: Duration = Duration::from_secs(60);

/// Uses that are to be written. Bounded by the number of credentials in force.
#[derive(Debug, Default)]
pub(crate) struct CredentialUses {
    pending: Mutex<HashMap<Hash, (CallerKind, Timestamp)>>,
    wake: Arc<Notify>,
}

/// What is known of one credential's last use.
#[derive(Debug)]
pub(super) struct NotedUse(AtomicI64);

impl NotedUse {
    pub(super) fn new(last_used: Option<Timestamp>) -> Self {
        Self(AtomicI64::new(last_used.map_or(i64::MIN, Timestamp::as_micros)))
    }
}

impl CredentialUses {
    /// Notes a use. Costs an atomic read, once a minute a credential also a lock.
    pub(super) fn note(&self, kind: CallerKind, hash: &Hash, noted: &NotedUse, now: Timestamp) {
        let before = noted.0.load(Ordering::Relaxed);
        if before != i64::MIN && now < Timestamp::from_micros(before) + WRITTEN_EVERY {
            return;
        }
        if noted.0.compare_exchange(before, now.as_micros(), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.pending.lock().insert(*hash, (kind, now));
            self.wake.notify_one();
        }
    }

    pub(crate) fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }

    /// Writes what was noted; `true` when something was.
    pub(crate) async fn write(&self, db: &Db) -> Result<usize, StoreError> {
        let noted: Vec<(Hash, (CallerKind, Timestamp))> = self.pending.lock().drain().collect();
        if noted.is_empty() {
            return Ok(0);
        }
        db.write_relaxed(async move |tx: &mut Tx| {
            tx.keep_version();
            for (hash, (kind, used_at)) in &noted {
                let not_after = *used_at - WRITTEN_EVERY;
                match kind {
                    CallerKind::Session => {
                        store::sessions::update_last_used(tx, hash, *used_at, not_after).await?;
                    }
                    _ => store::keys::update_last_used(tx, hash, *used_at, not_after).await?,
                }
            }
            Ok(noted.len())
        })
        .await
    }
}
