//! Leased work queue: items are claimed, processed and recorded, and survive crashes.
//!
//! | from | by | to |
//! |---|---|---|
//! | – | [`Tx::enqueue`] | pending |
//! | pending and due, or lease expired | [`Tx::claim`] | leased, attempt + 1 |
//! | lease expired, no attempts left | [`Tx::claim`] | dead_letter |
//! | leased | [`Tx::heartbeat`] | lease extended |
//! | leased | [`Tx::complete`] | done |
//! | leased | [`Tx::fail`] | pending later, or dead_letter after the last attempt |
//! | leased | [`Tx::release`] | pending immediately, attempt not counted |
//! | dead_letter | [`Tx::retry_dead_letter`] | pending, attempt count reset |
//!
//! Every change by a lease holder is fenced by owner and a claim counter that only increases. A holder that lost its
//! lease gets `StoreError::LostLease` and changes nothing. A completed or dead-lettered item keeps its deduplication
//! key until it is purged.

mod model;

use std::time::Duration;

use agentd_base::{Backoff, Timestamp, trace};

use self::model::LANE_END;
pub use self::model::{Enqueued, Item, ItemId, ItemStatus, Lease, NewItem, QueueStats};
use crate::read::Read;
use crate::{Args, Db, StoreError, Tx, args};

/// Maximum length of a stored error text.
const MAX_ERROR_BYTES: usize = 2_000;

const COLUMNS: &str = "id, queue, dedup_key, payload, status, run_at, due_at, attempt, fence, max_attempts, owner, error, traceparent, created_at, updated_at";

impl Tx {
    /// Adds an item unless one with its deduplication key exists.
    pub async fn enqueue(&mut self, item: NewItem) -> Result<Enqueued, StoreError> {
        let id = ItemId::generate(self.ids());
        let now = self.clock().now();
        let wake = signal_name(&item.queue);
        let added = self
            .execute(
                "INSERT INTO queue (id, queue, dedup_key, payload, status, run_at, due_at, attempt, fence, max_attempts, \
                 created_at, updated_at, traceparent) VALUES ($1, $2, $3, $4, 'pending', $5, $5, 0, 0, $6, $7, $7, $8) \
                 ON CONFLICT (queue, dedup_key) DO NOTHING",
                args![
                    &id,
                    &item.queue,
                    &item.dedup_key,
                    item.payload,
                    item.run_at,
                    item.max_attempts.max(1),
                    now,
                    trace::current()
                ],
            )
            .await?;
        if added == 1 {
            self.wake(wake);
            return Ok(Enqueued::New(id));
        }
        let row = self
            .fetch_one("SELECT id FROM queue WHERE queue = $1 AND dedup_key = $2", args![item.queue, item.dedup_key])
            .await?;
        Ok(Enqueued::Existing(row.get("id")?))
    }

    /// Leases up to `limit` due items to `owner`, longest overdue first. An item that is not completed, failed or
    /// extended in time can be claimed again. Prefer [`Db::claim`] on PostgreSQL, which never conflicts.
    pub async fn claim(
        &mut self,
        queue: &str,
        owner: &str,
        limit: u32,
        lease: Duration,
    ) -> Result<Vec<Lease>, StoreError> {
        self.claim_excluding_lanes(queue, owner, limit, lease, &[]).await
    }

    /// Like [`claim`](Self::claim), but skips the items of `lanes`.
    pub async fn claim_excluding_lanes(
        &mut self,
        queue: &str,
        owner: &str,
        limit: u32,
        lease: Duration,
        lanes: &[String],
    ) -> Result<Vec<Lease>, StoreError> {
        let now = self.clock().now();
        let mut values = args![queue, now, limit, owner, now + lease];
        let outside: String = lanes
            .iter()
            .map(|lane| {
                let prefix = values.push(format!("{lane}{LANE_END}"));
                format!(" AND SUBSTR(COALESCE(dedup_key, ''), 1, LENGTH(${prefix})) <> ${prefix}")
            })
            .collect();
        let sql = format!(
            "WITH due AS MATERIALIZED (SELECT id FROM queue WHERE queue = $1 AND status IN ('pending', 'leased') \
             AND due_at <= $2{outside} ORDER BY due_at, id LIMIT $3 {skip_locked}) \
             UPDATE queue SET status = 'leased', owner = $4, attempt = attempt + 1, fence = fence + 1, \
             due_at = $5, updated_at = $2 \
             WHERE id IN (SELECT id FROM due) RETURNING {COLUMNS}",
            skip_locked = self.dialect().skip_locked(),
        );
        let rows = self.fetch_all(sql, values).await?;
        let mut leases = Vec::with_capacity(rows.len());
        for row in rows {
            let item = Item::from_row(&row)?;
            if item.attempt > item.max_attempts {
                self.execute(
                    "UPDATE queue SET status = 'dead_letter', owner = NULL, attempt = attempt - 1, \
                     error = 'the last attempt ended without a result' WHERE id = $1",
                    args![&item.id],
                )
                .await?;
            } else {
                leases.push(item.into_lease(owner));
            }
        }
        leases.sort_by(|a, b| (a.run_at, &a.id).cmp(&(b.run_at, &b.id)));
        Ok(leases)
    }

    /// Extends a lease to `extension` from now.
    ///
    /// # Errors
    /// `StoreError::LostLease` if the item was claimed by another owner.
    pub async fn heartbeat(&mut self, lease: &Lease, extension: Duration) -> Result<(), StoreError> {
        let now = self.clock().now();
        self.update_leased(lease, "due_at = $4, updated_at = $5", args![now + extension, now]).await
    }

    /// Completes an item.
    ///
    /// # Errors
    /// `StoreError::LostLease` if the item was claimed by another owner.
    pub async fn complete(&mut self, lease: &Lease) -> Result<(), StoreError> {
        let now = self.clock().now();
        self.update_leased(lease, "status = 'done', owner = NULL, error = NULL, updated_at = $4", args![now]).await
    }

    /// Records a failed attempt: the item is retried after its backoff, or dead-lettered after its last attempt.
    /// Returns the time of the next attempt.
    ///
    /// # Errors
    /// `StoreError::LostLease` if the item was claimed by another owner.
    pub async fn fail(
        &mut self,
        lease: &Lease,
        error: &str,
        backoff: &Backoff,
    ) -> Result<Option<Timestamp>, StoreError> {
        let unit = self.shared.entropy.unit();
        let delay = backoff.delay(lease.attempt, unit);
        self.fail_for(lease, error, delay).await
    }

    /// Like [`fail`](Self::fail), with a delay given by the failure itself (`Retry-After`).
    ///
    /// # Errors
    /// `StoreError::LostLease` if the item was claimed by another owner.
    pub async fn fail_for(
        &mut self,
        lease: &Lease,
        error: &str,
        delay: Duration,
    ) -> Result<Option<Timestamp>, StoreError> {
        if lease.attempt >= lease.max_attempts {
            self.dead_letter(lease, error).await?;
            return Ok(None);
        }
        let now = self.clock().now();
        let again = now + delay;
        self.update_leased(
            lease,
            "status = 'pending', owner = NULL, run_at = $4, due_at = $4, error = $5, updated_at = $6",
            args![again, truncate_error(error), now],
        )
        .await?;
        Ok(Some(again))
    }

    /// Dead-letters an item immediately, for failures that a retry cannot fix.
    ///
    /// # Errors
    /// `StoreError::LostLease` if the item was claimed by another owner.
    pub async fn dead_letter(&mut self, lease: &Lease, error: &str) -> Result<(), StoreError> {
        let now = self.clock().now();
        self.update_leased(
            lease,
            "status = 'dead_letter', owner = NULL, error = $4, updated_at = $5",
            args![truncate_error(error), now],
        )
        .await
    }

    /// Releases an item without counting the attempt, for example at shutdown.
    ///
    /// # Errors
    /// `StoreError::LostLease` if the item was claimed by another owner.
    pub async fn release(&mut self, lease: &Lease) -> Result<(), StoreError> {
        let now = self.clock().now();
        self.update_leased(
            lease,
            "status = 'pending', owner = NULL, due_at = $4, attempt = attempt - 1, updated_at = $4",
            args![now],
        )
        .await?;
        self.wake(signal_name(&lease.queue));
        Ok(())
    }

    /// Applies a change if the caller still holds the lease. `$1` to `$3` are the fence.
    async fn update_leased(&mut self, lease: &Lease, change: &'static str, values: Args) -> Result<(), StoreError> {
        let mut args = args![&lease.id, &lease.owner, lease.fence];
        args.append(values);
        let sql =
            format!("UPDATE queue SET {change} WHERE id = $1 AND status = 'leased' AND owner = $2 AND fence = $3");
        match self.execute(sql, args).await? {
            0 => Err(StoreError::LostLease { item: lease.id.to_string() }),
            _ => Ok(()),
        }
    }

    /// Makes a dead letter pending with a fresh attempt count; returns whether it was dead-lettered.
    pub async fn retry_dead_letter(&mut self, id: &ItemId) -> Result<bool, StoreError> {
        let now = self.clock().now();
        let row = self
            .fetch_optional(
                "UPDATE queue SET status = 'pending', run_at = $2, due_at = $2, attempt = 0, \
                 updated_at = $2 \
                 WHERE id = $1 AND status = 'dead_letter' RETURNING queue",
                args![id, now],
            )
            .await?;
        let Some(row) = row else { return Ok(false) };
        let queue: String = row.get("queue")?;
        self.wake(signal_name(&queue));
        Ok(true)
    }

    /// Deletes an item in any state except leased; returns whether it existed.
    pub async fn remove_item(&mut self, id: &ItemId) -> Result<bool, StoreError> {
        Ok(self.execute("DELETE FROM queue WHERE id = $1 AND status <> 'leased'", args![id]).await? > 0)
    }

    /// Deletes up to `limit` items of a queue that ended in `status` before `before`, and returns their number. Call
    /// until the number is below `limit`.
    pub async fn purge_queue(
        &mut self,
        queue: &str,
        status: ItemStatus,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64, StoreError> {
        if !matches!(status, ItemStatus::Done | ItemStatus::DeadLetter) {
            return Ok(0);
        }
        self.execute(
            "DELETE FROM queue WHERE id IN (SELECT id FROM queue WHERE queue = $1 AND status = $2 \
             AND status IN ('done', 'dead_letter') AND updated_at < $3 ORDER BY updated_at LIMIT $4)",
            args![queue, status, before, limit],
        )
        .await
    }
}

impl Read {
    pub async fn find_item(&mut self, id: &ItemId) -> Result<Option<Item>, StoreError> {
        let row = self.fetch_optional(format!("SELECT {COLUMNS} FROM queue WHERE id = $1"), args![id]).await?;
        row.as_ref().map(Item::from_row).transpose()
    }

    /// Counts the items of a queue by state.
    pub async fn queue_stats(&mut self, queue: &str) -> Result<QueueStats, StoreError> {
        let rows = self
            .fetch_all("SELECT status, COUNT(*) AS items FROM queue WHERE queue = $1 GROUP BY status", args![queue])
            .await?;
        let mut stats = QueueStats::default();
        for row in rows {
            let items = row.get("items")?;
            match row.get("status")? {
                ItemStatus::Pending => stats.pending = items,
                ItemStatus::Leased => stats.leased = items,
                ItemStatus::Done => stats.done = items,
                ItemStatus::DeadLetter => stats.dead_letter = items,
            }
        }
        Ok(stats)
    }

    /// Returns when the next pending or leased item of a queue is due: the time a worker may sleep unless it is woken.
    pub async fn next_due(&mut self, queue: &str) -> Result<Option<Timestamp>, StoreError> {
        let row = self
            .fetch_one(
                "SELECT MIN(due_at) AS due_at FROM queue WHERE queue = $1 AND status IN ('pending', 'leased')",
                args![queue],
            )
            .await?;
        row.get("due_at")
    }
}

impl Db {
    /// Runs [`Tx::claim`] in its own transaction with the appropriate isolation.
    pub async fn claim(&self, queue: &str, owner: &str, limit: u32, lease: Duration) -> Result<Vec<Lease>, StoreError> {
        self.claim_excluding_lanes(queue, owner, limit, lease, Vec::new()).await
    }

    /// Runs [`Tx::claim_excluding_lanes`] in its own transaction.
    pub async fn claim_excluding_lanes(
        &self,
        queue: &str,
        owner: &str,
        limit: u32,
        lease: Duration,
        lanes: Vec<String>,
    ) -> Result<Vec<Lease>, StoreError> {
        use crate::job::{Durability, Isolation, Plan};
        let (queue, owner) = (queue.to_owned(), owner.to_owned());
        // A claim lost in a power failure is simply repeated.
        let plan = Plan { durability: Durability::Relaxed, isolation: Isolation::ReadCommitted };
        self.run(plan, async move |tx: &mut Tx| tx.claim_excluding_lanes(&queue, &owner, limit, lease, &lanes).await)
            .await
    }

    /// Watches a queue for work. It is only a wake-up hint; [`Read::next_due`] returns how long to sleep.
    #[must_use]
    pub fn watch_queue(&self, queue: &str) -> tokio::sync::watch::Receiver<u64> {
        self.shared().signals.watch(signal_name(queue))
    }
}

fn signal_name(queue: &str) -> String {
    format!("queue.{queue}")
}

fn truncate_error(error: &str) -> String {
    // NUL cannot be stored; recording an error must not fail because of one.
    error[..error.floor_char_boundary(MAX_ERROR_BYTES)].replace('\0', "\u{fffd}")
}
