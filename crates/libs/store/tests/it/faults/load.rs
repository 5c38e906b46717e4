//! Load on the store: transactions of many requests, stream tokens, an outbox reader and queue workers; and a ledger of
//! acknowledged results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use agentd_store::{Db, Event, Lease, NewEvent, NewItem, Recorder, Seq, StoreError, StoredResponse, Tx, args};
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::json;

pub(super) const TABLES: &[&str] = &[
    "CREATE TABLE parts (write_key TEXT NOT NULL, part BIGINT NOT NULL, filler TEXT NOT NULL, \
     PRIMARY KEY (write_key, part))",
    "CREATE TABLE tokens (token TEXT PRIMARY KEY NOT NULL)",
    "CREATE TABLE heard (event TEXT PRIMARY KEY NOT NULL)",
    "CREATE TABLE finished (item TEXT PRIMARY KEY NOT NULL)",
];
pub(super) const CONSUMER: &str = "reader";
pub(super) const QUEUE: &str = "work";
pub(super) const CREDENTIAL: &str = "key_1";
/// Number of rows of a write in its table.
pub(super) const PARTS: i64 = 3;

const ROUNDS: u32 = 6;
const WRITES_PER_ROUND: u32 = 8;
const TOKENS_PER_ROUND: u32 = 3;
const LEASE: Duration = Duration::from_secs(30);
/// Enough bytes to start a concurrent checkpoint.
const LARGE_BYTES: usize = 9 << 20;

/// Ledger of requests and of results that were acknowledged.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) asked: BTreeSet<String>,
    pub(super) refused: BTreeSet<String>,
    pub(super) written: BTreeSet<String>,
    pub(super) tokens: BTreeSet<String>,
    pub(super) heard: BTreeSet<String>,
    pub(super) finished: BTreeSet<String>,
    /// Responses that no caller should receive.
    pub(super) violations: Vec<String>,
    /// Reported errors, by code.
    pub(super) errors: BTreeMap<String, u32>,
}

#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) ledger: Arc<Mutex<Ledger>>,
    /// Deliberate misbehaviour, to prove that it would be detected.
    answers_before_commit: bool,
    writes_much: bool,
}

fn recorder(key: &str) -> Recorder<String> {
    let render = Arc::new(|key: &String| StoredResponse::Answer { status: 201, body: key.clone() });
    Recorder::new(CREDENTIAL, key, "POST /writes", [7; 32], render)
}

/// Performs all work of one request in one transaction.
async fn write(tx: &mut Tx, key: &str) -> Result<(), StoreError> {
    for part in 0..PARTS {
        let filler = format!("{key} {part} ").repeat(60);
        tx.execute("INSERT INTO parts (write_key, part, filler) VALUES ($1, $2, $3)", args![key, part, filler]).await?;
    }
    tx.emit(NewEvent::new("write.done", json!({"key": key}))).await?;
    let run_at = tx.clock().now();
    let payload = json!({"key": key});
    let item = NewItem { queue: QUEUE.to_owned(), dedup_key: Some(key.to_owned()), payload, run_at, max_attempts: 100 };
    tx.enqueue(item).await?;
    recorder(key).record(tx, &key.to_owned()).await
}

impl Load {
    pub(super) fn new(answers_before_commit: bool, writes_much: bool) -> Self {
        Self { ledger: Arc::default(), answers_before_commit, writes_much }
    }

    /// Runs a part of the load; the database is reopened between the parts.
    pub(super) async fn run_part(&self, db: &Db, part: u32) {
        for round in 0..ROUNDS {
            let name = format!("{part}.{round}");
            let tokens = (0..TOKENS_PER_ROUND).map(|token| self.token(db, format!("{name}.before.{token}")));
            join_all(tokens).await;
            let writes = (0..WRITES_PER_ROUND).map(|write| self.write(db, format!("{name}.{write}"), write % 4 == 3));
            join_all(writes).await;
            self.read(db).await;
            self.read_outbox(db).await;
            self.work(db).await;
            if self.writes_much && (part, round) == (1, 2) {
                self.write_much(db).await;
            }
            join_all((0..TOKENS_PER_ROUND).map(|token| self.token(db, format!("{name}.after.{token}")))).await;
        }
    }

    /// Performs a request with its own key. Some roll back at the end and leave nothing.
    async fn write(&self, db: &Db, key: String, gives_up: bool) {
        {
            let mut ledger = self.ledger.lock();
            if gives_up {
                ledger.refused.insert(key.clone())
            } else {
                ledger.asked.insert(key.clone())
            };
        }
        let (name, load) = (key.clone(), self.clone());
        let answer: Result<(), StoreError> = db
            .write(async move |tx: &mut Tx| {
                write(tx, &name).await?;
                if gives_up {
                    return Err(StoreError::NoRow);
                }
                if load.answers_before_commit {
                    load.ledger.lock().written.insert(name.clone());
                }
                Ok(())
            })
            .await;
        match answer {
            Err(StoreError::NoRow) if gives_up => {}
            answer => self.note(answer.map(|()| key), |ledger| &mut ledger.written),
        }
    }

    async fn token(&self, db: &Db, token: String) {
        let name = token.clone();
        let answer: Result<u64, StoreError> = db
            .write_relaxed(async move |tx: &mut Tx| {
                tx.execute("INSERT INTO tokens (token) VALUES ($1)", args![&name]).await
            })
            .await;
        self.note(answer.map(|_| token), |ledger| &mut ledger.tokens);
    }

    /// Checks that acknowledged writes are immediately readable.
    async fn read(&self, db: &Db) {
        let known = self.ledger.lock().written.clone();
        let read = async {
            let rows = db.read().await?.fetch_all("SELECT DISTINCT write_key FROM parts", args![]).await?;
            rows.iter().map(|row| row.get::<String>("write_key")).collect::<Result<BTreeSet<_>, _>>()
        };
        match read.await {
            Ok(there) if self.answers_before_commit => drop(there),
            Ok(there) => {
                let missing: Vec<_> = known.difference(&there).cloned().collect();
                let mut ledger = self.ledger.lock();
                ledger
                    .violations
                    .extend(missing.into_iter().map(|key| format!("{key} was acknowledged and is not read")));
            }
            Err(error) => self.note::<String>(Err(error), |ledger| &mut ledger.written),
        }
    }

    /// Reads the outbox, records each event and advances the cursor in one transaction.
    async fn read_outbox(&self, db: &Db) {
        let heard: Result<Vec<Event>, StoreError> = db
            .write(async |tx: &mut Tx| {
                let events = tx.read_outbox(CONSUMER, 10).await?;
                for event in &events {
                    tx.execute("INSERT INTO heard (event) VALUES ($1)", args![&event.id]).await?;
                }
                tx.advance_cursor(CONSUMER, events.last().map_or(Seq::START, |event| event.seq)).await?;
                Ok(events)
            })
            .await;
        match heard {
            Ok(events) => self.ledger.lock().heard.extend(events.iter().map(|event| event.id.to_string())),
            Err(error) => self.note::<String>(Err(error), |ledger| &mut ledger.heard),
        }
    }

    /// Claims items and completes each together with its work.
    async fn work(&self, db: &Db) {
        let leases = match db.claim(QUEUE, "worker", 4, LEASE).await {
            Ok(leases) => leases,
            Err(error) => return self.note::<String>(Err(error), |ledger| &mut ledger.finished),
        };
        join_all(leases.into_iter().map(|lease| self.finish(db, lease))).await;
    }

    async fn finish(&self, db: &Db, lease: Lease) {
        let item = lease.id.to_string();
        let answer: Result<(), StoreError> = db
            .write(async move |tx: &mut Tx| {
                tx.execute("INSERT INTO finished (item) VALUES ($1)", args![&lease.id]).await?;
                tx.complete(&lease).await
            })
            .await;
        self.note(answer.map(|()| item), |ledger| &mut ledger.finished);
    }

    async fn write_much(&self, db: &Db) {
        let much: Result<(), StoreError> = db
            .write_relaxed(async |tx: &mut Tx| {
                let filler = "x".repeat(LARGE_BYTES);
                let sql = "INSERT INTO parts (write_key, part, filler) VALUES ('large', 0, $1) \
                           ON CONFLICT (write_key, part) DO NOTHING";
                tx.execute(sql, args![filler]).await?;
                Ok(())
            })
            .await;
        if let Err(error) = much {
            self.note::<String>(Err(error), |ledger| &mut ledger.tokens);
        }
    }

    /// Checks the outcome: the only permitted error is that the database is unavailable.
    fn note<T: Into<String>>(&self, answer: Result<T, StoreError>, of: fn(&mut Ledger) -> &mut BTreeSet<String>) {
        use agentd_base::DomainError as _;
        let mut ledger = self.ledger.lock();
        match answer {
            Ok(name) => {
                of(&mut ledger).insert(name.into());
            }
            Err(error) => {
                *ledger.errors.entry(error.code().to_owned()).or_default() += 1;
                // PostgreSQL may also report a conflict.
                if !error.is_unavailable() && !matches!(error, StoreError::Contended) {
                    ledger.violations.push(format!("the answer was {error:?}"));
                }
            }
        }
    }
}

/// Repeats an unanswered request with the same key.
pub(super) async fn write_again(db: &Db, key: &str) -> Result<(), StoreError> {
    if db.read().await?.find_response(CREDENTIAL, key).await?.is_some() {
        return Ok(());
    }
    write_once(db, key).await
}

pub(super) async fn write_once(db: &Db, key: &str) -> Result<(), StoreError> {
    let key = key.to_owned();
    db.write(async move |tx: &mut Tx| write(tx, &key).await).await
}
