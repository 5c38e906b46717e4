//! Events of another server. Their order goes by the numbers of the transactions that made them;
//! when a database was moved to another server (by `pg_dump`, say), those may lie ahead of the new
//! server's own, and events and cursors would stand still until it catches up. So they are numbered
//! anew, once, in the order they had.

use crate::read::Read;
use crate::{StoreError, args};

/// True if a row has a transaction number that this server has not given out yet.
pub(super) const IS_FOREIGN: &str = "(EXISTS (SELECT 1 FROM outbox \
     WHERE tx_id >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint) \
     OR EXISTS (SELECT 1 FROM cursors WHERE tx_id >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint))";

/// Each row's place takes the number's role; transaction 0 is before all that is to come.
const STEPS: [&str; 8] = [
    "LOCK TABLE outbox, cursors IN EXCLUSIVE MODE",
    "UPDATE cursors SET tx_id = 0, seq = (SELECT COUNT(*) FROM outbox \
     WHERE (outbox.tx_id, outbox.seq) <= (cursors.tx_id, cursors.seq))",
    // Negative first: the new numbers must not meet the old ones.
    "UPDATE outbox SET tx_id = 0, seq = -placed.place FROM \
     (SELECT id, row_number() OVER (ORDER BY tx_id, seq) AS place FROM outbox) AS placed WHERE placed.id = outbox.id",
    "UPDATE outbox SET seq = -seq",
    "SELECT setval(pg_get_serial_sequence('outbox', 'seq'), COALESCE(MAX(seq), 0) + 1, false) FROM outbox",
    // Who reads those begins anew under another id of the database.
    "DO $$ BEGIN IF to_regclass('changes') IS NOT NULL THEN DELETE FROM changes; END IF; END $$",
    "DELETE FROM store_info WHERE name LIKE 'changes.%'",
    "UPDATE store_info SET value = md5(random()::text || clock_timestamp()::text) WHERE name = 'database_id'",
];

/// Numbers anew. The caller keeps other replicas from doing the same.
pub(super) async fn renumber(read: &mut Read) -> Result<(), StoreError> {
    if !is_foreign(read).await? {
        return Ok(());
    }
    tracing::info!("this database comes from another server: numbering its events anew");
    read.script("BEGIN").await?;
    for step in STEPS {
        if let Err(error) = read.run(step.into(), args![]).await {
            let _ = read.script("ROLLBACK").await;
            return Err(error);
        }
    }
    read.script("COMMIT").await
}

async fn is_foreign(read: &mut Read) -> Result<bool, StoreError> {
    read.fetch_one(format!("SELECT {IS_FOREIGN} AS is_foreign"), args![]).await?.get("is_foreign")
}
