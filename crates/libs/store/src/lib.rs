//! Storage for every domain. It knows none of them.
//!
//! - [`Db`]: one SQLite file with a group-committing writer, or PostgreSQL shared by replicas, behind
//!   one interface and one SQL text a query.
//! - [`Tx`] and [`Read`]: statements, rows, and what is told to others after the commit.
//! - [`Snapshot`]: cached derived values that are never stale.
//!
//! Invariants: nothing is acknowledged before it is committed; a closure that fails leaves nothing
//! behind and harms no other; no statement text holds a value from outside; nothing here logs a
//! parameter. Deliberately absent: an ORM, a query builder, domain types.
//!
//! SQL is written in what both databases share: `$1` parameters, TEXT ids, BIGINT microseconds,
//! booleans as BIGINT 0/1, JSON as TEXT, `RETURNING`, `ON CONFLICT`. Large deletions hide rows at
//! once and purge them in batches, each a transaction of its own:
//! `DELETE FROM t WHERE id IN (SELECT id FROM t WHERE … ORDER BY id LIMIT 500)` until it answers 0.

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
pub use idempotency::{IDEMPOTENCY_KEPT, IDEMPOTENCY_PER_CREDENTIAL, Recorder, StoredAnswer, StoredRequest};
pub use inspect::{Inspection, inspect, lock_holder};
pub use job::Durability;
pub use outbox::{CursorStart, Event, EventId, NewEvent, Seq};
pub use queue::{Enqueued, Item, ItemId, ItemStatus, Lease, NewItem, QueueStats};
pub use read::Read;
pub use row::Row;
pub use rows::{batch_of, in_list, rows_of};
pub use schema::{Migration, OWN_MIGRATIONS};
pub use server_clock::server_clock_ahead;
pub use snapshot::Snapshot;
pub use topic::Topic;
pub use tx::Tx;
pub use value::{FromValue, IntoValue, Kind, Value, ValueError};
