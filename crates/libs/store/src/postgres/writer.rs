//! Concurrent transactions on one thread.
//!
//! Each transaction is SERIALIZABLE, so that a closure may rely on what it read exactly as on SQLite's single writer:
//! of two concurrent closures that count the users and then insert the first one, only one succeeds. PostgreSQL aborts
//! some overlapping transactions; they are retried with jittered backoff up to a limit. Queue claims lock the rows they
//! take and run at READ COMMITTED, where they never conflict.
//!
//! A connection that fails before the commit was sent has changed nothing, so the closure runs once more. If it fails
//! during the commit, or the response is missing, the outcome is unknown: the caller gets an unavailable error, and the
//! closure is not retried.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::server::PING_AFTER;
use super::{Pooled, Presence, Server, notify};
use crate::job::{Durability, Isolation, Job, Message, Outcome, Plan, mark_transaction_thread};
use crate::read::{Connection, Read};
use crate::shared::Shared;
use crate::{StoreError, Topic, Tx};

/// Maximum number of concurrent transactions.
const SLOTS: usize = 10;
/// Includes one connection for notifying and one for listening.
const CONNECTIONS: u32 = 12;
const MAX_ATTEMPTS: u32 = 25;
const MIN_BACKOFF: Duration = Duration::from_millis(2);
const MAX_BACKOFF: Duration = Duration::from_millis(250);
/// Rows per topic. Its version is their sum, and transactions that write different rows do not conflict.
const SHARDS: usize = 64;

struct Slots {
    free: RefCell<Vec<usize>>,
    offset: usize,
}

/// Resources shared by all transactions.
struct Context {
    pool: PgPool,
    server: Arc<Server>,
    shared: Arc<Shared>,
    slots: Slots,
    outgoing: Rc<notify::Outgoing>,
}

pub(super) fn start(
    server: Arc<Server>,
    shared: Arc<Shared>,
    presence: Arc<Presence>,
    inbox: mpsc::Receiver<Message>,
) -> Result<(), StoreError> {
    let failed = |e| StoreError::io("starting the writer for", "PostgreSQL", e);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    std::thread::Builder::new()
        .name("store-writer".to_owned())
        .spawn(move || {
            mark_transaction_thread();
            let done = tokio::task::LocalSet::new().block_on(&runtime, run(server, shared, presence, inbox));
            if let Some(done) = done {
                let _ = done.send(());
            }
        })
        .map_err(failed)?;
    Ok(())
}

async fn run(
    server: Arc<Server>,
    shared: Arc<Shared>,
    presence: Arc<Presence>,
    mut inbox: mpsc::Receiver<Message>,
) -> Option<oneshot::Sender<()>> {
    let limits = server.limits;
    let pool = server
        .pool_options(CONNECTIONS)
        .before_acquire(move |connection, meta| {
            Box::pin(async move {
                if meta.idle_for >= PING_AFTER {
                    Server::ping(connection, limits).await?;
                }
                Ok(true)
            })
        })
        .connect_lazy_with(server.options.clone());
    let offset = usize::from(shared.entropy.bytes::<1>()[0]);
    let outgoing = Rc::new(notify::Outgoing::new(&shared));
    let context = Rc::new(Context {
        pool: pool.clone(),
        server: Arc::clone(&server),
        shared: Arc::clone(&shared),
        slots: Slots { free: RefCell::new((0..SLOTS).collect()), offset },
        outgoing: Rc::clone(&outgoing),
    });
    let sender = tokio::task::spawn_local(notify::send(pool.clone(), Arc::clone(&server), Rc::clone(&outgoing)));
    let own = outgoing.replica().to_owned();
    let listener = tokio::task::spawn_local(notify::listen(pool.clone(), server, shared, presence, own));

    let mut running = JoinSet::new();
    let mut closing = None;
    loop {
        if running.len() >= SLOTS {
            running.join_next().await;
            continue;
        }
        tokio::select! {
            message = inbox.recv() => match message {
                Some(Message::Job(job)) => {
                    running.spawn_local(run_job(Rc::clone(&context), job));
                }
                Some(Message::Close(done)) => {
                    inbox.close();
                    closing = Some(done);
                }
                None => break,
            },
            Some(_) = running.join_next(), if !running.is_empty() => {}
        }
    }
    while running.join_next().await.is_some() {}
    listener.abort();
    sender.abort();
    // The listener unsubscribes on its connection, which may be unresponsive.
    drop(tokio::time::timeout(limits.answer(), pool.close()).await);
    closing
}

/// Transaction slot, returned on drop.
struct Slot<'c> {
    slots: &'c Slots,
    number: usize,
}

impl Slot<'_> {
    fn shard(&self) -> usize {
        (self.slots.offset + self.number) % SHARDS
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.slots.free.borrow_mut().push(self.number);
    }
}

enum Attempt {
    Done,
    /// The idle connection had died or was unresponsive; the closure did not run.
    NotStarted(StoreError),
    Retry(StoreError),
    Failed(StoreError),
}

async fn run_job(context: Rc<Context>, mut job: Box<dyn Job>) {
    let number = context.slots.free.borrow_mut().pop().unwrap_or_default();
    let slot = Slot { slots: &context.slots, number };
    let mut lost_connections = 0;
    for attempt in 1..=MAX_ATTEMPTS {
        match context.attempt(&mut *job, slot.shard()).await {
            Attempt::Done => return job.answer(Ok(())),
            Attempt::Failed(error) => return job.answer(Err(error)),
            // The pool discards the connection; in the worst case all of them have died.
            Attempt::NotStarted(_) if attempt <= CONNECTIONS => {}
            Attempt::NotStarted(error) => return job.answer(Err(error)),
            Attempt::Retry(error) => {
                if error.is_lost_connection() {
                    lost_connections += 1;
                }
                if attempt == MAX_ATTEMPTS || lost_connections > 1 {
                    return job.answer(Err(error));
                }
                tokio::time::sleep(context.backoff(attempt)).await;
            }
        }
    }
}

impl Context {
    fn backoff(&self, attempt: u32) -> Duration {
        let longest = MIN_BACKOFF.saturating_mul(1 << attempt.min(10)).min(MAX_BACKOFF);
        longest.mul_f64(self.shared.entropy.unit())
    }

    async fn attempt(&self, job: &mut dyn Job, shard: usize) -> Attempt {
        let connection = match Pooled::acquire(&self.pool, &self.server).await {
            Ok(connection) => connection,
            // Retrying is pointless if the server is unavailable: the pool has already tried for seconds.
            Err(error @ sqlx::Error::PoolTimedOut) => return Attempt::Failed(error.into()),
            Err(error) => return not_started(error.into()),
        };
        let begun = match connection.begin(begin(job.plan())).await {
            Ok(transaction) => transaction,
            Err(error) => return not_started(error),
        };
        let mut tx = Tx::new(Read::new(Connection::PostgresTransaction(begun), Arc::clone(&self.shared), true));
        let outcome = job.run(&mut tx).await;
        let prepared = match outcome {
            Outcome::Commit => tx.bump_versions(shard).await,
            Outcome::RollBack => Err(StoreError::Aborted),
        };
        let Tx { read, touched, woken, .. } = tx;
        let Connection::PostgresTransaction(transaction) = read.connection else {
            return Attempt::Failed(StoreError::Closed);
        };
        if let Err(error) = prepared {
            transaction.rollback().await;
            let cause = read.failure.unwrap_or(error);
            return match (outcome, cause) {
                (_, cause @ StoreError::Contended) => Attempt::Retry(cause),
                (_, cause) if cause.is_lost_connection() => Attempt::Retry(cause),
                (Outcome::RollBack, _) => Attempt::Done,
                (Outcome::Commit, cause) => Attempt::Failed(cause),
            };
        }
        match transaction.commit().await {
            Ok(()) => {
                self.notify_changes(&touched, woken);
                Attempt::Done
            }
            Err(StoreError::Contended) => Attempt::Retry(StoreError::Contended),
            Err(error) => {
                // The transaction may have been committed.
                self.notify_changes(&touched, woken);
                Attempt::Failed(error)
            }
        }
    }

    /// Notifies local watchers immediately and other replicas soon.
    fn notify_changes(&self, touched: &[Topic], woken: Vec<String>) {
        let names = touched.iter().map(|topic| topic.name().to_owned()).chain(woken);
        for name in names {
            self.shared.signals.bump(&name);
            self.outgoing.add(name);
        }
    }
}

fn not_started(error: StoreError) -> Attempt {
    if error.is_unavailable() { Attempt::NotStarted(error) } else { Attempt::Failed(error) }
}

fn begin(plan: Plan) -> &'static str {
    match (plan.isolation, plan.durability) {
        (Isolation::Serializable, Durability::Full) => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        (Isolation::Serializable, Durability::Relaxed) => {
            "BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL synchronous_commit = off"
        }
        (Isolation::ReadCommitted, Durability::Full) => "BEGIN ISOLATION LEVEL READ COMMITTED",
        (Isolation::ReadCommitted, Durability::Relaxed) => {
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = off"
        }
    }
}
