//! Events that commit with the change that caused them, and the cursors of those who read them.
//!
//! Events have one strict order. On PostgreSQL, where transactions overlap, a reader sees an event
//! only when nothing can commit before it any more; so nothing ever appears behind a cursor.
//! Notifications only wake; the rows are the truth.

mod seq;
mod settle;

pub use seq::Seq;
use settle::wake_soon;

use std::sync::atomic::Ordering;

use agentd_base::Timestamp;
use agentd_base::trace::{self, TraceContext};

use crate::read::Read;
use crate::row::Row;
use crate::rows::batch_of;
use crate::topic::OUTBOX;
use crate::{Args, Db, Dialect, StoreError, Tx, args};

agentd_base::typed_id!(
    /// The id of an event.
    EventId,
    "evt"
);
crate::stored_ids!(EventId);

/// An event to be emitted.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// `project.created` and the like.
    pub event_type: String,
    pub data: serde_json::Value,
    /// The agent whose hooks alone hear it, besides the global ones.
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

/// An event as it stands in the outbox.
#[derive(Debug, Clone)]
pub struct Event {
    pub seq: Seq,
    pub id: EventId,
    pub event_type: String,
    pub data: serde_json::Value,
    pub agent: Option<String>,
    /// Where in a trace it happened, if anywhere.
    pub trace: Option<TraceContext>,
    pub created_at: Timestamp,
}

/// Where a new consumer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorStart {
    /// With the oldest event that is still kept.
    Beginning,
    /// With what commits from now on. On PostgreSQL it may also hear what committed just before.
    Now,
}

fn event(row: &Row) -> Result<Event, StoreError> {
    let id: EventId = row.get("id")?;
    // One event that cannot be read must not keep every reader from those behind it.
    let data = row.json("data").unwrap_or_else(|error| {
        tracing::error!(event = %id, %error, "the data of an event cannot be read; it is passed on without them");
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
    /// Up to `limit` events after `after`, in order, that are final. For readers who keep their
    /// place themselves.
    ///
    /// # Errors
    /// What the database refuses.
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
                // It gets on: under a steady load something is always not final yet.
                self.shared.outbox_looks.store(0, Ordering::Relaxed);
            }
            self.wake_when_settled(after).await?;
        }
        rows.iter().map(event).collect()
    }

    /// Events that are committed but not final will not be notified again, so look again soon.
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
            None => self.shared.outbox_looks.store(0, Ordering::Relaxed),
        }
        Ok(())
    }

    /// Whether the event at this place is still kept; those after it are, then.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn keeps_event(&mut self, place: Seq) -> Result<bool, StoreError> {
        let sql = "SELECT tx_id FROM outbox WHERE seq = $1";
        match self.fetch_optional(sql, args![place.number]).await? {
            Some(row) => Ok(row.get::<i64>("tx_id")? == place.transaction),
            None => Ok(false),
        }
    }

    /// The place after the last final event.
    ///
    /// # Errors
    /// What the database refuses.
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

    /// How many events the slowest consumer has still to read; not counted beyond `most`. None where
    /// nobody reads.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn count_unread_events(&mut self, most: u32) -> Result<u64, StoreError> {
        let slowest =
            self.fetch_optional("SELECT tx_id, seq FROM cursors ORDER BY tx_id, seq LIMIT 1", args![]).await?;
        let Some(row) = slowest else { return Ok(0) };
        let (transaction, number): (i64, i64) = (row.get("tx_id")?, row.get("seq")?);
        let sql = format!(
            "SELECT COUNT(*) FROM (SELECT seq FROM outbox WHERE {} LIMIT $3) AS unread",
            self.dialect().pick("$1 = $1 AND seq > $2", "(tx_id, seq) > ($1, $2)")
        );
        self.fetch_one(sql, args![transaction, number, most]).await?.first()
    }

    /// Where a consumer stands; `None` before its first [`advance_cursor`](Tx::advance_cursor).
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn find_cursor(&mut self, consumer: &str) -> Result<Option<Seq>, StoreError> {
        let row = self.fetch_optional("SELECT tx_id, seq FROM cursors WHERE consumer = $1", args![consumer]).await?;
        row.map(|row| Ok(Seq { transaction: row.get("tx_id")?, number: row.get("seq")? })).transpose()
    }
}

impl Tx {
    /// Adds an event, to be heard once this transaction has committed.
    ///
    /// # Errors
    /// What the database refuses.
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

    /// Adds events in this order, many rows a statement.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn emit_all(&mut self, events: Vec<NewEvent>) -> Result<(), StoreError> {
        let now = self.clock().now();
        let mut left = events.into_iter();
        while left.len() > 0 {
            let count = batch_of(left.len());
            let mut values = Args::with_capacity(2 + 4 * count);
            values.push(now);
            values.push(trace::current());
            let mut sql =
                String::from("INSERT INTO outbox (id, event_type, agent, data, created_at, traceparent) VALUES ");
            for (position, event) in left.by_ref().take(count).enumerate() {
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

    /// A place before every event of a transaction that begins after this one has committed, and behind
    /// every one that was read before it began.
    ///
    /// # Errors
    /// What the database refuses.
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

    /// Makes sure that a consumer has a cursor; one that is there stays where it is.
    ///
    /// # Errors
    /// What the database refuses.
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

    /// The next events for a consumer, in order. Do what they call for and
    /// [`advance_cursor`](Self::advance_cursor) in this same transaction: then each event is worked
    /// on exactly once, whichever replica reads it.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn read_outbox(&mut self, consumer: &str, limit: u32) -> Result<Vec<Event>, StoreError> {
        let after = self.find_cursor(consumer).await?.unwrap_or(Seq::START);
        self.events_after(after, limit).await
    }

    /// Moves a consumer's cursor behind `seq`. A cursor never goes back.
    ///
    /// # Errors
    /// What the database refuses.
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

    /// Forgets a consumer, so that it no longer keeps events from being pruned.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn delete_cursor(&mut self, consumer: &str) -> Result<(), StoreError> {
        self.execute("DELETE FROM cursors WHERE consumer = $1", args![consumer]).await?;
        Ok(())
    }

    /// Deletes up to `limit` events that are scoped to an agent, read or not; answers how many.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn forget_events_of(&mut self, agent: &str, limit: u32) -> Result<u64, StoreError> {
        self.execute(
            "DELETE FROM outbox WHERE seq IN (SELECT seq FROM outbox WHERE agent = $1 ORDER BY seq LIMIT $2)",
            args![agent, limit],
        )
        .await
    }

    /// Deletes up to `limit` events that are older than `before` and behind every cursor; answers
    /// how many. Call until it answers less than `limit`.
    ///
    /// # Errors
    /// What the database refuses.
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
        // The oldest stand first, so no more than these are looked at, however many there are.
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
    /// Tells when there may be new events. It only wakes: look into the outbox, and also look every
    /// few seconds without it.
    #[must_use]
    pub fn watch_outbox(&self) -> tokio::sync::watch::Receiver<u64> {
        self.watch(OUTBOX)
    }

    /// Wakes everyone who watches the outbox in this process.
    pub fn wake_outbox(&self) {
        self.shared().signals.bump(OUTBOX.name());
    }
}
