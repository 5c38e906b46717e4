//! Storage layer shared by all domains; it contains no domain types.
//!
//! - [`Db`]: an SQLite file with a group-committing writer, or PostgreSQL shared by replicas, behind one interface with
//!   one SQL text per query.
//! - [`Tx`] and [`Read`]: statements, rows, and notifications sent after the commit.
//! - [`Snapshot`]: cached derived values that are never stale.
//!
//! Invariants: a write is acknowledged only after its commit; a failed closure leaves no changes and does not affect
//! others; no statement text contains an external value; parameters are never logged. Deliberately absent: an ORM, a
//! query builder, domain types.
//!
//! SQL uses the common subset of both databases: `$1` parameters, TEXT ids, BIGINT microseconds, booleans as BIGINT
//! 0/1, JSON as TEXT, `RETURNING`, `ON CONFLICT`. Large deletions hide rows immediately and purge them in batches, each
//! in its own transaction: `DELETE FROM t WHERE id IN (SELECT id FROM t WHERE … ORDER BY id LIMIT 500)`, repeated until
//! no row is deleted.

mod args;
mod changes;
mod db;
mod dialect;
mod dump;
mod error;
mod idempotency;
mod inspect;
mod job;
mod lock;
mod migrate;
mod outbox;
mod postgres;
mod queue;
mod read;
mod row;
mod rows;
mod schema;
mod server_clock;
mod shared;
mod snapshot;
mod sqlite;
#[cfg(feature = "testing")]
pub mod testing;
mod topic;
mod tx;
mod value;

pub use args::{Args, Sql};
pub use changes::{Change, ChangeLog, ChangesPage};
pub use db::{DatabaseUrl, Db, DbOptions};
pub use dialect::Dialect;
pub use dump::DumpSummary;
pub use error::{Cause, StoreError};
pub use idempotency::{IDEMPOTENCY_RETENTION, MAX_RESPONSES_PER_CREDENTIAL, Recorder, StoredRequest, StoredResponse};
pub use inspect::{Inspection, inspect, lock_holder};
pub use job::Durability;
pub use outbox::{CursorStart, Event, EventId, NewEvent, Seq};
pub use queue::{Enqueued, Item, ItemId, ItemStatus, Lease, NewItem, QueueStats};
pub use read::Read;
pub use row::Row;
pub use rows::{batch_size, in_list, row_placeholders};
pub use schema::{Migration, OWN_MIGRATIONS};
pub use server_clock::server_clock_offset;
pub use snapshot::Snapshot;
pub use topic::Topic;
pub use tx::Tx;
pub use value::{FromValue, IntoValue, Kind, Value, ValueError};
