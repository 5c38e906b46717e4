//! The storage ground for every domain. It knows none of them.
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
pub use migrate::Migration;
pub use outbox::{CursorStart, Event, EventId, NewEvent, Seq};
pub use queue::{Enqueued, Item, ItemId, ItemStatus, Lease, NewItem, QueueStats};
pub use read::Read;
pub use row::Row;
pub use rows::{batch_of, in_list, rows_of};
pub use server_clock::server_clock_ahead;
pub use snapshot::Snapshot;
pub use topic::Topic;
pub use tx::Tx;
pub use value::{FromValue, IntoValue, Kind, Value, ValueError};

/// Every step of the schema, the domains' included.
pub const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "store",
        sqlite: include_str!("../migrations/sqlite/0001_store.sql"),
        postgres: include_str!("../migrations/postgres/0001_store.sql"),
    },
    Migration {
        version: 2,
        name: "settings",
        sqlite: include_str!("../migrations/sqlite/0002_settings.sql"),
        postgres: include_str!("../migrations/postgres/0002_settings.sql"),
    },
    Migration {
        version: 3,
        name: "auth",
        sqlite: include_str!("../migrations/sqlite/0003_auth.sql"),
        postgres: include_str!("../migrations/postgres/0003_auth.sql"),
    },
    Migration {
        version: 4,
        name: "providers",
        sqlite: include_str!("../migrations/sqlite/0004_providers.sql"),
        postgres: include_str!("../migrations/postgres/0004_providers.sql"),
    },
    Migration {
        version: 5,
        name: "agents",
        sqlite: include_str!("../migrations/sqlite/0005_agents.sql"),
        postgres: include_str!("../migrations/postgres/0005_agents.sql"),
    },
    Migration {
        version: 6,
        name: "engine",
        sqlite: include_str!("../migrations/sqlite/0006_engine.sql"),
        postgres: include_str!("../migrations/postgres/0006_engine.sql"),
    },
    Migration {
        version: 7,
        name: "chat",
        sqlite: include_str!("../migrations/sqlite/0007_chat.sql"),
        postgres: include_str!("../migrations/postgres/0007_chat.sql"),
    },
    Migration {
        version: 8,
        name: "tools",
        sqlite: include_str!("../migrations/sqlite/0008_tools.sql"),
        postgres: include_str!("../migrations/postgres/0008_tools.sql"),
    },
    Migration {
        version: 9,
        name: "message_cuts",
        sqlite: include_str!("../migrations/sqlite/0009_message_cuts.sql"),
        postgres: include_str!("../migrations/postgres/0009_message_cuts.sql"),
    },
    Migration {
        version: 10,
        name: "notify",
        sqlite: include_str!("../migrations/sqlite/0010_notify.sql"),
        postgres: include_str!("../migrations/postgres/0010_notify.sql"),
    },
    Migration {
        version: 11,
        name: "skills",
        sqlite: include_str!("../migrations/sqlite/0011_skills.sql"),
        postgres: include_str!("../migrations/postgres/0011_skills.sql"),
    },
    Migration {
        version: 12,
        name: "evolution",
        sqlite: include_str!("../migrations/sqlite/0012_evolution.sql"),
        postgres: include_str!("../migrations/postgres/0012_evolution.sql"),
    },
    Migration {
        version: 13,
        name: "devices",
        sqlite: include_str!("../migrations/sqlite/0013_devices.sql"),
        postgres: include_str!("../migrations/postgres/0013_devices.sql"),
    },
    Migration {
        version: 14,
        name: "tool_servers",
        sqlite: include_str!("../migrations/sqlite/0014_tool_servers.sql"),
        postgres: include_str!("../migrations/postgres/0014_tool_servers.sql"),
    },
    Migration {
        version: 15,
        name: "changes",
        sqlite: include_str!("../migrations/sqlite/0015_changes.sql"),
        postgres: include_str!("../migrations/postgres/0015_changes.sql"),
    },
    Migration {
        version: 16,
        name: "memory",
        sqlite: include_str!("../migrations/sqlite/0016_memory.sql"),
        postgres: include_str!("../migrations/postgres/0016_memory.sql"),
    },
    Migration {
        version: 17,
        name: "scheduler",
        sqlite: include_str!("../migrations/sqlite/0017_scheduler.sql"),
        postgres: include_str!("../migrations/postgres/0017_scheduler.sql"),
    },
    Migration {
        version: 18,
        name: "hooks",
        sqlite: include_str!("../migrations/sqlite/0018_hooks.sql"),
        postgres: include_str!("../migrations/postgres/0018_hooks.sql"),
    },
    Migration {
        version: 19,
        name: "webhooks",
        sqlite: include_str!("../migrations/sqlite/0019_webhooks.sql"),
        postgres: include_str!("../migrations/postgres/0019_webhooks.sql"),
    },
    Migration {
        version: 20,
        name: "job_projects",
        sqlite: include_str!("../migrations/sqlite/0020_job_projects.sql"),
        postgres: include_str!("../migrations/postgres/0020_job_projects.sql"),
    },
    Migration {
        version: 21,
        name: "proactive",
        sqlite: include_str!("../migrations/sqlite/0021_proactive.sql"),
        postgres: include_str!("../migrations/postgres/0021_proactive.sql"),
    },
    Migration {
        version: 22,
        name: "scheduler_counts",
        sqlite: include_str!("../migrations/sqlite/0022_scheduler_counts.sql"),
        postgres: include_str!("../migrations/postgres/0022_scheduler_counts.sql"),
    },
    Migration {
        version: 23,
        name: "memory_forgotten",
        sqlite: include_str!("../migrations/sqlite/0023_memory_forgotten.sql"),
        postgres: include_str!("../migrations/postgres/0023_memory_forgotten.sql"),
    },
    Migration {
        version: 24,
        name: "device_conversations",
        sqlite: include_str!("../migrations/sqlite/0024_device_conversations.sql"),
        postgres: include_str!("../migrations/postgres/0024_device_conversations.sql"),
    },
    Migration {
        version: 25,
        name: "memory_toggles",
        sqlite: include_str!("../migrations/sqlite/0025_memory_toggles.sql"),
        postgres: include_str!("../migrations/postgres/0025_memory_toggles.sql"),
    },
];
