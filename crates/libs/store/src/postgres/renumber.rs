//! Renumbering of events from another server. Their order depends on transaction numbers. After a move to another
//! server (with `pg_dump`, for example), those may be ahead of the new server's numbers, which would hide events from
//! readers until it catches up. So events are renumbered once, in their existing order.

use crate::read::Read;
use crate::{StoreError, args};

/// Condition: a row has a transaction number that this server has not assigned yet.
pub(super) const HAS_FOREIGN_POSITIONS: &str = "(EXISTS (SELECT 1 FROM outbox \
     WHERE tx_id >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint) \
     OR EXISTS (SELECT 1 FROM cursors WHERE tx_id >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint))";

/// Statements that replace positions by row numbers in transaction 0, which precedes all future ones.
const STEPS: [&str; 8] = [
    "LOCK TABLE outbox, cursors IN EXCLUSIVE MODE",
    "UPDATE cursors SET tx_id = 0, seq = (SELECT COUNT(*) FROM outbox \
     WHERE (outbox.tx_id, outbox.seq) <= (cursors.tx_id, cursors.seq))",
    // Negative first, to avoid collisions with old numbers.
    "UPDATE outbox SET tx_id = 0, seq = -placed.place FROM \
     (SELECT id, row_number() OVER (ORDER BY tx_id, seq) AS place FROM outbox) AS placed WHERE placed.id = outbox.id",
    "UPDATE outbox SET seq = -seq",
    "SELECT setval(pg_get_serial_sequence('outbox', 'seq'), COALESCE(MAX(seq), 0) + 1, false) FROM outbox",
    // Readers of change logs start over under the new database id.
    "DO $$ BEGIN IF to_regclass('changes') IS NOT NULL THEN DELETE FROM changes; END IF; END $$",
    "DELETE FROM store_info WHERE name LIKE 'changes.%'",
    "UPDATE store_info SET value = md5(random()::text || clock_timestamp()::text) WHERE name = 'database_id'",
];

/// Renumbers events if necessary. The caller excludes other replicas.
pub(super) async fn renumber(read: &mut Read) -> Result<(), StoreError> {
    if !has_foreign_positions(read).await? {
        return Ok(());
    }
    tracing::info!("database was moved from another server; renumbering events");
    read.script("BEGIN").await?;
    for step in STEPS {
        if let Err(error) = read.run(step.into(), args![]).await {
            let _ = read.script("ROLLBACK").await;
            return Err(error);
        }
    }
    read.script("COMMIT").await
}

async fn has_foreign_positions(read: &mut Read) -> Result<bool, StoreError> {
    read.fetch_one(format!("SELECT {HAS_FOREIGN_POSITIONS} AS has_foreign_positions"), args![])
        .await?
        .get("has_foreign_positions")
}
