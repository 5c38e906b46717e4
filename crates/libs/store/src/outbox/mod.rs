//! Transactional outbox: events that commit with the change that caused them, and cursors of their consumers.
//!
//! Events are totally ordered. On PostgreSQL, where transactions overlap, a reader sees an event only once no earlier
//! one can still commit, so no event appears behind a cursor. Notifications are only wake-ups; the rows are
//! authoritative.

mod seq;
mod settle;

pub use seq::Seq;
use settle::wake_soon;

use std::sync::atomic::Ordering;

use agentd_base::Timestamp;
use agentd_base::trace::{self, TraceContext};

use crate::read::Read;
use crate::row::Row;
use crate::rows::batch_size;
use crate::topic::OUTBOX;
use crate::{Args, Db, Dialect, StoreError, Tx, args};

agentd_base::typed_id!(
    /// Id of an event.
    EventId,
    "evt"
);
crate::stored_ids!(EventId);

/// Event to be emitted.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// Event type, such as `project.created`.
    pub event_type: String,
    pub data: serde_json::Value,
    /// Agent whose hooks receive the event, in addition to global hooks.
    pub agent: Option<String>,
}

impl NewEvent {
    #[must_use]
    pub fn new(event_type: impl Into<String>, data: serde_json::Value) -> Self {
        Self { event_type: event_type.into(), data, agent: None }
    }

    #[must_use]
    pub fn for_agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }
}

/// Event stored in the outbox.
#[derive(Debug, Clone)]
pub struct Event {
    pub seq: Seq,
    pub id: EventId,
    pub event_type: String,
    pub data: serde_json::Value,
    pub agent: Option<String>,
    /// Trace context in which the event was emitted.
    pub trace: Option<TraceContext>,
    pub created_at: Timestamp,
}

/// Start position of a new consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorStart {
    /// Oldest retained event.
    Beginning,
    /// Events committed from now on. On PostgreSQL this may include events committed shortly before.
    Now,
}

fn event(row: &Row) -> Result<Event, StoreError> {
    let id: EventId = row.get("id")?;
    // One unreadable event must not block all later ones.
    let data = row.json("data").unwrap_or_else(|error| {
        tracing::error!(event = %id, %error, "event data is unreadable; delivering event without data");
        serde_json::Value::Null
    });
    Ok(Event {
        seq: Seq { transaction: row.get("tx_id")?, number: row.get("seq")? },
        id,
        event_type: row.get("event_type")?,
        data,
        agent: row.get("agent")?,
        trace: row.trace()?,
        created_at: row.get("created_at")?,
    })
}

impl Read {
    /// Returns up to `limit` settled events after `after`, in order. For readers that store their position themselves.
    pub async fn events_after(&mut self, after: Seq, limit: u32) -> Result<Vec<Event>, StoreError> {
        let dialect = self.dialect();
        let sql = format!(
            "SELECT tx_id, seq, id, event_type, agent, data, traceparent, created_at FROM outbox \
             WHERE {after} AND {settled} ORDER BY {order} LIMIT $3",
            after = dialect.pick("$1 = $1 AND seq > $2", "(tx_id, seq) > ($1, $2)"),
            settled = dialect.settled_events(),
            order = dialect.pick("seq", "tx_id, seq"),
        );
        let rows = self.fetch_all(sql, args![after.transaction, after.number, limit]).await?;
        if dialect == Dialect::Postgres && rows.len() < limit as usize {
            if !rows.is_empty() {
                // The reader makes progress: under a steady load some events are always unsettled.
                self.shared.outbox_retries.store(0, Ordering::Relaxed);
            }
            self.wake_when_settled(after).await?;
        }
        rows.iter().map(event).collect()
    }

    /// Schedules a wake-up: events that are committed but not settled are not notified again.
    async fn wake_when_settled(&mut self, after: Seq) -> Result<(), StoreError> {
        let hidden = self
            .fetch_optional(
                "SELECT 1 AS hidden FROM outbox WHERE (tx_id, seq) > ($1, $2) \
                 AND tx_id >= pg_snapshot_xmin(pg_current_snapshot())::text::bigint LIMIT 1",
                args![after.transaction, after.number],
            )
            .await?;
        match hidden {
            Some(_) => wake_soon(&self.shared),
            None => self.shared.outbox_retries.store(0, Ordering::Relaxed),
        }
        Ok(())
    }

    /// Whether the event at this position is retained, and therefore all later ones.
    pub async fn is_event_retained(&mut self, seq: Seq) -> Result<bool, StoreError> {
        let sql = "SELECT tx_id FROM outbox WHERE seq = $1";
        match self.fetch_optional(sql, args![seq.number]).await? {
            Some(row) => Ok(row.get::<i64>("tx_id")? == seq.transaction),
            None => Ok(false),
        }
    }

    /// Returns the position of the last settled event.
    pub async fn last_seq(&mut self) -> Result<Seq, StoreError> {
        let dialect = self.dialect();
        let sql = format!(
            "SELECT tx_id, seq FROM outbox WHERE {settled} ORDER BY {order} LIMIT 1",
            settled = dialect.settled_events(),
            order = dialect.pick("seq DESC", "tx_id DESC, seq DESC"),
        );
        match self.fetch_optional(sql, args![]).await? {
            Some(row) => Ok(Seq { transaction: row.get("tx_id")?, number: row.get("seq")? }),
            None => Ok(Seq::START),
        }
    }

    /// Counts the events that the slowest consumer has not read, up to `limit`; 0 without consumers.
    pub async fn count_unread_events(&mut self, limit: u32) -> Result<u64, StoreError> {
        let slowest =
            self.fetch_optional("SELECT tx_id, seq FROM cursors ORDER BY tx_id, seq LIMIT 1", args![]).await?;
        let Some(row) = slowest else { return Ok(0) };
        let (transaction, number): (i64, i64) = (row.get("tx_id")?, row.get("seq")?);
        let sql = format!(
            "SELECT COUNT(*) FROM (SELECT seq FROM outbox WHERE {} LIMIT $3) AS unread",
            self.dialect().pick("$1 = $1 AND seq > $2", "(tx_id, seq) > ($1, $2)")
        );
        self.fetch_one(sql, args![transaction, number, limit]).await?.first()
    }

    /// Returns the cursor of a consumer; `None` before its first [`advance_cursor`](Tx::advance_cursor).
    pub async fn find_cursor(&mut self, consumer: &str) -> Result<Option<Seq>, StoreError> {
        let row = self.fetch_optional("SELECT tx_id, seq FROM cursors WHERE consumer = $1", args![consumer]).await?;
        row.map(|row| Ok(Seq { transaction: row.get("tx_id")?, number: row.get("seq")? })).transpose()
    }
}

impl Tx {
    /// Emits an event, visible once this transaction has committed.
    pub async fn emit(&mut self, event: NewEvent) -> Result<EventId, StoreError> {
        let id = EventId::generate(self.ids());
        let now = self.clock().now();
        self.execute(
            "INSERT INTO outbox (id, event_type, agent, data, created_at, traceparent) VALUES ($1, $2, $3, $4, $5, $6)",
            args![&id, event.event_type, event.agent, event.data, now, trace::current()],
        )
        .await?;
        self.wake(OUTBOX.name().to_owned());
        Ok(id)
    }

    /// Emits events in order, with many rows per statement.
    pub async fn emit_all(&mut self, events: Vec<NewEvent>) -> Result<(), StoreError> {
        let now = self.clock().now();
        let mut remaining = events.into_iter();
        while remaining.len() > 0 {
            let count = batch_size(remaining.len());
            let mut values = Args::with_capacity(2 + 4 * count);
            values.push(now);
            values.push(trace::current());
            let mut sql =
                String::from("INSERT INTO outbox (id, event_type, agent, data, created_at, traceparent) VALUES ");
            for (position, event) in remaining.by_ref().take(count).enumerate() {
                let comma = if position == 0 { "" } else { ", " };
                let id = values.push(EventId::generate(self.ids()));
                let (event_type, agent, data) =
                    (values.push(event.event_type), values.push(event.agent), values.push(event.data));
                sql.push_str(&format!("{comma}(${id}, ${event_type}, ${agent}, ${data}, $1, $2)"));
            }
            self.execute(sql, values).await?;
            self.wake(OUTBOX.name().to_owned());
        }
        Ok(())
    }

    /// Returns a position before every event of transactions that begin after this one commits, and after every event
    /// read before it began.
    pub async fn outbox_position(&mut self) -> Result<Seq, StoreError> {
        match self.dialect() {
            Dialect::Sqlite => {
                let row = self.fetch_one("SELECT COALESCE(MAX(seq), 0) AS seq FROM outbox", args![]).await?;
                Ok(Seq { transaction: 0, number: row.get("seq")? })
            }
            Dialect::Postgres => {
                let row = self.fetch_one("SELECT pg_current_xact_id()::text::bigint AS tx_id", args![]).await?;
                Ok(Seq { transaction: row.get("tx_id")?, number: i64::MAX })
            }
        }
    }

    /// Creates a cursor for a consumer unless it has one.
    pub async fn ensure_cursor(&mut self, consumer: &str, start: CursorStart) -> Result<(), StoreError> {
        let seq = match (start, self.dialect()) {
            (CursorStart::Beginning, _) => Seq::START,
            (CursorStart::Now, Dialect::Sqlite) => {
                let row = self.fetch_one("SELECT COALESCE(MAX(seq), 0) AS seq FROM outbox", args![]).await?;
                Seq { transaction: 0, number: row.get("seq")? }
            }
            (CursorStart::Now, Dialect::Postgres) => {
                let row = self
                    .fetch_one("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS tx_id", args![])
                    .await?;
                Seq { transaction: row.get::<i64>("tx_id")? - 1, number: i64::MAX }
            }
        };
        let now = self.clock().now();
        self.execute(
            "INSERT INTO cursors (consumer, tx_id, seq, updated_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (consumer) DO NOTHING",
            args![consumer, seq.transaction, seq.number, now],
        )
        .await?;
        Ok(())
    }

    /// Returns the next events for a consumer, in order. Process them and call [`advance_cursor`](Self::advance_cursor)
    /// in this transaction: then each event is processed exactly once across replicas.
    pub async fn read_outbox(&mut self, consumer: &str, limit: u32) -> Result<Vec<Event>, StoreError> {
        let after = self.find_cursor(consumer).await?.unwrap_or(Seq::START);
        self.events_after(after, limit).await
    }

    /// Advances a consumer's cursor past `seq`. A cursor never moves backwards.
    pub async fn advance_cursor(&mut self, consumer: &str, seq: Seq) -> Result<(), StoreError> {
        let now = self.clock().now();
        self.execute(
            "INSERT INTO cursors (consumer, tx_id, seq, updated_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (consumer) DO UPDATE \
             SET tx_id = excluded.tx_id, seq = excluded.seq, updated_at = excluded.updated_at \
             WHERE (cursors.tx_id, cursors.seq) < (excluded.tx_id, excluded.seq)",
            args![consumer, seq.transaction, seq.number, now],
        )
        .await?;
        Ok(())
    }

    /// Deletes a consumer's cursor, so that it no longer prevents pruning.
    pub async fn delete_cursor(&mut self, consumer: &str) -> Result<(), StoreError> {
        self.execute("DELETE FROM cursors WHERE consumer = $1", args![consumer]).await?;
        Ok(())
    }

    /// Deletes up to `limit` events scoped to an agent, read or not, and returns their number.
    pub async fn delete_agent_events(&mut self, agent: &str, limit: u32) -> Result<u64, StoreError> {
        self.execute(
            "DELETE FROM outbox WHERE seq IN (SELECT seq FROM outbox WHERE agent = $1 ORDER BY seq LIMIT $2)",
            args![agent, limit],
        )
        .await
    }

    /// Deletes up to `limit` events older than `before` that every cursor has passed, and returns their number. Call
    /// until the number is below `limit`.
    pub async fn prune_outbox(&mut self, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        let dialect = self.dialect();
        let slowest =
            self.fetch_optional("SELECT tx_id, seq FROM cursors ORDER BY tx_id, seq LIMIT 1", args![]).await?;
        let mut args: Args = args![before, limit];
        let behind = match slowest {
            None => String::new(),
            Some(row) => {
                let (transaction, number): (i64, i64) = (row.get("tx_id")?, row.get("seq")?);
                let (transaction, number) = (args.push(transaction), args.push(number));
                match dialect {
                    Dialect::Sqlite => format!("AND ${transaction} = ${transaction} AND seq <= ${number}"),
                    Dialect::Postgres => format!("AND (tx_id, seq) <= (${transaction}, ${number})"),
                }
            }
        };
        // The order bounds the scan to the oldest events.
        let sql = format!(
            "DELETE FROM outbox WHERE seq IN (SELECT seq FROM (SELECT seq, created_at FROM outbox \
             WHERE {settled} {behind} ORDER BY {order} LIMIT $2) AS oldest WHERE created_at < $1)",
            settled = dialect.settled_events(),
            order = dialect.pick("seq", "tx_id, seq"),
        );
        self.execute(sql, args).await
    }
}

impl Db {
    /// Watches for new events. It is only a wake-up hint: poll the outbox every few seconds as well.
    #[must_use]
    pub fn watch_outbox(&self) -> tokio::sync::watch::Receiver<u64> {
        self.watch(OUTBOX)
    }

    /// Wakes all watchers of the outbox in this process.
    pub fn wake_outbox(&self) {
        self.shared().signals.bump(OUTBOX.name());
    }
}
